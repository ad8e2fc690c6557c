from __future__ import annotations

from dataclasses import replace

import pytest

from bench.answer_scores import SYSTEMS, Reply, Score, differences, figures, score
from bench.answer_sets import AnswerSet, SetQuestion
from bench.answer_systems import our_request
from bench.recording_proxy import EngineCall

QUESTION = SetQuestion("q", "When was it founded?", ("April 2005", "2005"), ("a.txt",))
CHINESE = SetQuestion("z", "成立于何时？", ("2005年4月",), ("a.txt",))
SET = AnswerSet("a-set", "en", (), (QUESTION, CHINESE))


class Proxy:
    """Knows the calls of the first question only; the question alone scores -9 in 5 tokens."""

    def __init__(self, *calls: EngineCall) -> None:
        self._calls = list(calls)

    def calls(self, question: str) -> list[EngineCall]:
        return self._calls if question == QUESTION.text else []

    def chat_prompt(self, text: str) -> list[int]:
        return [1] * 5

    def gold_logprob(self, prompt: list[int], gold: str) -> float:
        return -9.0


def call(tokens: int, gold_logprob: float | None) -> EngineCall:
    return EngineCall(tokens, 3, gold_logprob, (1,) * tokens)


def scored(reply: Reply, *calls: EngineCall, question: SetQuestion = QUESTION) -> Score:
    return score(Proxy(*calls), "ours", SET, question, reply)  # type: ignore[arg-type]


def test_an_answer_is_scored_by_the_best_of_its_golds_without_its_citations() -> None:
    found = scored(Reply(QUESTION.text, "2005 [1]", "In 2005."), call(100, -1.0))

    assert found.f1 == 1.0
    assert found.em == 1.0
    assert found.written_f1 == pytest.approx(2 / 3)


def test_chinese_answers_are_scored_by_characters() -> None:
    found = scored(Reply(CHINESE.text, "2005年5月", ""), question=CHINESE)

    assert 0 < found.f1 < 1
    assert found.em == 0.0


def test_all_calls_of_a_question_count_their_tokens_and_the_last_is_scored() -> None:
    found = scored(Reply(QUESTION.text, "x", "x"), call(100, -2.0), call(30, None), call(50, -1.0))

    assert found.prompt_tokens == 180
    assert found.gold_logprob == -1.0
    assert found.sent_prompt


def test_a_system_that_sent_nothing_is_scored_by_the_question_alone() -> None:
    found = scored(Reply(QUESTION.text, "", "", error="refused"))

    assert found.gold_logprob == -9.0
    assert found.prompt_tokens == 5
    assert not found.sent_prompt


def test_figures_have_the_keys_of_every_system() -> None:
    found = figures([scored(Reply(QUESTION.text, "2005", "2005"), call(100, -1.0))], SYSTEMS)

    assert set(found) == {
        f"{key}_{name}" for key in ("f1", "em", "gold_logprob", "prompt_tokens") for name in SYSTEMS
    }
    assert found["prompt_tokens_ours"] == 100.0
    assert all(type(value) is float for value in found.values())


def test_differences_pair_the_same_questions_whatever_their_order() -> None:
    one = scored(Reply(QUESTION.text, "2005", ""), call(100, -1.0))
    two = scored(Reply(CHINESE.text, "x", ""), question=CHINESE)
    peer = [as_system("haystack", one) for one in (two, one)]

    found = differences([one, two, *peer], ("ours", "haystack"))

    assert found["English: f1 ours - haystack"]["mean"] == 0.0


def test_fields_of_our_request_are_json_or_text() -> None:
    extra = {
        "ours.rerank": "false",
        "ours.max_context_tokens": "300",
        "ours.mode": "extractive",
        "systems": "ours",
    }

    assert our_request(extra) == {"rerank": False, "max_context_tokens": 300, "mode": "extractive"}


def as_system(system: str, one: Score) -> Score:
    return replace(one, system=system)
