"""What a document says of each column: passages and the best sentences, found as for a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accounting.stages import Stage
from core.ids import CollectionId, DocumentId, TenantId
from core.settings import AskSettings
from core.usage import ModelUse
from generation.consumption import Consumption
from generation.extraction_tables.columns import Column
from inference.protocols import Embedder
from retrieval.extraction import ExtractedSentence, PassageExtractor
from retrieval.filters import DocumentFilter
from retrieval.passages import Passage
from retrieval.pipeline import RetrievalPipeline
from retrieval.sentence_vectors import SentenceVectors
from retrieval.support import SupportEstimator

NUM_SENTENCES = 4


@dataclass(frozen=True, slots=True)
class Found:
    """Best first, both. `is_supported`: whether the passages seem to say what the column asks."""

    passages: tuple[Passage, ...]
    sentences: tuple[ExtractedSentence, ...]
    is_supported: bool


class ColumnFinder:
    """Searches one document for one column. Safe to share between threads."""

    def __init__(
        self,
        *,
        settings: AskSettings,
        retrieval: RetrievalPipeline,
        embedder: Embedder,
        extractor: PassageExtractor,
        support: SupportEstimator,
    ) -> None:
        self._settings = settings
        self._retrieval = retrieval
        self._embedder = embedder
        self._extractor = extractor
        self._support = support

    def find(
        self,
        tenant_id: TenantId,
        collection_id: CollectionId,
        document_id: DocumentId,
        column: Column,
        *,
        num_passages: int | None,
        vectors: SentenceVectors,
        consumption: Consumption,
        with_sentences: bool,
    ) -> Found:
        """What it took is in `consumption`, if it fails too.

        Raises:
            NotFound: the document was deleted.
        """
        try:
            return self._find(
                tenant_id,
                collection_id,
                document_id,
                column,
                num_passages=num_passages,
                vectors=vectors,
                consumption=consumption,
                with_sentences=with_sentences,
            )
        finally:
            consumption.add(Stage.EXTRACT, [use for use in [vectors.take_use()] if use.num_tokens])

    def _find(
        self,
        tenant_id: TenantId,
        collection_id: CollectionId,
        document_id: DocumentId,
        column: Column,
        *,
        num_passages: int | None,
        vectors: SentenceVectors,
        consumption: Consumption,
        with_sentences: bool,
    ) -> Found:
        search = self._retrieval.search(
            tenant_id,
            collection_id,
            column.question,
            filter=DocumentFilter(document_ids=(document_id,)),
            num_candidates=self._settings.num_candidates,
            num_passages=num_passages or self._settings.num_passages,
            max_passage_tokens=self._settings.max_context_tokens,
            vectors=vectors,
        )
        query = ModelUse(
            self._embedder.name,
            self._embedder.revision,
            num_tokens=search.num_query_tokens,
            seconds=search.seconds["embed"],
        )
        consumption.add(Stage.EMBED, [query])
        consumption.add(Stage.RERANK, search.rerank_uses)
        sentences: tuple[ExtractedSentence, ...] = ()
        is_supported = bool(search.passages)
        if search.passages and with_sentences:
            support = self._support.estimate(
                column.question, search.passages, vectors=vectors, query_vector=search.query_vector
            )
            extraction = self._extractor.extract(
                column.question,
                search.passages,
                num_sentences=NUM_SENTENCES,
                vectors=vectors,
                query_vector=search.query_vector,
                cache_salt=tenant_id,
            )
            consumption.add(Stage.EXTRACT, [*support.uses, *extraction.uses])
            sentences, is_supported = extraction.sentences, support.is_supported
        return Found(search.passages, sentences, is_supported)


def merged(found: Sequence[Found]) -> list[Passage]:
    """The passages found for any column, each stretch of the document once, in text order."""
    passages: list[Passage] = []
    for passage in sorted((p for each in found for p in each.passages), key=lambda p: (p.start, -p.end)):
        if not passages or passage.end > passages[-1].end:
            passages.append(passage)
    return passages
