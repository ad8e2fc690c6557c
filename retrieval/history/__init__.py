"""A conversation's history: questions made to stand alone, old turns kept as a summary."""

from retrieval.history.model_condenser import ModelCondenser
from retrieval.history.rule_condenser import RuleCondenser, RuleSettings
from retrieval.history.summary import HistorySummarizer
from retrieval.history.turns import (
    CondensedQuestion,
    CondensingMethod,
    DroppedHistory,
    FoldedHistory,
    QuestionCondenser,
    Turn,
)

__all__ = [
    "CondensedQuestion",
    "CondensingMethod",
    "DroppedHistory",
    "FoldedHistory",
    "HistorySummarizer",
    "ModelCondenser",
    "QuestionCondenser",
    "RuleCondenser",
    "RuleSettings",
    "Turn",
]
