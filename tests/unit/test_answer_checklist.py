"""What `longleaf doctor answer` finds in a trace."""

from __future__ import annotations

from typing import Any

import pytest

from cli.answer_checklist import Check, check_answer
from tests.trace_samples import ATTENTION, full_trace, light_trace

ANSWER = {"outcome": "answered", "warnings": [], "text": "八十二斤。"}


def checks(trace: dict[str, Any], answer: dict[str, Any] = ANSWER) -> dict[str, Check]:
    """The worst check of each subject."""
    order = ("ok", "unknown", "look", "wrong")
    worst: dict[str, Check] = {}
    for check in check_answer(answer, trace):
        known = worst.get(check.subject)
        if known is None or order.index(check.verdict) > order.index(known.verdict):
            worst[check.subject] = check
    return worst


def test_an_answer_in_order_is_found_in_order() -> None:
    found = checks(full_trace(attention=ATTENTION))
    assert {check.verdict for check in found.values()} == {"ok"}
    assert set(found) == {
        *("retrieval", "tokenization", "sampling", "context", "support", "attention"),
        *("stop", "memory", "entropy"),
    }


def test_a_light_trace_says_what_it_cannot_tell_and_how_to_find_out() -> None:
    found = checks(light_trace())
    assert found["tokenization"].verdict == found["entropy"].verdict == "unknown"
    assert "`trace` true" in found["entropy"].remedy
    assert found["stop"].verdict == found["memory"].verdict == "ok"


@pytest.mark.parametrize(
    ("changes", "subject", "verdict", "detail"),
    [
        ({"temperature": 1.5}, "sampling", "look", "temperature 1.5"),
        ({"temperature": 1.0}, "sampling", "look", "nothing cut off"),
        ({"repetition_penalty": 1.5}, "sampling", "look", "repetition_penalty"),
        ({"frequency_penalty": -1.0}, "sampling", "look", "rewards repeating"),
        ({"presence_penalty": 1.6}, "sampling", "look", "presence_penalty"),
        ({"no_repeat_ngram_size": 2}, "sampling", "look", "ordinary phrases"),
        ({"logit_bias": [[5, 3.0]]}, "sampling", "look", "logit_bias"),
        ({"bad_words": ["八"]}, "sampling", "look", "banned"),
        ({"finish_reason": "length"}, "stop", "wrong", "max_tokens 100"),
        ({"finish_reason": "repetition"}, "stop", "wrong", "repeated itself"),
        ({"finish_reason": None}, "stop", "wrong", "broken off"),
        (
            {"stop_reason": "。", "usage": {"prompt_tokens": 9, "cached_tokens": 0, "completion_tokens": 2}},
            "stop",
            "wrong",
            "'。' came at once",
        ),
        ({"engine_load": None}, "memory", "unknown", "not seen"),
        (
            {
                "cut": {
                    "passages": [{"id": "d:1-2", "reason": "needs 90 tokens, 3 were left"}],
                    "num_turns": 1,
                }
            },
            "context",
            "look",
            "needs 90 tokens, 3 were left); 1 earlier turns",
        ),
        ({"error_code": "engine_unavailable"}, "attempts", "wrong", "engine_unavailable"),
        ({"text": "八\ufffd"}, "tokenization", "wrong", "broken characters"),
    ],
)
def test_what_looks_wrong_is_named_with_a_remedy(
    changes: dict[str, Any], subject: str, verdict: str, detail: str
) -> None:
    found = checks(full_trace(**changes))[subject]
    assert found.verdict == verdict
    assert detail in found.detail
    assert found.remedy


@pytest.mark.parametrize(
    ("load", "detail"),
    [
        ({"kv_cache_usage": 0.97}, "97% full"),
        ({"num_preemptions": 2}, "2 requests lost theirs"),
        ({"num_waiting": 5}, "5 requests waited"),
    ],
)
def test_a_full_engine_is_named(load: dict[str, Any], detail: str) -> None:
    trace = full_trace()
    trace["generations"][0]["engine_load"] |= load
    assert detail in checks(trace)["memory"].detail


def test_a_tokenizer_that_is_not_the_engine_s_is_found() -> None:
    trace = full_trace()
    trace["generations"][0]["prompt"]["segments"][1]["round_trip"] = False
    assert checks(trace)["tokenization"].verdict == "wrong"


def test_a_script_that_the_model_hardly_knows_is_found() -> None:
    trace = full_trace()
    trace["generations"][0]["prompt"]["segments"][1]["num_split_tokens"] = 50
    assert "hardly knows the script" in checks(trace)["tokenization"].detail


def test_a_model_that_guesses_is_found_and_so_are_single_doubtful_words() -> None:
    certainty = {"mean_entropy": 2.6, "perplexity": 20.0, "mean_logprob": -3.0, "max_entropy": 5.0}
    assert checks(full_trace(certainty=certainty))["entropy"].verdict == "wrong"
    trace = full_trace()
    trace["generations"][0]["tokens"][0] |= {"entropy": 4.0, "rank": None}
    found = checks(trace)
    assert found["entropy"].verdict == "look"
    assert "not among the most probable" in found["sampling"].detail


def test_statements_without_support_and_flat_attention_are_found() -> None:
    trace = full_trace()
    trace["attribution"]["statements"][0] |= {"is_supported": False, "cited": [[]], "coverage": [0.1]}
    assert checks(trace)["support"].verdict == "wrong"
    flat = ATTENTION | {
        "passages": ["a", "b", "c"],
        "sentences": [{"start": 0, "end": 5, "num_tokens": 4, "weights": [0.1] * 3, "shares": [0.33] * 3}],
    }
    assert "no passage more than" in checks(full_trace(attention=flat))["attention"].detail
    blind = ATTENTION | {
        "sentences": [{"start": 0, "end": 5, "num_tokens": 4, "weights": [0.01], "shares": [1.0]}]
    }
    assert "goes to passages" in checks(full_trace(attention=blind))["attention"].detail


def test_an_answer_that_repeats_itself_is_found() -> None:
    trace = full_trace()
    tokens = trace["generations"][0]["tokens"]
    trace["generations"][0]["tokens"] = tokens * 3
    assert "repeats itself" in checks(trace)["stop"].detail


def test_an_extractive_answer_and_a_refused_one_are_told_apart() -> None:
    trace = full_trace() | {"generations": [], "answer_generation": None}
    assert "verbatim" in checks(trace)["generation"].detail
    refused = ANSWER | {"outcome": "refused"}
    assert "it was refused" in checks(full_trace(), refused)["support"].detail


def test_a_redacted_trace_is_still_checked_by_its_numbers() -> None:
    from storage.trace_redaction import redact

    found = checks(redact(full_trace(finish_reason="length", temperature=1.4)))
    assert found["stop"].verdict == "wrong"
    assert found["sampling"].verdict == "look"
    assert found["entropy"].verdict == "ok"
    assert found["tokenization"].verdict == "unknown"
