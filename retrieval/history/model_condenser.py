"""A standalone question by the small model, believed only where it adds nothing of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace

from core.errors import InvalidInput, ModelUnavailable
from core.language import is_chinese
from core.usage import ModelUse
from inference.small_model import SmallModel, SmallModelReply
from retrieval.history.grounding import invented
from retrieval.history.phrases_by_language import phrases_of
from retrieval.history.transcript import cut, one_line, transcript
from retrieval.history.turns import CondensedQuestion, QuestionCondenser, Turn
from retrieval.text_analysis import analyze

MAX_TURNS = 4
_MAX_ANSWER_CHARACTERS = 240
_MAX_SUMMARY_CHARACTERS = 600
_MAX_TOKENS = 120
_MIN_KEPT = 0.5  # of the question's own terms

_ENGLISH = """\
Rewrite the last question so that it can be understood without the conversation. Put names in the \
place of pronouns and add what is left out. Do not answer it. If it can be understood as it is, repeat it.

Conversation:
User: Who founded the Red Cross?
Assistant: Henry Dunant founded it in Geneva.
Last question: When was he born?
{"question": "When was Henry Dunant born?"}

Conversation:
User: How many employees did Siemens have in 2019?
Assistant: Siemens had 385,000 employees.
Last question: And in 2020?
{"question": "How many employees did Siemens have in 2020?"}"""
_CHINESE = """\
把最后一个问题改写成不看对话也能理解的问题：用名称代替代词，补全省略的内容。不要回答问题。如果问题本来就完整，原样重复。

对话：
用户：红十字会是谁创立的？
助手：亨利·杜南在日内瓦创立了红十字会。
最后的问题：他是哪一年出生的？
{"question": "亨利·杜南是哪一年出生的？"}

对话：
用户：复旦大学有多少个学院？
助手：复旦大学有三十五个学院。
最后的问题：图书馆呢？
{"question": "复旦大学有多少个图书馆？"}"""
_SCHEMA = {
    "type": "object",
    "properties": {"question": {"type": "string", "minLength": 1, "maxLength": 400}},
    "required": ["question"],
    "additionalProperties": False,
}


class ModelCondenser:
    """Asks the small model; where it cannot be asked or believed, `fallback` answers and a note says so."""

    def __init__(self, small_model: SmallModel, *, fallback: QuestionCondenser) -> None:
        self._small_model = small_model
        self._fallback = fallback

    def condense(
        self, question: str, *, turns: Sequence[Turn], summary: str = "", cache_salt: str = ""
    ) -> CondensedQuestion:
        if not turns and not summary:
            return CondensedQuestion(question, "none")
        started = time.perf_counter()
        recent = turns[-MAX_TURNS:]
        try:
            reply = self._ask(question, recent, summary, cache_salt)
        except (ModelUnavailable, InvalidInput) as error:
            reason = f"The small model failed: {error.detail}"
            return self._fall_back(question, turns, reason, started, error.uses)
        text = _question_in(reply)
        fault = _fault(text, question, recent, summary)
        if fault:
            return self._fall_back(question, turns, fault, started, (reply.use,))
        seconds = time.perf_counter() - started
        if one_line(text) == one_line(question):
            return CondensedQuestion(question, "none", (reply.use,), seconds)
        return CondensedQuestion(text, "model", (reply.use,), seconds)

    def _ask(self, question: str, turns: Sequence[Turn], summary: str, cache_salt: str) -> SmallModelReply:
        chinese = is_chinese(question)
        said = transcript(turns, chinese=chinese, max_answer_characters=_MAX_ANSWER_CHARACTERS)
        known = cut(one_line(summary), _MAX_SUMMARY_CHARACTERS)
        head, last = ("对话：", "最后的问题：") if chinese else ("Conversation:", "Last question: ")
        body = "\n".join(part for part in (known, said) if part)
        return self._small_model.complete(
            instructions=_CHINESE if chinese else _ENGLISH,
            text=f"{head}\n{body}\n{last}{one_line(question)}",
            max_tokens=_MAX_TOKENS,
            json_schema=_SCHEMA,
            cache_salt=cache_salt,
        )

    def _fall_back(
        self,
        question: str,
        turns: Sequence[Turn],
        reason: str,
        started: float,
        uses: tuple[ModelUse, ...],
    ) -> CondensedQuestion:
        condensed = self._fallback.condense(question, turns=turns)
        return replace(
            condensed,
            uses=uses,
            seconds=time.perf_counter() - started,
            note=reason,
        )


def _question_in(reply: SmallModelReply) -> str:
    """The reply's question; empty where the reply is cut or is not what was asked for."""
    try:
        found = json.loads(reply.text)["question"]
    except (ValueError, TypeError, KeyError):
        return ""
    return found.strip() if isinstance(found, str) else ""


def _fault(text: str, question: str, turns: Sequence[Turn], summary: str) -> str:
    """Why the rewritten question is not to be used; empty where it is."""
    if not text:
        return "The small model gave no question."
    if is_chinese(text) != is_chinese(question):
        return "The small model changed the question's language."
    if len(text) > max(3 * len(question), len(question) + 160):
        return "The small model made the question too long."
    source = "\n".join([question, summary, *(f"{turn.question}\n{turn.answer}" for turn in turns)])
    added = invented(text, source)
    if added:
        return f"The small model put what nobody said into the question: {', '.join(added[:5])}."
    own = {term for phrase in phrases_of(question) for term in analyze(phrase.text)}
    if own and len(own.intersection(analyze(text))) < _MIN_KEPT * len(own):
        return "The small model asked another question."
    return ""
