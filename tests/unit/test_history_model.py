"""The small model's part in a conversation: what it is asked, what of its words is believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from core.errors import EngineUnavailable, LongleafError
from core.usage import ModelUse, TokenUsage
from inference.small_model import SmallModelReply
from retrieval.history import HistorySummarizer, ModelCondenser, RuleCondenser, Turn
from tests.pipeline_fixtures import WordTokenizer

USE = ModelUse("tiny", "1", usage=TokenUsage(100, 0, 10))
TURNS = [
    Turn("Who founded Meridian Foods?", "Ada Lund founded Meridian Foods in 1987.", 1),
    Turn("Where is it based?", "Meridian Foods is based in Bergen.", 2),
]
CHINESE_TURNS = [Turn("海天机械的总部在哪里？", "海天机械的总部在宁波，员工有1,200人。", 1)]


@dataclass
class ScriptedSmallModel:
    """Replies with `text`, or raises `failure`."""

    text: str = ""
    failure: LongleafError | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    max_prompt_tokens: int = 4096

    @property
    def tokenizer(self) -> WordTokenizer:
        return WordTokenizer()

    def complete(
        self,
        *,
        instructions: str,
        text: str,
        max_tokens: int,
        json_schema: Mapping[str, Any] | None = None,
        cache_salt: str = "",
    ) -> SmallModelReply:
        if self.failure:
            raise self.failure
        self.asked.append({"instructions": instructions, "text": text, "salt": cache_salt})
        assert json_schema is not None
        return SmallModelReply(self.text, "stop", USE)


def question(text: str) -> str:
    return json.dumps({"question": text}, ensure_ascii=False)


def facts(*texts: str) -> str:
    return json.dumps({"facts": texts}, ensure_ascii=False)


def condenser(model: ScriptedSmallModel) -> ModelCondenser:
    return ModelCondenser(model, fallback=RuleCondenser())


def test_what_the_model_makes_of_the_question_is_used_and_accounted_for() -> None:
    model = ScriptedSmallModel(question("When did Ada Lund found Meridian Foods?"))
    condensed = condenser(model).condense("When did she found it?", turns=TURNS, cache_salt="ten_1")
    assert (condensed.text, condensed.method) == ("When did Ada Lund found Meridian Foods?", "model")
    assert condensed.uses == (USE,)
    assert model.asked[0]["salt"] == "ten_1"
    assert "Ada Lund founded Meridian Foods in 1987." in model.asked[0]["text"]


def test_a_chinese_question_is_rewritten_by_chinese_instructions() -> None:
    model = ScriptedSmallModel(question("海天机械有多少员工？"))
    condensed = condenser(model).condense("它有多少员工？", turns=CHINESE_TURNS)
    assert (condensed.text, condensed.method) == ("海天机械有多少员工？", "model")
    assert "改写" in model.asked[0]["instructions"]


def test_a_question_repeated_as_it_is_needed_no_rewriting() -> None:
    model = ScriptedSmallModel(question("What is a cooperative?"))
    condensed = condenser(model).condense("What is a cooperative?", turns=TURNS)
    assert (condensed.text, condensed.method, condensed.uses) == ("What is a cooperative?", "none", (USE,))


@pytest.mark.parametrize(
    ("asked", "written", "why"),
    [
        ("When did she found it?", "When did Ada Lund found it in 1999?", "nobody said"),
        ("When did she found it?", "When did Olga Berg found it?", "nobody said"),
        ("When did she found it?", "艾达·伦德什么时候创立的？", "language"),
        ("When did she found it?", "When did she found it? " * 30, "too long"),
        ("What are the margins in Norway?", "Where is Meridian Foods based?", "another question"),
        ("When did she found it?", "", "no question"),
    ],
)
def test_what_the_model_invents_is_not_used(asked: str, written: str, why: str) -> None:
    condensed = condenser(ScriptedSmallModel(question(written))).condense(asked, turns=TURNS)
    assert condensed.method in ("rule", "none")
    assert why in condensed.note
    assert condensed.uses == (USE,)  # it was asked all the same


@pytest.mark.parametrize(
    "text", ["", "no json", '{"question": 3}', "[1]", '{"other": "x"}', '{"question": "cut']
)
def test_a_reply_of_another_form_falls_back_to_the_rule(text: str) -> None:
    condensed = condenser(ScriptedSmallModel(text)).condense("When was it founded?", turns=TURNS)
    assert condensed.method == "rule"
    assert "Meridian Foods" in condensed.text
    assert condensed.note


def test_an_invented_chinese_name_falls_back_to_the_rule() -> None:
    model = ScriptedSmallModel(question("北京大学有多少员工？"))
    condensed = condenser(model).condense("它有多少员工？", turns=CHINESE_TURNS)
    assert condensed.method == "rule"
    assert "北京" in condensed.note


def test_without_the_engine_the_rule_answers() -> None:
    model = ScriptedSmallModel(failure=EngineUnavailable("The engine is away."))
    condensed = condenser(model).condense("When was it founded?", turns=TURNS)
    assert (condensed.method, condensed.uses) == ("rule", ())
    assert "The engine is away." in condensed.note


def test_a_first_question_is_not_sent_to_the_model() -> None:
    model = ScriptedSmallModel(question("x"))
    assert condenser(model).condense("And in 2020?", turns=[]).method == "none"
    assert model.asked == []


def summarize(
    model: ScriptedSmallModel | None, turns: list[Turn], *, summary: str = "", room: int = 400
) -> Any:
    return HistorySummarizer(WordTokenizer(), model).fold(summary, turns, max_tokens=room)


def test_verified_facts_become_the_summary() -> None:
    model = ScriptedSmallModel(facts("Ada Lund founded Meridian Foods in 1987.", "It is based in Bergen."))
    folded = summarize(model, TURNS)
    assert folded.summary == "- Ada Lund founded Meridian Foods in 1987.\n- It is based in Bergen."
    assert folded.uses == (USE,)
    assert (folded.dropped.first_turn, folded.dropped.last_turn, folded.dropped.method) == (1, 2, "model")
    assert folded.dropped.tokens_before > folded.dropped.tokens_after > 0


def test_facts_with_numbers_or_names_that_nobody_said_are_left_out() -> None:
    model = ScriptedSmallModel(
        facts(
            "Ada Lund founded it in 1988.", "Olga Berg leads it.", "It is based in Bergen.", "员工有1,300人。"
        )
    )
    folded = summarize(model, TURNS)
    assert folded.summary == "- It is based in Bergen."
    assert folded.dropped.num_rejected == 3


def test_chinese_facts_are_verified_too() -> None:
    model = ScriptedSmallModel(facts("海天机械的员工有1200人。", "海天机械的总部在上海。"))
    folded = summarize(model, CHINESE_TURNS)
    assert folded.summary == "- 海天机械的员工有1200人。"


@pytest.mark.parametrize("text", ["", "{", '{"facts": []}', '{"facts": 3}', facts("Olga Berg leads it.")])
def test_without_a_fact_the_rule_keeps_questions_and_first_sentences(text: str) -> None:
    folded = summarize(ScriptedSmallModel(text), TURNS)
    assert folded.dropped.method == "rule"
    assert folded.summary.splitlines() == [
        "- Who founded Meridian Foods? → Ada Lund founded Meridian Foods in 1987.",
        "- Where is it based? → Meridian Foods is based in Bergen.",
    ]


def test_the_rule_keeps_the_question_of_a_turn_without_an_answer() -> None:
    assert summarize(None, [Turn("总部在哪里？", "", 1)]).summary == "- 总部在哪里？"


def test_the_oldest_facts_give_way_and_are_counted() -> None:
    folded = summarize(None, TURNS, summary="- old one\n- old two", room=100)
    assert folded.summary == "- Where is it based? → Meridian Foods is based in Bergen."
    assert folded.dropped.num_forgotten == 3
    assert folded.dropped.tokens_after <= 100


def test_a_summary_of_summaries_keeps_what_fits() -> None:
    first = summarize(None, TURNS[:1], room=400)
    second = summarize(None, TURNS[1:], summary=first.summary, room=400)
    assert second.summary == summarize(None, TURNS, room=400).summary
