"""The completions client against a real socket that misbehaves."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator

import pytest

from core.errors import (
    EngineIncapable,
    EngineOverloaded,
    EngineUnavailable,
    InvalidInput,
    Misconfigured,
    TooLong,
)
from core.usage import TokenUsage
from inference.completions_client import ClientTimeouts, CompletionsClient, RetryPolicy
from inference.controls import PROBES
from inference.kv_store.kept_text import KeptText
from inference.protocols import (
    BASE_CONTROLS,
    GenerationDelta,
    GenerationRequest,
    OutputConstraint,
    SamplingParameters,
)
from tests.engine_double import ANSWER, MODEL, EngineDouble, running_double

TIMEOUTS = ClientTimeouts(connect_seconds=1.0, silence_seconds=0.3, health_seconds=1.0)
RETRIES = RetryPolicy(max_attempts=3, first_pause_seconds=0.01)
NUM_PROBES = 6 + len(PROBES) + 1 + 2 + 1  # its own requests: extensions, controls, one for all, beams, store


@pytest.fixture
def double() -> Iterator[EngineDouble]:
    with running_double() as server:
        yield server


@pytest.fixture
def client(double: EngineDouble) -> Iterator[CompletionsClient]:
    client = connect(double)
    yield client
    client.close()


def connect(double: EngineDouble, *, model: str = MODEL, api_key: str = "") -> CompletionsClient:
    return CompletionsClient(
        double.url, model=model, revision="r1", api_key=api_key, timeouts=TIMEOUTS, retries=RETRIES
    )


def request(num_prompt_tokens: int = 50, max_tokens: int = 100, **fields: object) -> GenerationRequest:
    sampling = SamplingParameters(max_tokens=max_tokens)
    return GenerationRequest(list(range(num_prompt_tokens)), sampling, **fields)  # type: ignore[arg-type]


def generate(client: CompletionsClient, what: GenerationRequest | None = None) -> list[GenerationDelta]:
    with client.stream(what or request()) as deltas:
        return list(deltas)


def test_answer_arrives_whole_with_usage_and_the_engine_s_timings(client: CompletionsClient) -> None:
    deltas = generate(client)

    assert "".join(delta.text for delta in deltas) == ANSWER
    assert [delta.usage.completion_tokens for delta in deltas[:-1]] == list(range(1, len(ANSWER) + 1))
    assert all(delta.finish_reason is None and delta.timings is None for delta in deltas[:-1])
    last = deltas[-1]
    assert last.finish_reason == "length"
    assert last.usage == TokenUsage(prompt_tokens=50, cached_tokens=32, completion_tokens=len(ANSWER))
    assert last.timings is not None
    assert last.timings.queue_seconds == pytest.approx(0.01)
    assert last.timings.prefill_seconds == pytest.approx(0.2)
    assert last.timings.decode_seconds == pytest.approx(3.0)
    assert 0 < last.timings.ttft_seconds <= last.timings.total_seconds


def test_timings_are_measured_from_outside_where_the_engine_gives_none(
    client: CompletionsClient, double: EngineDouble
) -> None:
    double.behaviour.reports_metrics = False
    double.behaviour.answer, double.behaviour.delay_seconds = "four", 0.05

    timings = generate(client)[-1].timings

    assert timings is not None
    assert timings.prefill_seconds == timings.ttft_seconds >= 0.05
    assert timings.decode_seconds >= 0.1  # a late reader sees less of it
    assert timings.queue_seconds == 0


def test_request_carries_salt_priority_id_and_sampling(
    client: CompletionsClient, double: EngineDouble
) -> None:
    sampling = SamplingParameters(max_tokens=3, temperature=0.5, top_p=0.9, seed=7, stop=("。",))
    generate(
        client, GenerationRequest((1, 2, 3), sampling, cache_salt="租户", priority=2, request_id="answer_1")
    )

    body = double.behaviour.completion_bodies[-1]
    assert body["prompt"] == [1, 2, 3]
    assert (body["cache_salt"], body["priority"], body["max_tokens"]) == ("租户", 2, 3)
    assert (body["temperature"], body["top_p"], body["seed"], body["stop"]) == (0.5, 0.9, 7, ["。"])
    assert double.behaviour.request_ids[-1] == "answer_1"


def test_a_json_schema_goes_to_an_engine_that_can_be_held_to_it(
    client: CompletionsClient, double: EngineDouble
) -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    generate(client, request(constraint=OutputConstraint("json", schema)))
    assert double.behaviour.completion_bodies[-1]["structured_outputs"] == {"json": schema}


def test_a_json_schema_is_refused_where_the_engine_would_ignore_it(double: EngineDouble) -> None:
    double.behaviour.knows_extensions = False
    client = connect(double)
    with pytest.raises(EngineIncapable, match="cannot be held to a form of output"):
        generate(client, request(constraint=OutputConstraint("json", {"type": "array"})))
    assert "structured_outputs" not in double.behaviour.completion_bodies[-1]


def test_engine_info_is_asked_once_by_many_threads(client: CompletionsClient, double: EngineDouble) -> None:
    threads = [threading.Thread(target=client.info) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    info = client.info()
    # Invalid ones cost nothing; one token streamed, one of beams, and one unstreamed.
    assert len(double.behaviour.completion_bodies) == NUM_PROBES == 20
    assert (info.model, info.revision, info.version, info.max_model_len) == (MODEL, "r1", "0.32.0", 1000)
    assert info.accepts_token_ids
    assert info.accepts_cache_salt
    assert info.accepts_priority
    assert info.stops_repetition
    assert info.constrains_output
    assert info.reports_cached_tokens
    assert info.reports_timings
    assert info.controls == BASE_CONTROLS | PROBES.keys() | {"beam_width"}
    assert not info.speculates
    assert info.notes == ()


def test_text_to_be_kept_is_named_to_an_engine_that_keeps_it_only(double: EngineDouble) -> None:
    kept = KeptText(40, "doc_1")
    generate(connect(double), request(kept=kept))
    assert "kv_transfer_params" not in double.behaviour.completion_bodies[-1]
    double.behaviour.keeps_context = True
    client = connect(double)
    assert client.info().keeps_context
    generate(client, request(kept=kept))
    assert double.behaviour.completion_bodies[-1]["kv_transfer_params"] == kept.as_json()
    generate(client, request())
    assert "kv_transfer_params" not in double.behaviour.completion_bodies[-1]


def test_what_a_plain_endpoint_lacks_is_noted_and_not_sent(double: EngineDouble) -> None:
    double.behaviour.knows_extensions = double.behaviour.reports_details = False
    double.behaviour.reports_metrics, double.behaviour.window = False, None
    client = connect(double)

    generate(client, request(cache_salt="tenant", priority=1))

    info = client.info()
    abilities = (
        info.accepts_cache_salt,
        info.accepts_priority,
        info.stops_repetition,
        info.reports_cached_tokens,
        info.reports_timings,
    )
    assert not any(abilities)
    assert info.max_model_len == 8192
    assert len(info.notes) == 9
    assert (
        not {"cache_salt", "priority", "repetition_detection"} & double.behaviour.completion_bodies[-1].keys()
    )


def test_endpoint_that_refuses_extensions_gets_none(double: EngineDouble) -> None:
    double.behaviour.is_strict = True
    assert not connect(double).info().accepts_cache_salt


def test_endpoint_without_token_ids_is_refused_with_the_way_out(double: EngineDouble) -> None:
    double.behaviour.takes_token_ids = False
    with pytest.raises(EngineIncapable, match=r"token ids.*LONGLEAF_ENGINE__URL"):
        connect(double).info()


def test_endpoint_that_counts_no_tokens_is_refused(double: EngineDouble) -> None:
    double.behaviour.reports_usage = double.behaviour.reports_continuous_usage = False
    with pytest.raises(EngineIncapable, match="does not count tokens"):
        connect(double).info()


def test_usage_is_counted_here_until_the_endpoint_says_it_at_the_end(double: EngineDouble) -> None:
    double.behaviour.reports_continuous_usage = False
    deltas = generate(connect(double))
    assert deltas[4].usage == TokenUsage(prompt_tokens=50, completion_tokens=5)
    assert deltas[-1].usage == TokenUsage(50, 32, len(ANSWER))


def test_wrong_model_names_the_served_ones(double: EngineDouble) -> None:
    with pytest.raises(Misconfigured, match=f"'other'.*serves: {MODEL}"):
        connect(double, model="other").info()


def test_wrong_key_is_a_setting_to_mend(double: EngineDouble) -> None:
    double.behaviour.api_key = "secret"
    with pytest.raises(Misconfigured, match="LONGLEAF_ENGINE__API_KEY"):
        connect(double, api_key="guess").info()
    assert generate(connect(double, api_key="secret"))[-1].finish_reason == "length"


def test_prompt_and_answer_beyond_the_window_are_refused_here(
    client: CompletionsClient, double: EngineDouble
) -> None:
    client.info()
    num_requests = len(double.behaviour.completion_bodies)
    with pytest.raises(TooLong, match=r"950 tokens.*up to 51.*1000 tokens"):
        generate(client, request(950, 51))
    assert len(double.behaviour.completion_bodies) == num_requests


def test_window_named_by_the_engine_is_too_long(client: CompletionsClient, double: EngineDouble) -> None:
    client.info()
    message = "This model's maximum context length is 900 tokens. However, your prompt contains 950."
    double.behaviour.refusals = [(400, message)]
    with pytest.raises(TooLong, match="maximum context length is 900"):
        generate(client)


def test_a_token_that_the_model_does_not_have_is_the_caller_s_mistake(
    client: CompletionsClient, double: EngineDouble
) -> None:
    client.info()
    message = "token_id(s) [999999] in logit_bias contain out-of-vocab token ids. Vocabulary size: 49152"
    double.behaviour.refusals = [(400, message)]
    with pytest.raises(InvalidInput, match="49152") as caught:
        generate(client)
    assert "bad_words" in caught.value.remedy


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (503, "The engine is currently busy and cannot accept new requests."),
        (503, "The engine has reached its prefill token backlog limit."),
        (429, "slow down"),
    ],
)
def test_full_queue_is_overload_and_not_tried_again(
    client: CompletionsClient, double: EngineDouble, status: int, message: str
) -> None:
    client.info()
    double.behaviour.refusals = [(status, message)]
    with pytest.raises(EngineOverloaded):
        generate(client)
    assert double.behaviour.refusals == []
    assert len(double.behaviour.completion_bodies) == NUM_PROBES + 1


def test_passing_failure_before_the_answer_is_tried_again(
    client: CompletionsClient, double: EngineDouble
) -> None:
    client.info()
    double.behaviour.refusals = [(502, "bad gateway"), (503, "The model is unavailable.")]
    assert generate(client)[-1].finish_reason == "length"


def test_lasting_failure_is_reported_after_the_last_attempt(
    client: CompletionsClient, double: EngineDouble
) -> None:
    client.info()
    double.behaviour.refusals = [(503, "The model is unavailable.")] * 5
    with pytest.raises(EngineUnavailable, match="unavailable") as caught:
        generate(client)
    assert len(double.behaviour.refusals) == 2
    assert caught.value.context["usage"] == TokenUsage()


def test_internal_error_is_not_tried_again(client: CompletionsClient, double: EngineDouble) -> None:
    client.info()
    double.behaviour.refusals = [(500, "EngineCore encountered an issue."), (500, "again")]
    with pytest.raises(EngineUnavailable):
        generate(client)
    assert len(double.behaviour.refusals) == 1


def test_death_in_mid_answer_says_what_was_burned_and_is_not_tried_again(
    client: CompletionsClient, double: EngineDouble
) -> None:
    client.info()
    double.behaviour.die_after = 5
    received: list[GenerationDelta] = []
    with (
        pytest.raises(EngineUnavailable, match="closed the connection") as caught,
        client.stream(request()) as it,
    ):
        received.extend(it)
    assert "".join(delta.text for delta in received) == ANSWER[:5]
    assert all(delta.finish_reason is None for delta in received)
    assert caught.value.context["usage"] == TokenUsage(50, 0, 5)
    assert len(double.behaviour.completion_bodies) == NUM_PROBES + 1


def test_error_event_in_mid_answer_is_a_failure(client: CompletionsClient, double: EngineDouble) -> None:
    client.info()
    double.behaviour.fail_after = 2
    with pytest.raises(EngineUnavailable, match="EngineCore") as caught:
        generate(client)
    assert caught.value.context["usage"] == TokenUsage(50, 0, 2)


@pytest.mark.parametrize("omission", ["omit_finish", "omit_done"])
def test_truncated_stream_never_looks_complete(
    client: CompletionsClient, double: EngineDouble, omission: str
) -> None:
    client.info()
    setattr(double.behaviour, omission, True)
    received: list[GenerationDelta] = []
    with pytest.raises(EngineUnavailable, match="ended its stream"), client.stream(request()) as deltas:
        received.extend(deltas)
    assert all(delta.finish_reason is None for delta in received)


@pytest.mark.parametrize("num_tokens_before", [0, 3])
@pytest.mark.parametrize("is_chatty", [False, True])
def test_silent_engine_is_given_up(
    client: CompletionsClient, double: EngineDouble, num_tokens_before: int, is_chatty: bool
) -> None:
    client.info()
    double.behaviour.freeze_after = num_tokens_before
    double.behaviour.is_chatty_when_frozen = is_chatty
    started_at = time.monotonic()
    with pytest.raises(EngineUnavailable, match=r"silent for 0\.3 s") as caught:
        generate(client)
    assert time.monotonic() - started_at < 2
    expected = TokenUsage(50, 0, num_tokens_before) if num_tokens_before else TokenUsage()
    assert caught.value.context["usage"] == expected


def test_leaving_early_closes_the_connection(client: CompletionsClient, double: EngineDouble) -> None:
    double.behaviour.delay_seconds = 0.02
    with client.stream(request()) as deltas:
        assert next(deltas).text == ANSWER[0]
    deadline = time.monotonic() + 2
    while not double.behaviour.num_broken_off and time.monotonic() < deadline:
        time.sleep(0.01)
    assert double.behaviour.num_broken_off == 1


def test_caller_s_own_error_passes_unchanged(client: CompletionsClient) -> None:
    def consume() -> None:
        with client.stream(request()) as deltas:
            next(deltas)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        consume()


def test_connections_are_used_again(client: CompletionsClient, double: EngineDouble) -> None:
    for _ in range(5):
        generate(client)
    assert double.behaviour.num_connections == 1


def test_threads_share_a_client_without_mixing_answers(
    client: CompletionsClient, double: EngineDouble
) -> None:
    double.behaviour.delay_seconds = 0.001
    results: dict[int, str] = {}

    def ask(length: int) -> None:
        results[length] = "".join(delta.text for delta in generate(client, request(max_tokens=length)))

    threads = [threading.Thread(target=ask, args=(length,)) for length in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {length: ANSWER[:length] for length in range(1, 17)}


def test_nothing_listening_is_unavailable_and_unhealthy() -> None:
    with running_double() as double:
        client = connect(double)
        assert client.is_healthy()
        client.info()
    with pytest.raises(EngineUnavailable, match=double.url) as caught:
        generate(client)
    assert caught.value.context["usage"] == TokenUsage()
    assert not client.is_healthy()


def test_counters_are_the_engine_s(client: CompletionsClient) -> None:
    counters = client.engine_counters()
    assert (counters.prompt_tokens, counters.num_running, counters.generation_tokens) == (7, 1, 0)


def test_reset_without_developer_endpoints_says_how_to_get_them(client: CompletionsClient) -> None:
    with pytest.raises(EngineIncapable, match="VLLM_SERVER_DEV_MODE"):
        client.reset_prefix_cache()


def test_tokens_come_with_their_log_probabilities_when_asked_for(
    client: CompletionsClient, double: EngineDouble
) -> None:
    assert client.info().reports_logprobs
    assert client.info().reports_token_ids
    double.behaviour.answer, double.behaviour.stop_reason = "长江", "。"
    with client.stream(request(num_logprobs=5)) as deltas:
        received = list(deltas)
    tokens = [token for delta in received for token in delta.tokens]
    assert [token.token_id for token in tokens] == [ord("长"), ord("江")]
    assert tokens[0].logprob == pytest.approx(math.log(0.5))
    assert [choice.token_id for choice in tokens[0].alternatives] == [ord("长"), ord("x")]
    assert received[-1].stop_reason == "。"


def test_an_endpoint_without_log_probabilities_is_not_asked_for_them(double: EngineDouble) -> None:
    double.behaviour.knows_extensions = False
    client = connect(double)
    assert not client.info().reports_logprobs
    with client.stream(request(num_logprobs=5)) as deltas:
        assert all(delta.tokens == () for delta in deltas)
    assert "logprobs" not in double.behaviour.completion_bodies[-1]
