"""A standalone question without a model: what it leaves unsaid is added from the turns before.

The question keeps its words. Behind it, in brackets, come the phrases that the conversation is about:
`When was it founded? (Meridian Foods)`, `它成立于哪一年？（中国人民大学文学院）`. That is no fine
sentence, but it is found by what it names, and nothing in it was invented.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.language import is_chinese
from retrieval.history.phrases import Need
from retrieval.history.phrases_by_language import need_of, phrases_of
from retrieval.history.turns import CondensedQuestion, CondensingMethod, Turn
from retrieval.text_analysis import analyze

_MAX_ANSWER_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """How much of the past is added; the defaults were found on open data (`bench conversation`).

    `decay`: what a phrase is worth one turn later; below `min_weight` it is forgotten. Worth more:
    names, phrases that the answer took up, and those that say more fully what the question names
    (`restraining order` for `order`). `max_terms`: terms added at most, by need.
    """

    decay: float = 0.5
    min_weight: float = 0.4
    name_weight: float = 2.0
    answered_weight: float = 0.5
    link_weight: float = 4.0
    max_terms: Mapping[Need, int] = field(
        default_factory=lambda: {Need.SHORT: 2, Need.CONTINUES: 4, Need.REFERS: 4}
    )


class RuleCondenser:
    """Adds the weightiest phrases of earlier questions to one that needs them; leaves others alone."""

    def __init__(self, settings: RuleSettings | None = None) -> None:
        self._settings = settings or RuleSettings()

    def condense(
        self, question: str, *, turns: Sequence[Turn], summary: str = "", cache_salt: str = ""
    ) -> CondensedQuestion:
        """As `QuestionCondenser`. What is old enough to be in the summary has no weight any more."""
        started = time.perf_counter()
        text = self._standalone(question, turns)
        method: CondensingMethod = "none" if text == question else "rule"
        return CondensedQuestion(text, method, seconds=time.perf_counter() - started)

    def _standalone(self, question: str, turns: Sequence[Turn]) -> str:
        if turns and need_of(question) is Need.STATES:
            # What it is said about is the question before, which may lean on others itself.
            return f"{self._standalone(turns[-1].question, turns[:-1])} {question.strip()}"
        added = self._missing(question, turns)
        return _with(question, added) if added else question

    def _missing(self, question: str, turns: Sequence[Turn]) -> list[str]:
        """The phrases to add, the weightiest first."""
        room = self._settings.max_terms.get(need_of(question), 0)
        if not room or not turns:
            return []
        known = set(analyze(question))
        weights = self._weigh(turns, known)
        added: list[str] = []
        for phrase in sorted(weights, key=lambda phrase: -weights[phrase]):
            terms = set(analyze(phrase))
            fits = len(terms) <= room or not added  # a long name is better than none
            if weights[phrase] < self._settings.min_weight or not fits or terms <= known:
                continue
            added.append(phrase)
            known |= terms
            room -= len(terms)
        return added

    def _weigh(self, turns: Sequence[Turn], known: set[str]) -> dict[str, float]:
        """Every phrase of the questions, spelled as it was last, with its weight by now."""
        settings = self._settings
        weights: dict[tuple[str, ...], float] = {}
        spelled: dict[tuple[str, ...], str] = {}
        for turn in turns:
            weights = {terms: weight * settings.decay for terms, weight in weights.items()}
            answered = set(analyze(turn.answer[:_MAX_ANSWER_CHARACTERS]))
            for phrase in phrases_of(turn.question):
                terms = tuple(analyze(phrase.text))
                if all(term.isdigit() for term in terms):
                    continue  # a number alone says nothing of what it counts
                gain = settings.name_weight if phrase.is_name else 1.0
                gain *= 1 + settings.answered_weight * len(answered.intersection(terms)) / len(terms)
                if len(set(terms)) > 1 and known.intersection(terms):
                    gain *= settings.link_weight
                weights[terms] = weights.get(terms, 0.0) + gain
                spelled[terms] = phrase.text
        return {spelled[terms]: weight for terms, weight in weights.items()}


def _with(question: str, added: Sequence[str]) -> str:
    if is_chinese(question):
        return f"{question.strip()}（{'，'.join(added)}）"
    return f"{question.strip()} ({', '.join(added)})"
