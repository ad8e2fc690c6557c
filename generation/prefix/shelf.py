"""Pieces by key, read from SQL: only what is live, so nothing deleted gets into a prompt again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from core.errors import NotFound
from core.ids import CollectionId, DocumentId, TenantId
from generation.prefix.pieces import Piece, PieceKey, chunk_ids_of, chunk_key, whole_key
from generation.prompt import PassageLayout
from generation.prompt_passages import prompt_passage
from retrieval.passages import Passage
from storage.chunks import ChunkRepository, LiveChunk
from storage.database import Database
from storage.documents import DocumentRepository

_MAX_REMEMBERED_TOKENS = 2_000_000
"""Of all pieces together, some 70 MB: a whole document has as many as a hundred chunks."""


class PieceShelf:
    """Loads pieces and remembers their token ids. Safe to share between threads."""

    def __init__(self, database: Database, *, max_tokens: int = _MAX_REMEMBERED_TOKENS) -> None:
        self._database = database
        self._max_tokens = max_tokens
        self._token_ids: OrderedDict[tuple[PieceKey, str, bool], tuple[int, ...]] = OrderedDict()
        self._num_remembered = 0  # tokens
        self._lock = threading.Lock()

    def of_passages(
        self,
        tenant_id: TenantId,
        collection_id: CollectionId,
        passages: Sequence[Passage],
        layout: PassageLayout,
    ) -> tuple[Piece, ...]:
        """The chunks that the passages are made of, those of the best passage first, in text order.

        Prompts share chunks more often than passages, which are merged from them for one question.
        """
        ids = [chunk_id for passage in passages for chunk_id in passage.chunk_ids]
        with self._database.read() as session:
            live = ChunkRepository(session, tenant_id).find_live(collection_id, ids)
        return tuple(
            self._chunk(live[chunk_id], layout, found_in=passage)
            for passage in passages
            for chunk_id in passage.chunk_ids
            if chunk_id in live
        )

    def load(
        self,
        tenant_id: TenantId,
        collection_id: CollectionId,
        keys: Iterable[PieceKey],
        layout: PassageLayout,
    ) -> Mapping[PieceKey, Piece]:
        """Those of the keys that are chunks of live documents of the collection."""
        ids = chunk_ids_of(list(dict.fromkeys(keys)))
        with self._database.read() as session:
            live = ChunkRepository(session, tenant_id).find_live(collection_id, ids)
        return {chunk_key(chunk_id): self._chunk(chunk, layout) for chunk_id, chunk in live.items()}

    def count_tokens(self, tenant_id: TenantId, document_id: DocumentId) -> int:
        """Of the document's whole text, by the generator's tokenizer."""
        with self._database.read() as session:
            return ChunkRepository(session, tenant_id).count_generator_tokens(document_id)

    def whole(self, tenant_id: TenantId, document_id: DocumentId, layout: PassageLayout) -> Piece | None:
        """The document as one piece; None if it is gone or empty."""
        with self._database.read() as session:
            documents = DocumentRepository(session, tenant_id)
            try:
                document = documents.get(document_id)
            except NotFound:
                return None
            text = documents.read_text(document_id, 0, document.num_characters)
        if not text:
            return None
        passage = Passage(
            document_id=document_id,
            document_name=document.name,
            document_title=document.title or "",
            start=0,
            end=len(text),
            first_page=1,
            last_page=max(1, document.num_pages),
            headings=(),
            text=text,
            score=0.0,
            chunk_ids=(),
            dense_score=None,
            lexical_score=None,
            dense_rank=None,
            lexical_rank=None,
            num_generator_tokens=0,
            has_gaps=False,
        )
        piece = self._piece(whole_key(document_id), passage, layout)
        return replace(piece, passage=replace(passage, num_generator_tokens=len(piece)))

    def _chunk(self, chunk: LiveChunk, layout: PassageLayout, found_in: Passage | None = None) -> Piece:
        passage = Passage(
            document_id=chunk.document_id,
            document_name=chunk.document_name,
            document_title=chunk.document_title,
            start=chunk.start,
            end=chunk.end,
            first_page=chunk.first_page,
            last_page=chunk.last_page,
            headings=chunk.headings,
            text=chunk.text,
            score=found_in.score if found_in else 0.0,
            chunk_ids=(chunk.id,),
            dense_score=found_in.dense_score if found_in else None,
            lexical_score=found_in.lexical_score if found_in else None,
            dense_rank=found_in.dense_rank if found_in else None,
            lexical_rank=found_in.lexical_rank if found_in else None,
            num_generator_tokens=chunk.num_generator_tokens,
            has_gaps=False,
        )
        return self._piece(chunk_key(chunk.id), passage, layout)

    def _piece(self, key: PieceKey, passage: Passage, layout: PassageLayout) -> Piece:
        # A chunk's key says its text; the name in its header may change.
        memory_key = (key, passage.document_name, layout.is_numbered)
        with self._lock:
            token_ids = self._token_ids.get(memory_key)
            if token_ids is not None:
                self._token_ids.move_to_end(memory_key)
        if token_ids is None:
            token_ids = layout.passage_ids(
                prompt_passage(passage, passage.text, is_numbered=layout.is_numbered)
            )
            self._remember(memory_key, token_ids)
        return Piece(key, passage, token_ids)

    def _remember(self, key: tuple[PieceKey, str, bool], token_ids: tuple[int, ...]) -> None:
        """Those out of use longest are forgotten."""
        with self._lock:
            self._num_remembered += len(token_ids) - len(self._token_ids.get(key, ()))
            self._token_ids[key] = token_ids
            while self._num_remembered > self._max_tokens and len(self._token_ids) > 1:
                _, forgotten = self._token_ids.popitem(last=False)
                self._num_remembered -= len(forgotten)
