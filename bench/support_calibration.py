"""Fits the regressions of `retrieval.support` on open data and says what they are worth.

    python -m bench.support_calibration

Prints the coefficients, to be copied into `retrieval/support/coefficients.py`, and a table for
`docs/refusal.md`. Half of the documents of each set are fitted, the other half is reported; of RGB
the half that `bench grounding` does not ask is fitted, and none reported here.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.search_collection import MemoizingEmbedder, SearchBed
from bench.support_cases import TAKEN_OUT, CaseMaker, SupportCase
from core.settings import evaluation_data_dir, load_settings
from inference.encoders import load_embedder
from inference.protocols import Embedder
from retrieval.sentence_vectors import SentenceVectors
from retrieval.support.background import BACKGROUND_SENTENCES
from retrieval.support.evidence import Evidence, weigh_sentences
from retrieval.support.facts import facts_asked
from retrieval.support.regression import Regression

WORD_FIELDS = ("window", "source", "answer", "year_conflict")
VECTOR_FIELDS = ("lead", *WORD_FIELDS)
ACROSS_FIELDS = ("lead",)
_AGAINST = frozenset({"year_conflict"})
_FIRST_GUESS = {"lead": 8.0, "window": 2.0, "source": 1.0, "answer": 1.0, "year_conflict": -1.0}

_RIDGE = 2.0
_STEPS = 60
_ROUNDS = 6
_MAX_FALSE_REFUSALS = 0.08
_MIN_CAPPED = 30
_EMBEDDER = "multilingual-e5-small"

Makers = Sequence[Callable[[CaseMaker], Iterator[SupportCase]]]

SETS: Makers = (
    lambda make: make.left_out("xquad-en", asked="xquad-en", read="xquad-en", num_paragraphs=120),
    lambda make: make.left_out("xquad-zh", asked="xquad-zh", read="xquad-zh", num_paragraphs=60),
    lambda make: make.left_out("cmrc2018", asked="cmrc2018", read="cmrc2018", num_paragraphs=60),
    lambda make: make.left_out("xquad-en-zh", asked="xquad-en", read="xquad-zh", num_paragraphs=60),
    lambda make: make.left_out("xquad-zh-en", asked="xquad-zh", read="xquad-en", num_paragraphs=60),
    lambda make: make.judgments(num_documents=120),
    lambda make: make.reports("en", num_documents=4),
    lambda make: make.reports("zh", num_documents=4),
    lambda make: make.web_pages(),
)


Found = list[list[Evidence]]
"""The evidence of each sentence, for each fact that the question asks for."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A case with its evidence, of vectors and words and of words alone."""

    case: SupportCase
    both: Found
    words: Found

    def found(self, *, by_words: bool) -> Found:
        return self.words if by_words else self.both


@dataclass(frozen=True, slots=True)
class Variant:
    """One regression: what it is for, and from what it judges."""

    name: str
    fields: tuple[str, ...]
    by_words: bool
    fits: Callable[[Evidence], bool]


VARIANTS = (
    Variant("HAN", VECTOR_FIELDS, False, lambda e: e.shares_words and e.is_han),
    Variant("LATIN", VECTOR_FIELDS, False, lambda e: e.shares_words and not e.is_han),
    Variant("ACROSS", ACROSS_FIELDS, False, lambda e: not e.shares_words),
    Variant("HAN_WORDS", WORD_FIELDS, True, lambda e: e.shares_words and e.is_han),
    Variant("LATIN_WORDS", WORD_FIELDS, True, lambda e: e.shares_words and not e.is_han),
)


def weigh_cases(cases: Sequence[SupportCase], embedder: Embedder) -> list[Weighed]:
    """Their evidence; cases without text are left out."""
    background = embedder.embed_passages(BACKGROUND_SENTENCES).vectors
    found = []
    for case in cases:
        facts = facts_asked(case.question)
        queries = [case.query_vector] if len(facts) == 1 else embedder.embed_queries(facts).vectors
        vectors = SentenceVectors(embedder)
        both = [
            weigh_sentences(fact, case.passages, vectors=vectors, query_vector=query, background=background)
            for fact, query in zip(facts, queries, strict=True)
        ]
        words = [
            weigh_sentences(fact, case.passages, vectors=None, query_vector=None, background=None)
            for fact in facts
        ]
        if both[0]:
            found.append(Weighed(case, both, words))
    return found


def fit_variant(variant: Variant, weighed: Sequence[Weighed]) -> Regression:
    """The regression of `variant` on the cases not held out, with its threshold.

    It is fitted to the sentence that speaks most for an answer, which is chosen by the last fit, `_ROUNDS`
    times. A set weighs by the root of its size, and in it the answerable as much as the unanswerable:
    `value` is the probability where both are as likely. Evidence that would count against its own sense
    is left out, since that is chance. The threshold gives the best mean F1 of refusals over the sets
    among those that refuse at most 8 % of the answerable of any set of whole paragraphs.
    """
    chosen = [w for w in weighed if variant.fits(_first(w, variant)) and not w.case.is_test]
    answerable = np.array([w.case.is_answerable for w in chosen])
    names = np.array([w.case.set_name for w in chosen])
    weights = _balance(names, answerable)
    regression = Regression({name: _FIRST_GUESS[name] for name in variant.fields}, 0.0, 0.5)
    for _ in range(_ROUNDS):
        strongest = [_strongest(regression, w.found(by_words=variant.by_words)) for w in chosen]
        values = np.array([[float(getattr(e, name)) for name in variant.fields] for e in strongest])
        fitted, bias = _fit_signed(variant.fields, values, answerable.astype(float), weights)
        regression = Regression(fitted, bias, 0.5)
    scores = _scores(regression, variant, chosen)
    return Regression(regression.weights, regression.bias, _threshold(scores, answerable, names))


def _first(weighed: Weighed, variant: Variant) -> Evidence:
    return weighed.found(by_words=variant.by_words)[0][0]


def _strongest(regression: Regression, found: Found) -> Evidence:
    """Of each fact the sentence that speaks most for an answer; of the facts the worse off."""
    return min(
        (max(sentences, key=regression.probability) for sentences in found), key=regression.probability
    )


def _scores(regression: Regression, variant: Variant, weighed: Sequence[Weighed]) -> NDArray[np.float64]:
    return np.array(
        [regression.probability(_strongest(regression, w.found(by_words=variant.by_words))) for w in weighed]
    )


def refusal_row(
    name: str, variant: Variant, regression: Regression, weighed: Sequence[Weighed]
) -> tuple[str, ...] | None:
    """Set, variant, number of cases, precision, recall, F1, false refusals, area under the curve."""
    chosen = [w for w in weighed if variant.fits(_first(w, variant))]
    if not chosen:
        return None
    scores = _scores(regression, variant, chosen)
    answerable = np.array([w.case.is_answerable for w in chosen])
    refused = scores < regression.threshold
    precision, recall, f1 = _refusal(refused, answerable)
    false = float(refused[answerable].mean()) if answerable.any() else 0.0
    figures = (precision, recall, f1, false, area_under_curve(scores, answerable))
    return (name, variant.name.lower(), f"{len(chosen)}", *(f"{figure:.3f}" for figure in figures))


def area_under_curve(scores: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """Probability that a positive one scores above a negative one, ties counted half."""
    high, low = scores[positive], np.sort(scores[~positive])
    if not len(high) or not len(low):
        return float("nan")
    below = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    return float(below.mean() / 2 / len(low))


def _balance(names: NDArray[Any], answerable: NDArray[np.bool_]) -> NDArray[np.float64]:
    weights = np.zeros(len(names))
    for name in np.unique(names):
        for kind in (True, False):
            group = (names == name) & (answerable == kind)
            weights[group] = (names == name).sum() ** 0.5 / max(1, group.sum())
    balanced: NDArray[np.float64] = weights * len(weights) / weights.sum()
    return balanced


def _fit_signed(
    fields: Sequence[str],
    values: NDArray[np.float64],
    wanted: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> tuple[dict[str, float], float]:
    """The fit without the fields whose weight has the wrong sign, the worst one dropped first."""
    kept = list(range(len(fields)))
    while True:
        found, bias = _fit(values[:, kept], wanted, weights)
        scale = values[:, kept].std(axis=0)
        sense = np.array([-1.0 if fields[i] in _AGAINST else 1.0 for i in kept])
        worth = found * sense * scale
        if len(kept) == 1 or worth.min() >= 0:
            return {fields[i]: float(w) for i, w in zip(kept, found, strict=True)}, bias
        kept.pop(int(worth.argmin()))


def _fit(
    values: NDArray[np.float64], wanted: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Newton's method on the standardized values, with a ridge; weights and bias for the raw ones."""
    mean, spread = values.mean(axis=0), values.std(axis=0) + 1e-9
    design = np.c_[(values - mean) / spread, np.ones(len(values))]
    ridge = np.eye(design.shape[1]) * _RIDGE
    ridge[-1, -1] = 1e-6
    found = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        likely = 1.0 / (1.0 + np.exp(-np.clip(design @ found, -30, 30)))
        gradient = design.T @ (weights * (likely - wanted)) + ridge @ found
        curvature = (design * (weights * likely * (1 - likely))[:, None]).T @ design + ridge
        found -= np.linalg.solve(curvature, gradient)
    raw = found[:-1] / spread
    return raw, float(found[-1] - raw @ mean)


def _threshold(scores: NDArray[Any], answerable: NDArray[np.bool_], names: NDArray[Any]) -> float:
    best, chosen = -1.0, 0.0
    capped = [name for name in np.unique(names) if _is_capped(name, answerable[names == name])]
    for threshold in np.arange(0.05, 0.75, 0.01):
        refused = scores < threshold
        f1s = [_refusal(refused[names == name], answerable[names == name])[2] for name in np.unique(names)]
        falses = [refused[(names == name) & answerable].mean() for name in capped]
        if max(falses, default=0.0) <= _MAX_FALSE_REFUSALS and np.mean(f1s) > best:
            best, chosen = float(np.mean(f1s)), float(threshold)
    return round(chosen, 2)


def _is_capped(name: str, answerable: NDArray[np.bool_]) -> bool:
    """Whole paragraphs, and enough of them: a set in the other script leaves a stray case here."""
    return not name.startswith("rgb-") and TAKEN_OUT not in name and int(answerable.sum()) >= _MIN_CAPPED


def _refusal(refused: NDArray[np.bool_], answerable: NDArray[np.bool_]) -> tuple[float, float, float]:
    right, num_refused, due = (refused & ~answerable).sum(), refused.sum(), (~answerable).sum()
    return (
        float(right / num_refused) if num_refused else 0.0,
        float(right / due) if due else 0.0,
        float(2 * right / (num_refused + due)) if num_refused + due else 0.0,
    )


def report(weighed: Sequence[Weighed]) -> Iterator[str]:
    """The coefficients, then a Markdown table of what was held out."""
    fitted = {variant.name: fit_variant(variant, weighed) for variant in VARIANTS}
    for name, regression in fitted.items():
        weights = ", ".join(f'"{field}": {weight:.2f}' for field, weight in regression.weights.items())
        yield f"_{name} = Regression({{{weights}}}, {regression.bias:.2f}, {regression.threshold:.2f})"
    yield "| set | judged by | n | precision | recall | F1 | false refusals | AUC |"
    yield "|---|---|---|---|---|---|---|---|"
    names = list(dict.fromkeys(w.case.set_name for w in weighed))
    for variant in VARIANTS:
        for name in names:
            held_out = [w for w in weighed if w.case.set_name == name and w.case.is_test]
            row = refusal_row(name, variant, fitted[variant.name], held_out)
            if row is not None:
                yield f"| {' | '.join(row)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=evaluation_data_dir())
    parser.add_argument("--models", type=Path, default=load_settings().model_dir)
    arguments = parser.parse_args()
    embedder = MemoizingEmbedder(load_embedder(_EMBEDDER, arguments.models, backend="openvino"))
    with tempfile.TemporaryDirectory(prefix="longleaf-bench-") as folder:
        bed = SearchBed(Path(folder), embedder)
        maker = CaseMaker(bed, embedder.tokenizer, arguments.data)
        cases = [case for make in SETS for case in make(maker)]
        bed.close()
    for line in report(weigh_cases(cases, embedder)):
        print(line)


if __name__ == "__main__":
    main()
