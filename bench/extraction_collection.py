"""Documents as a real collection, cut by the product's chunker, and passages out of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.extraction_sets import EvidenceDocument, EvidenceQuestion, EvidenceSet
from bench.metrics import content_of
from core.ids import ChunkId, CollectionId, DocumentId, TenantId, content_hash, derive_chunk_id, new_id
from inference.protocols import Embedder
from ingest.chunking import chunk_document
from retrieval.dense_index import DenseIndex
from retrieval.index_writer import IndexedChunk, IndexWriter
from retrieval.indexed_text import embedding_text
from retrieval.lexical_index import LexicalIndex
from retrieval.passages import Passage
from retrieval.pipeline import RetrievalPipeline
from storage.chunks import ChunkRepository
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.index_segments import IndexSegmentRepository
from storage.migrate import upgrade
from storage.models import Chunk, Tenant

MAX_CHUNK_TOKENS = 240
OVERLAP_TOKENS = 24
MAX_PASSAGE_TOKENS = 2400
NUM_PASSAGES = 6


@dataclass(frozen=True, slots=True)
class Case:
    """A question with passages that hold all of its evidence."""

    question: EvidenceQuestion
    passages: tuple[Passage, ...]
    query_vector: NDArray[np.float32]  # (dimension,)

    def kept_evidence(self, texts: list[str]) -> float:
        """Share of the evidence that stands in one of `texts`, which come from the passages."""
        return share_of_evidence(self.question, texts)


def share_of_evidence(question: EvidenceQuestion, texts: list[str]) -> float:
    """Share of the parts of the evidence that stand in one of `texts`."""
    contents = [content_of(text) for text in texts]
    held = sum(
        any(wording in content for wording in wordings for content in contents)
        for wordings in question.evidence
    )
    return held / len(question.evidence)


class DocumentBed:
    """A throw-away data folder with one tenant; tokens are the embedder's."""

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self._database = Database(f"sqlite:///{folder / 'bench.db'}")
        upgrade(self._database)
        self._tenant_id = TenantId(new_id("ten"))
        with self._database.write() as session:
            session.add(Tenant(id=self._tenant_id, name="bench"))
        self._embedder = embedder
        dense, lexical = DenseIndex(folder / "indexes"), LexicalIndex(folder / "indexes")
        self._writer = IndexWriter(dense=dense, lexical=lexical)
        self._retrieval = RetrievalPipeline(
            database=self._database, embedder=embedder, dense=dense, lexical=lexical
        )

    def cases(self, evidence_set: EvidenceSet) -> list[Case]:
        """The set's questions whose whole evidence is among the passages that the product finds."""
        collection_id = self._add(evidence_set)
        cases = []
        for question in evidence_set.questions:
            found = self._retrieval.search(
                self._tenant_id,
                collection_id,
                question.text,
                num_passages=NUM_PASSAGES,
                max_passage_tokens=MAX_PASSAGE_TOKENS,
            )
            gold = [p.text for p in found.passages if p.document_name in question.document_ids]
            if found.query_vector is not None and share_of_evidence(question, gold) == 1.0:
                cases.append(Case(question, found.passages, found.query_vector))
        return cases

    def close(self) -> None:
        self._database.dispose()

    def _add(self, evidence_set: EvidenceSet) -> CollectionId:
        with self._database.write() as session:
            collection_id = CollectionId(
                CollectionRepository(session, self._tenant_id).create(evidence_set.name).id
            )
            documents = DocumentRepository(session, self._tenant_id)
            repository = ChunkRepository(session, self._tenant_id)
            indexed: list[IndexedChunk] = []
            for source in evidence_set.documents:
                document = documents.create(
                    collection_id,
                    name=source.id,
                    content_hash=content_hash(f"{source.id}\0{source.text}"),
                    num_bytes=len(source.text.encode()),
                )
                document.title, document.status = source.title, "ready"
                document_id = DocumentId(document.id)
                chunks = self._chunks(document_id, collection_id, source)
                repository.replace(document_id, chunks)
                indexed += [
                    IndexedChunk(
                        ChunkId(chunk.id),
                        document_id,
                        embedding_text(source.title, tuple(chunk.headings), chunk.text),
                    )
                    for chunk in chunks
                ]
            vectors = self._embedder.embed_passages([chunk.text for chunk in indexed]).vectors
            segment = self._writer.index(collection_id, indexed, vectors)
            IndexSegmentRepository(session, self._tenant_id).add(
                segment.id,
                collection_id,
                model_revision=self._embedder.revision,
                kind=segment.kind,
                num_vectors=segment.num_vectors,
            )
        return collection_id

    def _chunks(
        self, document_id: DocumentId, collection_id: CollectionId, source: EvidenceDocument
    ) -> list[Chunk]:
        drafts = chunk_document(
            source.text,
            source.headings,
            (0,),
            embedder_tokenizer=self._embedder.tokenizer,
            generator_tokenizer=self._embedder.tokenizer,
            max_tokens=MAX_CHUNK_TOKENS,
            overlap_tokens=OVERLAP_TOKENS,
        )
        return [
            Chunk(
                id=derive_chunk_id(document_id, draft.position, draft.text),
                tenant_id=self._tenant_id,
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
            for draft in drafts
        ]
