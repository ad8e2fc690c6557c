"""The bytes of a stream, the engine's counters and its refusals."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import EngineIncapable, EngineOverloaded, EngineUnavailable, Misconfigured, TooLong
from inference.completion_stream import CompletionStream
from inference.engine_errors import error_from_body
from inference.engine_metrics import parse_counters
from inference.server_sent_events import EventDecoder

TEXTS = st.text(alphabet=st.sampled_from('ab 长江\u2028\u0085\x1c"\\:'), max_size=12)


@given(
    texts=st.lists(TEXTS, max_size=5),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    cuts=st.lists(st.integers(min_value=1, max_value=9), max_size=40),
)
def test_events_survive_any_cut_of_the_stream(texts: list[str], newline: str, cuts: list[int]) -> None:
    payloads = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    stream = ("".join(f"data: {payload}{newline}{newline}" for payload in payloads) + "x").encode()
    decoder, received = EventDecoder(), []
    for cut in cuts:
        received += decoder.feed(stream[:cut])
        stream = stream[cut:]
    received += decoder.feed(stream)
    assert received == payloads


def test_comments_and_other_fields_are_skipped_and_data_lines_joined() -> None:
    stream = b": keep-alive\n\nevent: x\nid: 7\ndata: one\ndata:two\n\ndata: cut off"
    assert EventDecoder().feed(stream) == ["one\ntwo"]


def test_counters_are_summed_over_engines() -> None:
    text = """# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
vllm:prompt_tokens_total{engine="0",model_name="m"} 2400.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 1.2e+03
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.796069e+09
vllm:generation_tokens_total{engine="0",model_name="m"} 16.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 4800.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 2368.0
vllm:num_requests_running{engine="0",model_name="m"} 1.0
"""
    counters = parse_counters(text)
    assert (counters.prompt_tokens, counters.generation_tokens) == (3600, 16)
    assert (counters.prefix_cache_queries, counters.prefix_cache_hits) == (4800, 2368)
    assert (counters.num_running, counters.num_waiting, counters.cached_tokens) == (1, 0, 0)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (503, "The engine is currently busy and cannot accept new requests.", EngineOverloaded),
        (503, "The model is currently unavailable.", EngineUnavailable),
        (400, "This model's maximum context length is 8192 tokens.", TooLong),
        (400, "The decoder prompt is longer than the maximum model length of 8192.", TooLong),
        (400, "Token id 999999 is out of vocabulary", EngineIncapable),
        (404, "The model `nope` does not exist.", Misconfigured),
        (404, "Not Found", EngineIncapable),
        (403, "Forbidden", Misconfigured),
        (500, "EngineCore encountered an issue.", EngineUnavailable),
    ],
)
def test_refusals_become_our_own_errors(status: int, message: str, expected: type[Exception]) -> None:
    body = json.dumps({"error": {"message": message, "code": status}})
    error = error_from_body(body, status=status)
    assert type(error) is expected
    assert error.remedy
    assert type(error_from_body(body, status=0)) is expected


def test_refusal_without_json_is_quoted() -> None:
    assert "<html>Bad Gateway" in str(error_from_body("<html>Bad Gateway", status=502))


@pytest.mark.parametrize("payload", ["not json", "[1]", '{"error": {"message": "dead", "code": 500}}'])
def test_nonsense_in_the_stream_is_a_failure_of_the_engine(payload: str) -> None:
    with pytest.raises(EngineUnavailable):
        CompletionStream(num_prompt_tokens=3).feed(payload)
