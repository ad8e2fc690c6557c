"""More queries for one question: said in other words, or taken apart. An option that reports its cost."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from core.errors import InvalidInput, ModelUnavailable
from core.language import is_chinese
from core.usage import ModelUse
from inference.small_model import SmallModel, SmallModelReply
from retrieval.history import QuestionCondenser, RuleCondenser, Turn
from retrieval.history.grounding import invented
from retrieval.history.phrases import Need
from retrieval.history.phrases_by_language import need_of, phrases_of
from retrieval.question_parts import asks, split_question
from retrieval.text_analysis import analyze

Expansion = Literal["multi_query", "decompose"]

MAX_QUERIES: Final[Mapping[Expansion, int]] = {"multi_query": 3, "decompose": 4}
MAX_QUESTION_CHARACTERS: Final = 1_000
"""A longer question holds words enough to search by; its paraphrases would cost a page each."""

_MAX_REPLY_TOKENS = 512
_MIN_OWN_SHARE = 0.5  # of a sub-question's words that the question must have
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBERING = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)、:]|Q\d*[:：])\s*")

_INSTRUCTIONS: Final[Mapping[tuple[Expansion, bool], str]] = {
    ("multi_query", False): (
        "Rewrite the user's question in up to three other ways, with other words but the same meaning, "
        "to search documents with. Keep names and numbers. Do not answer. Reply with a JSON array of strings.\n"
        'Example. Question: How much notice must a tenant give? Reply: ["What notice period applies to '
        'tenants?", "How long before leaving must the tenant give notice?"]'
    ),
    ("multi_query", True): (
        "把用户的问题换成最多三种意思相同、用词不同的问法，用来检索文档。保留名称和数字，不要回答。"
        "用 JSON 字符串数组回答。\n"
        '例如，问题：租客要提前多久通知房东？回答：["租客解约的通知期是多长？", "承租人须提前几天告知房东？"]'
    ),
    ("decompose", False): (
        "Split the user's question into the separate simple questions that must be answered for it, at most "
        "four, each understandable alone. Use the question's own words. Do not answer. Reply with a JSON "
        "array of strings; of a simple question, [].\n"
        "Example. Question: Did Oslo or Bergen get more rain in 2020? Reply: "
        '["How much rain did Oslo get in 2020?", "How much rain did Bergen get in 2020?"]'
    ),
    ("decompose", True): (
        "把用户的问题拆成回答它所需的几个简单问题，最多四个，每个都能单独看懂。使用原问题的词，不要回答。"
        "用 JSON 字符串数组回答；如果问题本来就简单，回答 []。\n"
        '例如，问题：2020年奥斯陆和卑尔根哪个雨水多？回答：["2020年奥斯陆的雨水有多少？", '
        '"2020年卑尔根的雨水有多少？"]'
    ),
}


@dataclass(frozen=True, slots=True)
class ExpandedQueries:
    """Queries to search with beside the question itself, in its language; often none.

    `uses` is what a model consumed for them, whether or not they were any good; `note` says how they
    came about, and why there are none.
    """

    queries: tuple[str, ...] = ()
    uses: tuple[ModelUse, ...] = ()
    note: str = ""


class QueryExpander:
    """Says a question in other words (`multi_query`) or takes it apart (`decompose`).

    What the small model says is only ever searched for, and only if it is about the question: in its
    language, of at most twice its length, a question if it is one, with content words of it, without a
    name or number that it does not have. A plainly compound question is taken apart by rules, which cost nothing.
    """

    def __init__(self, small_model: SmallModel, *, condenser: QuestionCondenser | None = None) -> None:
        self._model = small_model
        self._condenser = condenser or RuleCondenser()

    def expand(self, question: str, how: Expansion, *, cache_salt: str) -> ExpandedQueries:
        """At most three paraphrases, or at most four sub-questions.

        A model that cannot be asked gives none, and the note says why: more queries are an extra.
        """
        question = question.strip()
        if len(question) > MAX_QUESTION_CHARACTERS:
            return ExpandedQueries(note=f"The question is longer than {MAX_QUESTION_CHARACTERS} characters.")
        parts = split_question(question, limit=MAX_QUERIES[how]) if how == "decompose" else ()
        if parts:
            return ExpandedQueries(self._standalone(parts), note=f"{len(parts)} questions, by rule")
        if not _content_terms(question):
            return ExpandedQueries(note="The question has no words of content.")
        return self._ask_model(question, how, cache_salt)

    def _standalone(self, parts: Sequence[str]) -> tuple[str, ...]:
        """Each part so that it can be searched for alone, with what it takes from those before it."""
        queries: list[str] = []
        for i, part in enumerate(parts):
            query = part + ("？" if is_chinese(part) else "?")
            if _leans(query):
                turns = [Turn(earlier, "") for earlier in parts[:i]]
                query = self._condenser.condense(query, turns=turns).text
            queries.append(query)
        return tuple(dict.fromkeys(queries))

    def _ask_model(self, question: str, how: Expansion, cache_salt: str) -> ExpandedQueries:
        limit = MAX_QUERIES[how]
        num_tokens = self._model.tokenizer.count(question)
        try:
            reply = self._complete(question, how, limit, num_tokens, cache_salt)
        except (ModelUnavailable, InvalidInput) as error:
            return ExpandedQueries(uses=error.uses, note=f"The small model failed: {error.detail}")
        proposed = _strings(reply.text)
        if proposed is None:
            return ExpandedQueries(uses=(reply.use,), note="The small model's reply was no list of queries.")
        queries, rejected = _choose(question, proposed, how)
        note = f"{len(queries)} of {len(proposed)} queries of the small model kept"
        if rejected:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(rejected).items()))
            note = f"{note} ({reasons})"
        return ExpandedQueries(queries, (reply.use,), note)

    def _complete(
        self, question: str, how: Expansion, limit: int, num_tokens: int, cache_salt: str
    ) -> SmallModelReply:
        return self._model.complete(
            instructions=_INSTRUCTIONS[how, is_chinese(question)],
            text=question,
            max_tokens=min(_MAX_REPLY_TOKENS, limit * (2 * num_tokens + 8)),
            json_schema={
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 2 * len(question)},
                "minItems": 1 if how == "multi_query" else 0,
                "maxItems": limit,
            },
            cache_salt=cache_salt,
        )


def _leans(part: str) -> bool:
    """Whether it cannot be understood without the parts before it."""
    need = need_of(part)
    # 微软的创始人是谁 says whose founder is meant; 现任校长是谁 does not.
    return need in (Need.REFERS, Need.CONTINUES) or (need is Need.SHORT and "的" not in part)


def _strings(text: str) -> list[str] | None:
    """The strings of a JSON array, of one that was cut short its whole ones; None if it is no array."""
    try:
        parsed: Any = json.loads(text)
    except ValueError:
        if not text.lstrip().startswith("["):
            return None
        parsed = [_decoded(found) for found in _STRINGS.findall(text)]
    if not isinstance(parsed, list):
        return None
    return [item for item in parsed if isinstance(item, str)] if parsed else []


def _decoded(literal: str) -> str:
    try:
        return str(json.loads(literal))
    except ValueError:
        return ""  # an escape cut in half


def _choose(
    question: str, proposed: Iterable[str], how: Expansion
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those to search with, and why the others are not."""
    kept: list[str] = []
    rejected: list[str] = []
    seen = {tuple(analyze(question))}
    for text in proposed:
        query = _NUMBERING.sub("", " ".join(text.split()))
        terms = tuple(analyze(query))
        reason = _fault(question, query, how)
        if reason is None and terms in seen:
            reason = "said before"
        if reason is None and len(kept) == MAX_QUERIES[how]:
            reason = "too many"
        if reason is not None:
            rejected.append(reason)
            continue
        seen.add(terms)
        kept.append(query)
    return tuple(kept), tuple(rejected)


def _fault(question: str, query: str, how: Expansion) -> str | None:
    """Why `query` must not be searched with; None where it may."""
    terms = frozenset(analyze(query))
    if not terms:
        return "empty"
    if is_chinese(query) != is_chinese(question):
        return "in another language"
    if len(query) > 2 * len(question):
        return "too long"
    # Small models answer, wrongly, where they were to ask: "The side effects can include …".
    if asks(question) and not asks(query):
        return "no question"
    # A sentence begins with a capital, which makes no name of its first word.
    if invented(query[0].lower() + query[1:], question):
        return "with a name or number that was not asked about"
    content = _content_terms(query)
    shared = content & frozenset(analyze(question))
    # Other words are what a paraphrase is for; a part of a question has no others.
    if not shared or (how == "decompose" and len(shared) < _MIN_OWN_SHARE * len(content)):
        return "about something else"
    return None


def _content_terms(text: str) -> frozenset[str]:
    return frozenset(term for phrase in phrases_of(text) for term in analyze(phrase.text))
