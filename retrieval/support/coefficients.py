"""Logistic regressions over evidence, fitted by `python -m bench.support_calibration`.

Fitted with multilingual-e5-small on half of the articles of XQuAD, English and Chinese (each question
with its paragraph and without, the next best in its place), and on half of RGB's Chinese questions; every
set weighs by the root of its size, answerable and unanswerable alike. Thresholds refuse at most 6 % of the
answerable of any fitted set. What they are worth on data not fitted is in docs/refusal.md.

Across scripts, where no words are shared, similarity alone tells little (area under the curve .70 on
XQuAD, of an earlier fit), so hardly anything is refused there; by words alone, nothing.
"""

from __future__ import annotations

from retrieval.support.evidence import Evidence
from retrieval.support.regression import Regression

_HAN = Regression(
    {"source": 1.77, "window": 1.50, "numbers_missing": -1.35, "kind_missing": -1.06, "lead": 3.75},
    -3.61,
    0.17,
)
_LATIN = Regression(
    {"source": 2.53, "window": 5.84, "numbers_missing": -1.74, "kind_missing": -5.31, "lead": 15.46},
    -10.98,
    0.39,
)
_HAN_WORDS = Regression(
    {"source": 1.21, "window": 2.97, "numbers_missing": -1.34, "kind_missing": -1.45}, -2.25, 0.23
)
_LATIN_WORDS = Regression(
    {"source": 6.89, "window": 3.68, "numbers_missing": -2.14, "kind_missing": -4.88}, -4.84, 0.21
)
_ACROSS = Regression({"lead": 12.2}, -3.8, 0.2)
_ACROSS_WORDS = Regression({}, 0.0, 0.0)  # nothing to judge by


def regression_for(evidence: Evidence) -> Regression:
    """By the question's script, and by what there is to judge from."""
    if not evidence.shares_words:
        return _ACROSS if evidence.has_vectors else _ACROSS_WORDS
    if evidence.is_han:
        return _HAN if evidence.has_vectors else _HAN_WORDS
    return _LATIN if evidence.has_vectors else _LATIN_WORDS
