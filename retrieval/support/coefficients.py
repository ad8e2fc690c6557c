"""Logistic regressions over evidence, fitted by `python -m bench.support_calibration`.

Fitted with multilingual-e5-small on half of the articles of XQuAD, English and Chinese, and of CMRC 2018 (each
question with its paragraph, without it, and with it but for the sentences that have the answer), and on half of
RGB's Chinese questions. Thresholds refuse at most 8 % of the answerable questions of any fitted set of whole
paragraphs. What they are worth on data not fitted is in docs/refusal.md.

Across scripts, where no words are shared, similarity alone tells little, so hardly anything is refused there; by
words alone, nothing.
"""

from __future__ import annotations

from retrieval.support.evidence import Evidence
from retrieval.support.regression import Regression

_HAN = Regression(
    {"lead": 5.39, "window": 2.69, "source": 1.13, "answer": 0.35, "year_conflict": -3.90}, -5.09, 0.20
)
_LATIN = Regression({"lead": 8.44, "window": 4.36, "source": 2.24, "answer": 0.54}, -7.46, 0.32)
_HAN_WORDS = Regression({"window": 4.19, "source": 0.67, "answer": 0.34, "year_conflict": -2.75}, -3.05, 0.22)
_LATIN_WORDS = Regression(
    {"window": 5.23, "source": 3.06, "answer": 0.30, "year_conflict": -1.16}, -4.05, 0.24
)
_ACROSS = Regression({"lead": 14.27}, -3.74, 0.28)
_ACROSS_WORDS = Regression({}, 0.0, 0.0)  # nothing to judge by


def regression_for(evidence: Evidence) -> Regression:
    """By the question's script, and by what there is to judge from."""
    if not evidence.shares_words:
        return _ACROSS if evidence.has_vectors else _ACROSS_WORDS
    if evidence.is_han:
        return _HAN if evidence.has_vectors else _HAN_WORDS
    return _LATIN if evidence.has_vectors else _LATIN_WORDS
