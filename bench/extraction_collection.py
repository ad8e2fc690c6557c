"""Questions with the passages that the product finds for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.extraction_sets import EvidenceDocument, EvidenceQuestion, EvidenceSet
from bench.metrics import content_of
from bench.search_collection import CutDocument, SearchBed
from inference.protocols import Tokenizer
from ingest.chunking import chunk_document
from retrieval.passages import Passage

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

    def kept_evidence(self, texts: Sequence[str]) -> float:
        """Share of the parts of the evidence that stand in one of `texts`."""
        contents = [content_of(text) for text in texts]
        held = sum(
            any(wording in content for wording in wordings for content in contents)
            for wordings in self.question.evidence
        )
        return held / len(self.question.evidence)


def find_cases(bed: SearchBed, evidence_set: EvidenceSet, tokenizer: Tokenizer) -> list[Case]:
    """The set's questions whose whole evidence is among the passages that the product finds.

    `tokenizer` counts the tokens of chunks and passages.
    """
    documents = [_cut(document, tokenizer) for document in evidence_set.documents]
    if not documents:
        return []
    collection_id, _ = bed.add_documents(evidence_set.name, documents)
    cases = []
    for question in evidence_set.questions:
        found = bed.pipeline.search(
            bed.tenant_id,
            collection_id,
            question.text,
            num_passages=NUM_PASSAGES,
            max_passage_tokens=MAX_PASSAGE_TOKENS,
        )
        if found.query_vector is None:
            continue
        case = Case(question, tuple(found.passages), found.query_vector)
        gold = [p.text for p in found.passages if p.document_name in question.document_ids]
        if case.kept_evidence(gold) == 1.0:
            cases.append(case)
    return cases


def _cut(document: EvidenceDocument, tokenizer: Tokenizer) -> CutDocument:
    drafts = chunk_document(
        document.text,
        document.headings,
        (0,),
        embedder_tokenizer=tokenizer,
        generator_tokenizer=tokenizer,
        max_tokens=MAX_CHUNK_TOKENS,
        overlap_tokens=OVERLAP_TOKENS,
    )
    return CutDocument(document.id, document.title, document.text, tuple(drafts))
