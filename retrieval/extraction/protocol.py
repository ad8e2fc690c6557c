"""What keeping sentences of passages takes and gives, whichever way the sentences are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from core.ids import DocumentId
from core.usage import ModelUse
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors


@dataclass(frozen=True, slots=True)
class ExtractedSentence:
    """Characters `start` to `end` of a document, word for word.

    `passage_index` counts in the passages given. `score` orders sentences of one extraction and
    means nothing beside another's. `overlap` is the share of the question's weight in words that
    the sentence has.
    """

    document_id: DocumentId
    passage_index: int
    start: int
    end: int
    text: str
    score: float
    overlap: float


@dataclass(frozen=True, slots=True)
class ExtractedSpan:
    """Sentences that follow one another, as one stretch of their document, word for word."""

    document_id: DocumentId
    passage_index: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was kept: `sentences` best first, `spans` to be read.

    `spans` hold the same text in the order of the passages given and, inside one, of the document;
    sentences with only white space between them are one span. `tokens_in` counts the passages' and
    `tokens_kept` the spans' tokens by the generator's tokenizer. `method` is the one that chose,
    which `note` explains where it is not the one asked for. `uses` has what models consumed.
    """

    sentences: tuple[ExtractedSentence, ...]
    spans: tuple[ExtractedSpan, ...]
    tokens_in: int
    tokens_kept: int
    uses: tuple[ModelUse, ...]
    seconds: float
    method: str
    note: str = ""


class PassageExtractor(Protocol):
    """Keeps of passages what a question needs. Safe to share between threads."""

    @property
    def name(self) -> str:
        """`rule`, `embedding`, `model` or `cross_encoder`."""
        ...

    def extract(
        self,
        question: str,
        passages: Sequence[Passage],
        *,
        num_sentences: int | None = None,
        max_tokens: int | None = None,
        vectors: SentenceVectors,
        query_vector: NDArray[np.float32] | None = None,
        cache_salt: str = "",
    ) -> Extraction:
        """The best `num_sentences` sentences, or the best of at most `max_tokens` tokens together.

        No sentence is said twice. A sentence that does not fit is passed over; where none fits
        nothing is kept. What a sentence leans on (the lead-in of a list item, the head of a table,
        the sentence before "It was …") comes with it where `max_tokens` has room.

        Args:
            passages: best first.
            num_sentences, max_tokens: exactly one of them.
            vectors: the request's.
            query_vector: (dimension,), where the question was embedded already.
            cache_salt: the tenant's, for a generative model.

        Raises:
            InvalidInput: both or neither of `num_sentences` and `max_tokens`, or one below 1.
        """
        ...
