"""From scored sentences to what is kept of them: the best few, or the best that fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InvalidInput
from core.usage import ModelUse
from retrieval.extraction.candidates import Candidate, list_candidates
from retrieval.extraction.lexical_signals import LexicalSignals, lexical_signals
from retrieval.extraction.protocol import ExtractedSentence, ExtractedSpan, Extraction
from retrieval.passages import Passage

CountTokens = Callable[[str], int]

ELSEWHERE_SHARE = 0.25
"""Of the lead that makes a sentence answer alone, what is enough over a sentence of another passage.

Chosen on the tuning half of RGB's questions and an eighth of the articles of XQuAD and CMRC 2018; what it is worth
on others is in docs/refusal.md.
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """How much to keep: one of the two is given."""

    num_sentences: int | None
    max_tokens: int | None

    @classmethod
    def of(cls, num_sentences: int | None, max_tokens: int | None) -> Limit:
        """Raises: InvalidInput: both are given, or neither, or the one that is is below 1."""
        given = [limit for limit in (num_sentences, max_tokens) if limit is not None]
        if len(given) != 1 or given[0] < 1:
            raise InvalidInput(
                f"Extraction was asked for num_sentences={num_sentences} and max_tokens={max_tokens}.",
                remedy="Give one of them, at least 1.",
            )
        return cls(num_sentences, max_tokens)


@dataclass(frozen=True, slots=True)
class Selection:
    """One extraction under way: what all methods begin with and end in.

    `signals` are the words' part of every method; their arrays have a value a candidate.
    """

    passages: Sequence[Passage]
    candidates: Sequence[Candidate]
    signals: LexicalSignals
    limit: Limit
    count: CountTokens
    started: float

    @classmethod
    def begin(
        cls,
        question: str,
        passages: Sequence[Passage],
        *,
        num_sentences: int | None,
        max_tokens: int | None,
        count: CountTokens,
    ) -> Selection:
        """Raises: InvalidInput: not exactly one limit is given, or it is below 1."""
        started = time.perf_counter()
        limit = Limit.of(num_sentences, max_tokens)
        candidates = list_candidates(passages)
        signals = lexical_signals(question, candidates)
        return cls(passages, candidates, signals, limit, count, started)

    def choose(self, order: Sequence[int]) -> list[int]:
        """What is kept of `order`, which is best first; best first again, nothing said twice."""
        distinct = without_repeats(order, self.candidates)
        if self.limit.num_sentences is not None:
            return distinct[: self.limit.num_sentences]
        max_tokens = self.limit.max_tokens or 0
        return fit(distinct, self.candidates, self.passages, max_tokens=max_tokens, count=self.count)

    def end(
        self,
        chosen: Sequence[int],
        scores: NDArray[Any],
        *,
        uses: Sequence[ModelUse] = (),
        method: str,
        note: str = "",
    ) -> Extraction:
        """What the caller gets. `scores` has a value a candidate."""
        spans = join_spans(chosen, self.candidates, self.passages)
        return Extraction(
            sentences=tuple(
                ExtractedSentence(
                    document_id=self.candidates[i].document_id,
                    passage_index=self.candidates[i].passage_index,
                    start=self.candidates[i].start,
                    end=self.candidates[i].end,
                    text=self.candidates[i].text,
                    score=float(scores[i]),
                    overlap=float(self.signals.own[i]),
                )
                for i in chosen
            ),
            spans=spans,
            tokens_in=sum(self.count(passage.text) for passage in self.passages),
            tokens_kept=count_spans(spans, self.count),
            uses=tuple(use for use in uses if use.num_tokens or use.usage.prompt_tokens),
            seconds=time.perf_counter() - self.started,
            method=method,
            note=note,
        )


def stop_when_sure(
    chosen: Sequence[int], scores: NDArray[Any], candidates: Sequence[Candidate], sure_lead: float | None
) -> list[int]:
    """The best of `chosen` alone where it leads the next by at least `sure_lead`; else all.

    Over a next one of another passage a quarter of that lead is enough: two sentences side by side often
    answer together, while another page that is nearly as good often says something else.
    """
    if sure_lead is None or len(chosen) < 2:
        return list(chosen)
    best, following = chosen[0], chosen[1]
    is_elsewhere = candidates[best].passage_index != candidates[following].passage_index
    enough = sure_lead * ELSEWHERE_SHARE if is_elsewhere else sure_lead
    return [best] if scores[best] - scores[following] >= enough else list(chosen)


def without_repeats(order: Sequence[int], candidates: Sequence[Candidate]) -> list[int]:
    """The order without sentences that say what an earlier one said, white space aside."""
    first: dict[str, int] = {}
    for i in order:
        first.setdefault("".join(candidates[i].text.split()), i)
    return list(first.values())


def fit(
    order: Sequence[int],
    candidates: Sequence[Candidate],
    passages: Sequence[Passage],
    *,
    max_tokens: int,
    count: CountTokens,
) -> list[int]:
    """Of `order`, best first and without repeats, what fits into `max_tokens` as joined spans.

    A sentence takes along what it leans on if both fit; it is passed over if it does not fit alone.
    """
    sizes = {i: count(candidates[i].text) for i in order}
    kept: list[int] = []
    left = max_tokens
    for i in order:
        if i in kept:
            continue
        prop = candidates[i].leans_on
        needed = [i] if prop is None or prop in kept or prop not in sizes else [i, prop]
        if sum(sizes[j] for j in needed) > left:
            needed = [i]
        if sizes[needed[0]] <= left:
            kept += needed
            left -= sum(sizes[j] for j in needed)
    # White space between joined sentences, and tokens that end differently beside it, may cost
    # more than the sentences do apart.
    while kept and count_spans(join_spans(kept, candidates, passages), count) > max_tokens:
        kept.pop()
    return kept


def join_spans(
    chosen: Sequence[int], candidates: Sequence[Candidate], passages: Sequence[Passage]
) -> tuple[ExtractedSpan, ...]:
    """The chosen sentences in passage and text order, joined where only white space is between."""
    spans: list[ExtractedSpan] = []
    for i in sorted(chosen):  # candidates stand in passage and text order
        new, start = candidates[i], candidates[i].start
        passage = passages[new.passage_index]
        if spans and spans[-1].passage_index == new.passage_index:
            between = passage.text[spans[-1].end - passage.start : start - passage.start]
            if not between.strip():
                start = spans.pop().start
        text = passage.text[start - passage.start : new.end - passage.start]
        spans.append(ExtractedSpan(new.document_id, new.passage_index, start, new.end, text))
    return tuple(spans)


def count_spans(spans: Sequence[ExtractedSpan], count: CountTokens) -> int:
    return sum(count(span.text) for span in spans)


def best_first(scores: NDArray[Any]) -> list[int]:
    """Positions by falling score; ties in text order."""
    return [int(i) for i in np.argsort(-scores, kind="stable")]


def in_front(scores: NDArray[Any], read: Sequence[int], better: NDArray[Any]) -> NDArray[np.float64]:
    """`scores` with those of the candidates `read` replaced by `better`; all others stand behind."""
    behind = float(better.min()) - 1.0 - float(scores.max())
    result: NDArray[np.float64] = scores.astype(np.float64) + behind
    result[list(read)] = better
    return result
