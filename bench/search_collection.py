"""A search set as a real collection: rows in SQLite, BM25 and FAISS files, the pipeline over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from bench.search_sets import Paragraph, SearchSet
from core.ids import ChunkId, CollectionId, DocumentId, TenantId, content_hash, derive_chunk_id, new_id
from inference.protocols import Embedder, Embeddings, Tokenizer
from ingest.chunking import ChunkDraft
from retrieval.dense_index import DenseIndex
from retrieval.index_writer import IndexedChunk, IndexWriter
from retrieval.indexed_text import embedding_text
from retrieval.lexical_index import LexicalIndex
from retrieval.pipeline import RetrievalPipeline
from storage.chunks import ChunkRepository
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.index_segments import IndexSegmentRepository
from storage.migrate import upgrade
from storage.models import Chunk, Page, Tenant


@dataclass(frozen=True, slots=True)
class CutDocument:
    """A document and its chunks."""

    id: str
    title: str
    text: str
    drafts: Sequence[ChunkDraft]


class MemoizingEmbedder:
    """Computes every text once in a run, in large batches; the vectors are the embedder's own.

    A benchmark asks thousands of questions of few paragraphs, whose sentences would be embedded
    again and again.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._passages: dict[str, tuple[NDArray[np.float32], int]] = {}
        self._queries: dict[str, tuple[NDArray[np.float32], int]] = {}

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def revision(self) -> str:
        return self._embedder.revision

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def max_tokens(self) -> int:
        return self._embedder.max_tokens

    @property
    def tokenizer(self) -> Tokenizer:
        return self._embedder.tokenizer

    def embed_passages(self, texts: Sequence[str]) -> Embeddings:
        missing = [text for text in dict.fromkeys(texts) if text not in self._passages]
        if missing:
            _remember(self._passages, missing, self._embedder.embed_passages(missing))
        return _recall(self._passages, texts)

    def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        missing = [text for text in dict.fromkeys(texts) if text not in self._queries]
        if missing:
            _remember(self._queries, missing, self._embedder.embed_queries(missing))
        return _recall(self._queries, texts)


class SearchBed:
    """A throw-away data folder with one tenant."""

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self.database = Database(f"sqlite:///{folder / 'bench.db'}")
        upgrade(self.database)
        self.tenant_id = TenantId(new_id("ten"))
        with self.database.write() as session:
            session.add(Tenant(id=self.tenant_id, name="bench"))
        self._embedder = embedder
        dense, lexical = DenseIndex(folder / "indexes"), LexicalIndex(folder / "indexes")
        self._writer = IndexWriter(dense=dense, lexical=lexical)
        self.pipeline = RetrievalPipeline(
            database=self.database, embedder=embedder, dense=dense, lexical=lexical
        )

    def add(self, search_set: SearchSet) -> tuple[CollectionId, dict[ChunkId, str]]:
        """Make the set findable, each paragraph a document of one chunk; its ids by chunk."""
        return self.add_documents(
            search_set.name, [self._uncut(p) for p in search_set.paragraphs if p.text.strip()]
        )

    def add_documents(
        self, name: str, documents: Sequence[CutDocument]
    ) -> tuple[CollectionId, dict[ChunkId, str]]:
        """Make the documents findable, as a collection of that name; their ids by chunk."""
        chunks = [(document, draft) for document in documents for draft in document.drafts]
        texts = [embedding_text(document.title, draft.headings, draft.text) for document, draft in chunks]
        vectors = self._embedder.embed_passages(texts).vectors
        with self.database.write() as session:
            collection_id = CollectionId(CollectionRepository(session, self.tenant_id).create(name).id)
            ids, names = [], {}
            for document in documents:
                document_id, own = self._store(session, collection_id, document)
                ids += [(document_id, chunk_id) for chunk_id in own]
                names.update(dict.fromkeys(own, document.id))
            indexed = [
                IndexedChunk(chunk_id, document_id, text)
                for (document_id, chunk_id), text in zip(ids, texts, strict=True)
            ]
            segment = self._writer.index(collection_id, indexed, vectors)
            IndexSegmentRepository(session, self.tenant_id).add(
                segment.id,
                collection_id,
                model_revision=self._embedder.revision,
                kind=segment.kind,
                num_vectors=segment.num_vectors,
            )
        return collection_id, names

    def close(self) -> None:
        self.database.dispose()

    def _store(
        self, session: Session, collection_id: CollectionId, document: CutDocument
    ) -> tuple[DocumentId, list[ChunkId]]:
        row = DocumentRepository(session, self.tenant_id).create(
            collection_id,
            name=document.id,
            content_hash=content_hash(f"{document.id}\0{document.title}\0{document.text}"),
            num_bytes=len(document.text.encode()),
        )
        row.title, row.status = document.title, "ready"
        document_id = DocumentId(row.id)
        chunks = [self._chunk(document_id, collection_id, draft) for draft in document.drafts]
        ChunkRepository(session, self.tenant_id).replace(document_id, chunks)
        # What quotes are checked against.
        length = len(document.text)
        session.add(
            Page(
                document_id=document_id,
                number=1,
                tenant_id=self.tenant_id,
                start=0,
                end=length,
                text=document.text,
            )
        )
        row.num_characters, row.num_pages = length, 1
        return document_id, [ChunkId(chunk.id) for chunk in chunks]

    def _chunk(self, document_id: DocumentId, collection_id: CollectionId, draft: ChunkDraft) -> Chunk:
        return Chunk(
            id=derive_chunk_id(document_id, draft.position, draft.text),
            tenant_id=self.tenant_id,
            collection_id=collection_id,
            document_id=document_id,
            position=draft.position,
            start=draft.start,
            end=draft.end,
            first_page=draft.first_page,
            last_page=draft.last_page,
            headings=list(draft.headings),
            text=draft.text,
            num_tokens=draft.num_tokens,
            num_generator_tokens=draft.num_generator_tokens,
        )

    def _uncut(self, paragraph: Paragraph) -> CutDocument:
        text = paragraph.text
        num_tokens = self._embedder.tokenizer.count(text)
        draft = ChunkDraft(0, 0, len(text), 1, 1, (), text, num_tokens, num_tokens)
        return CutDocument(paragraph.id, paragraph.title, text, (draft,))


_Memory = dict[str, tuple[NDArray[np.float32], int]]


def _remember(memory: _Memory, texts: Sequence[str], embedded: Embeddings) -> None:
    memory.update(zip(texts, zip(embedded.vectors, embedded.num_tokens, strict=True), strict=True))


def _recall(memory: _Memory, texts: Sequence[str]) -> Embeddings:
    if not texts:
        raise ValueError("nothing to embed")
    vectors, num_tokens = zip(*(memory[text] for text in texts), strict=True)
    return Embeddings(np.stack(vectors), tuple(num_tokens), 0.0)
