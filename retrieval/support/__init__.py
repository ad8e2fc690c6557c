"""Whether passages answer a question, or "it is not in the documents" is the better answer."""

from retrieval.support.background import BACKGROUND_SENTENCES, background_slice, is_han
from retrieval.support.estimator import Support, SupportEstimator
from retrieval.support.evidence import Evidence

__all__ = [
    "BACKGROUND_SENTENCES",
    "Evidence",
    "Support",
    "SupportEstimator",
    "background_slice",
    "is_han",
]
