"""What one would do without Longleaf to shorten passages, plainly built."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bench.extraction_collection import Case
from inference.protocols import Embedder
from retrieval.extraction.candidates import Candidate, list_candidates
from retrieval.extraction.selection import fit, join_spans
from retrieval.text_analysis import analyze

Baseline = Callable[[Case, Sequence[Candidate], Embedder], Sequence[float]]
"""A score a sentence, in text order; the best are kept as long as they fit."""

_K1, _B = 0.9, 0.4


def keep_plainly(baseline: Baseline, case: Case, embedder: Embedder, *, max_tokens: int) -> list[str]:
    """The texts that `baseline` keeps of the passages."""
    candidates = [replace(candidate, leans_on=None) for candidate in list_candidates(case.passages)]
    scores = baseline(case, candidates, embedder)
    order = sorted(range(len(candidates)), key=lambda i: (-scores[i], i))
    count = embedder.tokenizer.count
    kept = fit(order, candidates, case.passages, max_tokens=max_tokens, count=count)
    return [span.text for span in join_spans(kept, candidates, case.passages)]


def _lead(case: Case, candidates: Sequence[Candidate], embedder: Embedder) -> Sequence[float]:
    """The first tokens of the passages in the order of their rank."""
    return [-float(i) for i in range(len(candidates))]


def _random(case: Case, candidates: Sequence[Candidate], embedder: Embedder) -> Sequence[float]:
    chance = random.Random(case.question.id)
    return [chance.random() for _ in candidates]


def _bm25(case: Case, candidates: Sequence[Candidate], embedder: Embedder) -> Sequence[float]:
    """Sentences as documents."""
    texts = [Counter(analyze(candidate.text)) for candidate in candidates]
    lengths = [sum(terms.values()) for terms in texts]
    mean = sum(lengths) / max(1, len(lengths))
    query = set(analyze(case.question.text))
    frequencies = {term: sum(term in terms for terms in texts) for term in query}
    weights = {t: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for t, n in frequencies.items()}
    return [
        sum(
            weights[term] * terms[term] * (_K1 + 1) / (terms[term] + _K1 * (1 - _B + _B * length / mean))
            for term in query
            if terms[term]
        )
        for terms, length in zip(texts, lengths, strict=True)
    ]


def _similarity(case: Case, candidates: Sequence[Candidate], embedder: Embedder) -> Sequence[float]:
    """By the embedder's similarity to the question alone, as an embeddings filter does."""
    if not candidates:
        return []
    vectors = embedder.embed_passages([candidate.text for candidate in candidates]).vectors
    return [float(value) for value in np.asarray(vectors @ case.query_vector)]


BASELINES: Mapping[str, Baseline] = {
    "lead": _lead,
    "random": _random,
    "bm25 sentences": _bm25,
    "similarity filter": _similarity,
}
