"""A search set as a real collection: rows in SQLite, BM25 and FAISS files, the pipeline over them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.search_sets import Paragraph, SearchSet
from core.ids import ChunkId, CollectionId, DocumentId, TenantId, content_hash, derive_chunk_id, new_id
from inference.protocols import Embedder, Embeddings, Tokenizer
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
from storage.models import Chunk, Tenant


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
        paragraphs = [p for p in search_set.paragraphs if p.text.strip()]
        texts = [embedding_text(p.title, (), p.text) for p in paragraphs]
        vectors = self._embedder.embed_passages(texts).vectors
        with self.database.write() as session:
            collection_id = CollectionId(
                CollectionRepository(session, self.tenant_id).create(search_set.name).id
            )
            documents = DocumentRepository(session, self.tenant_id)
            chunks = ChunkRepository(session, self.tenant_id)
            indexed, names = [], {}
            for paragraph, text in zip(paragraphs, texts, strict=True):
                document = documents.create(
                    collection_id,
                    name=paragraph.id,
                    content_hash=content_hash(f"{paragraph.id}\0{text}"),
                    num_bytes=len(paragraph.text.encode()),
                )
                document.title, document.status = paragraph.title, "ready"
                document_id = DocumentId(document.id)
                chunk = self._chunk(document_id, collection_id, paragraph)
                chunks.replace(document_id, [chunk])
                indexed.append(IndexedChunk(ChunkId(chunk.id), document_id, text))
                names[ChunkId(chunk.id)] = paragraph.id
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

    def _chunk(self, document_id: DocumentId, collection_id: CollectionId, paragraph: Paragraph) -> Chunk:
        num_tokens = self._embedder.tokenizer.count(paragraph.text)
        return Chunk(
            id=derive_chunk_id(document_id, 0, paragraph.text),
            tenant_id=self.tenant_id,
            collection_id=collection_id,
            document_id=document_id,
            position=0,
            start=0,
            end=len(paragraph.text),
            first_page=1,
            last_page=1,
            headings=[],
            text=paragraph.text,
            num_tokens=num_tokens,
            num_generator_tokens=num_tokens,
        )


_Memory = dict[str, tuple[NDArray[np.float32], int]]


def _remember(memory: _Memory, texts: Sequence[str], embedded: Embeddings) -> None:
    memory.update(zip(texts, zip(embedded.vectors, embedded.num_tokens, strict=True), strict=True))


def _recall(memory: _Memory, texts: Sequence[str]) -> Embeddings:
    if not texts:
        raise ValueError("nothing to embed")
    vectors, num_tokens = zip(*(memory[text] for text in texts), strict=True)
    return Embeddings(np.stack(vectors), tuple(num_tokens), 0.0)
