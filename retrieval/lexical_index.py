"""BM25: one tantivy index per collection, over text that we have analysed ourselves."""

from __future__ import annotations

import math
import shutil
import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import tantivy

from core.errors import StoreCorrupt
from core.ids import ChunkId, CollectionId, DocumentId, new_id
from retrieval.file_lock import exclusive_lock
from retrieval.hits import ScoredChunk, best_first
from retrieval.text_analysis import analyze

_DOCUMENT, _CHUNK, _BODY = "document_id", "chunk_id", "body"
_WRITER_HEAP_BYTES = 32 * 1024 * 1024  # one thread's worth; tantivy refuses less than 15 MB
_MAX_QUERY_TERMS = 256
_MAX_OPEN = 128
_K1 = 1.2  # tantivy's own; a term's score never exceeds idf * (k1 + 1)
_REPAIR = "Run `longleaf doctor --repair` to rebuild it from the database."

ChunkTexts = Mapping[DocumentId, Sequence[tuple[ChunkId, str]]]
"""By document, its chunks as (id, `embedding_text`)."""


@dataclass(frozen=True, slots=True)
class LexicalHits:
    """Chunks best first, and the share of the best possible score that the first one reached.

    `coverage` is 1 for a short chunk that is full of every term of the question and of nothing
    else, and 0 where no term is known; terms that no chunk holds count as the rarest.
    """

    chunks: list[ScoredChunk]
    coverage: float


@dataclass(frozen=True, slots=True)
class _OpenIndex:
    index: tantivy.Index
    stamp: tuple[int, int, int]  # of meta.json, which tantivy replaces with every commit


class LexicalIndex:
    """Every collection's BM25 index, under `index_dir/<collection_id>/bm25/`.

    Writers wait for one another, across processes; readers are never locked, and see a commit
    as soon as it is made. Safe to share between threads.
    """

    def __init__(self, index_dir: Path, *, lock_timeout_seconds: float = 120.0) -> None:
        self._index_dir = index_dir
        self._lock_timeout_seconds = lock_timeout_seconds
        self._open: OrderedDict[CollectionId, _OpenIndex] = OrderedDict()
        self._guard = threading.Lock()

    def exists(self, collection_id: CollectionId) -> bool:
        """Whether anything was ever written for the collection."""
        # The folder alone is there before its first writer has made the index.
        return (self._path(collection_id) / "meta.json").exists()

    def write(self, collection_id: CollectionId, documents: ChunkTexts) -> None:
        """Make these the chunks of these documents, in one commit; writing again changes nothing.

        Raises:
            Conflict: other writers kept the index longer than the lock's time-out.
            StoreCorrupt: the index on disk cannot be opened.
        """
        with self._locked(collection_id):
            writer = self._writer(collection_id)
            try:
                for document_id, chunks in documents.items():
                    writer.delete_documents_by_term(_DOCUMENT, document_id)
                    for chunk_id, text in chunks:
                        _add(writer, document_id, chunk_id, text)
                writer.commit()
            finally:
                writer.wait_merging_threads()

    def delete_documents(self, collection_id: CollectionId, document_ids: Sequence[DocumentId]) -> None:
        """Take documents out. SQL hides them already; this only frees the space."""
        if self.exists(collection_id):
            self.write(collection_id, dict.fromkeys(document_ids, ()))

    def rebuild(self, collection_id: CollectionId, chunks: Iterable[tuple[DocumentId, ChunkId, str]]) -> None:
        """Replace the whole index by `chunks` (document, id, `embedding_text`), read as they come.

        Readers see the old index until the commit, if it was readable.
        """
        with self._locked(collection_id):
            try:
                writer = self._writer(collection_id)
            except StoreCorrupt:
                self._set_aside(collection_id)
                writer = self._writer(collection_id)
            try:
                writer.delete_all_documents()
                for document_id, chunk_id, text in chunks:
                    _add(writer, document_id, chunk_id, text)
                writer.commit()
            finally:
                writer.wait_merging_threads()

    def search(
        self,
        collection_id: CollectionId,
        query: str,
        limit: int,
        *,
        allowed: Collection[DocumentId] | None = None,
    ) -> LexicalHits:
        """Chunks that share terms with `query`, best BM25 score first.

        `query` is plain text: nothing in it is syntax. Empty when no term is known.

        Args:
            allowed: only chunks of these documents, none at all if it is empty; None: of every
                document. Scores are the same with and without: a term is as rare as in the whole
                collection.

        Raises:
            StoreCorrupt: there is no readable index.
        """
        counts = Counter(analyze(query)[:_MAX_QUERY_TERMS])
        if not counts or limit < 1 or (allowed is not None and not allowed):
            return LexicalHits([], 0.0)
        index = self._reader(collection_id)
        try:
            return _search(index.searcher(), counts, limit, allowed)
        except ValueError as error:  # a file of the index is damaged or gone
            raise _corrupt(collection_id) from error

    def chunk_ids(self, collection_id: CollectionId) -> set[ChunkId]:
        """Every chunk in the index, dead ones too.

        Raises:
            StoreCorrupt: there is no readable index.
        """
        searcher = self._reader(collection_id).searcher()
        if not searcher.num_docs:
            return set()
        found = searcher.search(tantivy.Query.all_query(), searcher.num_docs, count=False)
        addresses = [address for _, address in found.hits]
        return {ChunkId(int(value or 0)) for value in searcher.fast_field_values(_CHUNK, addresses)}

    def _reader(self, collection_id: CollectionId) -> tantivy.Index:
        meta = self._path(collection_id) / "meta.json"
        try:
            status = meta.stat()
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            with self._guard:
                opened = self._open.get(collection_id)
                if opened is None or opened.stamp != stamp:
                    # Opened anew rather than reloaded: a rebuilt index is another directory.
                    index = tantivy.Index.open(str(meta.parent))
                    index.config_reader("manual")
                    opened = self._open[collection_id] = _OpenIndex(index, stamp)
                    while len(self._open) > _MAX_OPEN:
                        self._open.popitem(last=False)
            return opened.index
        except (OSError, ValueError) as error:
            raise _corrupt(collection_id) from error

    def _writer(self, collection_id: CollectionId) -> tantivy.IndexWriter:
        path = self._path(collection_id)
        path.mkdir(parents=True, exist_ok=True)
        try:
            return tantivy.Index(_SCHEMA, str(path)).writer(_WRITER_HEAP_BYTES, 1)
        except ValueError as error:
            raise _corrupt(collection_id) from error

    def _set_aside(self, collection_id: CollectionId) -> None:
        path = self._path(collection_id)
        if path.exists():
            # Renamed first, so that no reader ever sees half a directory.
            doomed = path.with_name(new_id("doomed"))
            path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)
        with self._guard:
            self._open.pop(collection_id, None)

    def _locked(self, collection_id: CollectionId) -> AbstractContextManager[None]:
        lock = self._index_dir / collection_id / "bm25.lock"
        return exclusive_lock(lock, timeout_seconds=self._lock_timeout_seconds)

    def _path(self, collection_id: CollectionId) -> Path:
        return self._index_dir / collection_id / "bm25"


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(_DOCUMENT, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field(_CHUNK, indexed=True, fast=True)
    builder.add_text_field(_BODY, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


_SCHEMA = _schema()


def _add(writer: tantivy.IndexWriter, document_id: DocumentId, chunk_id: ChunkId, text: str) -> None:
    document = tantivy.Document()
    document.add_text(_DOCUMENT, document_id)
    document.add_integer(_CHUNK, chunk_id)
    document.add_text(_BODY, " ".join(analyze(text)))
    writer.add_document(document)


def _search(
    searcher: tantivy.Searcher,
    counts: Counter[str],
    limit: int,
    allowed: Collection[DocumentId] | None,
) -> LexicalHits:
    query = tantivy.Query.boolean_query(
        [(tantivy.Occur.Should, _term_query(term, count)) for term, count in counts.items()]
    )
    if allowed is not None:
        query = _within(query, allowed)
    hits = searcher.search(query, limit, count=False).hits
    ids = searcher.fast_field_values(_CHUNK, [address for _, address in hits])
    scores: dict[ChunkId, float] = {}
    for value, (score, _) in zip(ids, hits, strict=True):
        chunk_id = ChunkId(int(value or 0))
        scores[chunk_id] = max(score, scores.get(chunk_id, score))
    chunks = best_first(scores, limit)
    ceiling = sum(count * (_K1 + 1) * _idf(searcher, term) for term, count in counts.items())
    return LexicalHits(chunks, chunks[0].score / ceiling if chunks else 0.0)


def _idf(searcher: tantivy.Searcher, term: str) -> float:
    frequency = searcher.doc_freq(_BODY, term)
    # Frequencies may still count deleted chunks, so they can exceed the number of live ones.
    absent = max(0, searcher.num_docs - frequency)
    return math.log(1.0 + (absent + 0.5) / (frequency + 0.5))


def _term_query(term: str, count: int) -> tantivy.Query:
    query = tantivy.Query.term_query(_SCHEMA, _BODY, term, "freq")
    return tantivy.Query.boost_query(query, float(count)) if count > 1 else query


def _within(query: tantivy.Query, allowed: Collection[DocumentId]) -> tantivy.Query:
    documents = tantivy.Query.term_set_query(_SCHEMA, _DOCUMENT, list(allowed))
    # A condition and no merit: it would add 1 to each score.
    condition = tantivy.Query.const_score_query(documents, 0.0)
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, condition)])


def _corrupt(collection_id: CollectionId) -> StoreCorrupt:
    return StoreCorrupt(
        f"The BM25 index of collection {collection_id} cannot be read.",
        remedy=_REPAIR,
        collection_id=collection_id,
    )
