"""Answers of a few words, cut out of the sentences that extraction chose."""

from retrieval.short_answer.choice import ShortAnswer, ranked_answers, short_answer

__all__ = ["ShortAnswer", "ranked_answers", "short_answer"]
