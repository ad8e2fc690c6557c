"""A running summary: what stands for the turns that no longer fit."""

from __future__ import annotations

import json
from collections.abc import Sequence

from core.errors import InvalidInput, ModelUnavailable
from core.language import is_chinese
from core.usage import ModelUse
from inference.protocols import Tokenizer
from inference.small_model import SmallModel, SmallModelReply
from retrieval.history.grounding import invented
from retrieval.history.transcript import cut, one_line, transcript
from retrieval.history.turns import DroppedHistory, FoldedHistory, SummaryMethod, Turn
from retrieval.sentences import split_sentences

MAX_FACTS = 8
_MAX_ANSWER_CHARACTERS = 400
_MAX_LINE_CHARACTERS = 240
_MAX_TOKENS = 400
_BULLET = "- "
_TURN_FRAME_TOKENS = 12  # labels and line breaks around a turn in the prompt

_ENGLISH = (
    "List the facts, names and numbers that this conversation has established, each as one short "
    "sentence that can be understood alone. Add nothing that is not said in it."
)
_CHINESE = (
    "列出这段对话中已经确认的事实、名称和数字，每条是一个可以单独理解的短句。不要添加对话里没有的内容。"
)
_SCHEMA = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": _MAX_LINE_CHARACTERS},
            "minItems": 1,
            "maxItems": MAX_FACTS,
        }
    },
    "required": ["facts"],
    "additionalProperties": False,
}


class HistorySummarizer:
    """Folds turns into a summary, a fact a line.

    Args:
        tokenizer: the generator's, in whose tokens budgets are.
        small_model: lists the facts; without one, or where it fails, a rule does: the question and the
            first sentence of its answer.
    """

    def __init__(self, tokenizer: Tokenizer, small_model: SmallModel | None = None) -> None:
        self._tokenizer = tokenizer
        self._small_model = small_model

    def count(self, turn: Turn) -> int:
        """Tokens of a turn in a prompt, its labels included."""
        return self._tokenizer.count(f"{turn.question}\n{turn.answer}") + _TURN_FRAME_TOKENS

    def fold(
        self, summary: str, turns: Sequence[Turn], *, max_tokens: int, cache_salt: str = ""
    ) -> FoldedHistory:
        """A summary of at most `max_tokens` for what `summary` stood for and for `turns`.

        Every number and name in a fact of the model occurs in what it summarizes; facts where one
        does not are left out. Where room is short, the oldest facts go.
        """
        reply, uses, note = self._ask(turns, cache_salt)
        said = "\n".join(f"{turn.question}\n{turn.answer}" for turn in turns)
        proposed = _facts_in(reply) if reply else []
        facts = [fact for fact in proposed if not invented(fact, said)]
        method: SummaryMethod = "model" if facts else "rule"
        if reply and not facts:
            note = "Nothing that the small model wrote could be verified."
        lines = [*_lines_of(summary), *(facts or map(_line_of, turns))]
        kept, text = self._fit(list(dict.fromkeys(lines)), max_tokens)
        before = self._tokenizer.count(summary) + sum(map(self.count, turns))
        return FoldedHistory(
            summary=text,
            dropped=DroppedHistory(
                first_turn=turns[0].number,
                last_turn=turns[-1].number,
                method=method,
                tokens_before=before,
                tokens_after=self._tokenizer.count(text),
                num_rejected=len(proposed) - len(facts),
                num_forgotten=len(lines) - kept,
            ),
            uses=uses,
            note=note,
        )

    def _ask(
        self, turns: Sequence[Turn], cache_salt: str
    ) -> tuple[SmallModelReply | None, tuple[ModelUse, ...], str]:
        if self._small_model is None:
            return None, (), ""
        chinese = is_chinese(turns[-1].question)
        try:
            reply = self._small_model.complete(
                instructions=_CHINESE if chinese else _ENGLISH,
                text=transcript(turns, chinese=chinese, max_answer_characters=_MAX_ANSWER_CHARACTERS),
                max_tokens=_MAX_TOKENS,
                json_schema=_SCHEMA,
                cache_salt=cache_salt,
            )
        except (ModelUnavailable, InvalidInput) as error:
            return None, error.uses, f"The small model failed: {error.detail}"
        return reply, (reply.use,), ""

    def _fit(self, lines: list[str], max_tokens: int) -> tuple[int, str]:
        """How many of the newest lines fit, and their text."""
        kept: list[str] = []
        for line in reversed(lines):
            longer = [line, *kept]
            if self._tokenizer.count(_text_of(longer)) > max_tokens:
                break
            kept = longer
        return len(kept), _text_of(kept)


def _line_of(turn: Turn) -> str:
    """The question, and the first sentence of its answer."""
    question = one_line(turn.question)
    sentences = split_sentences(turn.answer)
    if not sentences:
        return cut(question, _MAX_LINE_CHARACTERS)
    room = max(_MAX_LINE_CHARACTERS // 2, _MAX_LINE_CHARACTERS - len(question))
    return f"{cut(question, _MAX_LINE_CHARACTERS // 2)} → {cut(one_line(sentences[0].text), room)}"


def _facts_in(reply: SmallModelReply) -> list[str]:
    try:
        found = json.loads(reply.text)["facts"]
    except (ValueError, TypeError, KeyError):
        return []
    if not isinstance(found, list):
        return []
    return [one_line(fact) for fact in found if isinstance(fact, str) and fact.strip()]


def _lines_of(summary: str) -> list[str]:
    return [line.removeprefix(_BULLET) for line in summary.splitlines() if line.strip()]


def _text_of(lines: Sequence[str]) -> str:
    return "\n".join(_BULLET + line for line in lines)
