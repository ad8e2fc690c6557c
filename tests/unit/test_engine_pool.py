"""Several engines as one, over real sockets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from core.errors import EngineIncapable, EngineOverloaded, EngineUnavailable, Misconfigured
from inference.admission import AdmissionPolicy
from inference.completions_client import ClientTimeouts, CompletionsClient, RetryPolicy
from inference.engine_pool import MAX_ROUNDS, EnginePool
from inference.pooled_engine import PooledEngine
from inference.protocols import GenerationDelta, GenerationRequest, OutputConstraint, SamplingParameters
from tests.engine_double import ANSWER, MODEL, EngineDouble, running_double

TIMEOUTS = ClientTimeouts(connect_seconds=0.5, silence_seconds=1.0, health_seconds=0.5)


@pytest.fixture
def doubles() -> Iterator[list[EngineDouble]]:
    with ExitStack() as stack:
        yield [stack.enter_context(running_double()) for _ in range(2)]


@pytest.fixture
def pool(doubles: list[EngineDouble]) -> EnginePool:
    return pool_of([double.url for double in doubles])


def pool_of(urls: list[str], *, max_imbalance: int = 4, wait_seconds: float = 0.0) -> EnginePool:
    once = RetryPolicy(max_attempts=1)
    return EnginePool(
        [
            PooledEngine(
                f"engine-{n}", url, CompletionsClient(url, model=MODEL, timeouts=TIMEOUTS, retries=once)
            )
            for n, url in enumerate(urls, start=1)
        ],
        max_imbalance=max_imbalance,
        admission=AdmissionPolicy(wait_seconds),
    )


def request(beginning: int = 0, **sampling: object) -> GenerationRequest:
    return GenerationRequest(
        [beginning, *range(100, 140)],
        SamplingParameters(max_tokens=64, **sampling),  # type: ignore[arg-type]
    )


def generate(pool: EnginePool, wanted: GenerationRequest) -> list[GenerationDelta]:
    with pool.stream(wanted) as deltas:
        return list(deltas)


def served_by(deltas: list[GenerationDelta]) -> str:
    assert "".join(delta.text for delta in deltas) == ANSWER
    assert all(delta.engine == "" for delta in deltas[1:])
    return deltas[0].engine


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_same_beginning_goes_to_the_same_engine_and_all_engines_work(pool: EnginePool) -> None:
    homes = {n: served_by(generate(pool, request(n))) for n in range(8)}
    assert set(homes.values()) == {"engine-1", "engine-2"}
    assert homes == {n: served_by(generate(pool, request(n))) for n in range(8)}
    assert sum(engine.num_served for engine in pool.engines) == 16


def test_two_pools_send_the_same_beginning_to_the_same_engine(
    pool: EnginePool, doubles: list[EngineDouble]
) -> None:
    turned = pool_of([double.url for double in reversed(doubles)])
    by_name = {"engine-1": "engine-2", "engine-2": "engine-1"}
    for n in range(4):
        assert served_by(generate(pool, request(n))) == by_name[served_by(generate(turned, request(n)))]


def test_engines_of_different_windows_are_refused_and_both_are_named(
    pool: EnginePool, doubles: list[EngineDouble]
) -> None:
    doubles[1].behaviour.window = 2000
    with pytest.raises(Misconfigured) as raised:
        pool.info()
    assert all(double.url in str(raised.value) for double in doubles)
    assert "1000" in str(raised.value)
    assert "2000" in str(raised.value)


def test_an_engine_that_comes_up_late_and_wrong_is_left_out(doubles: list[EngineDouble]) -> None:
    with running_double() as gone:
        port = gone.port
    pool = pool_of([f"http://127.0.0.1:{port}", doubles[0].url])
    assert {served_by(generate(pool, request(n))) for n in range(4)} == {"engine-2"}
    late = EngineDouble(port)
    late.behaviour.window = 2000
    threading.Thread(target=late.serve_forever, args=(0.01,), daemon=True).start()
    pool.engines[0].look()
    assert {served_by(generate(pool, request(n))) for n in range(4)} == {"engine-2"}
    assert pool.info().max_model_len == 1000
    late.shutdown()
    late.server_close()


def test_a_request_goes_on_to_the_next_engine_if_its_own_is_down(doubles: list[EngineDouble]) -> None:
    pool = pool_of(["http://127.0.0.1:9", doubles[1].url])
    assert {served_by(generate(pool, request(n))) for n in range(4)} == {"engine-2"}
    assert pool.is_healthy()


def test_an_engine_that_dies_before_the_first_token_hands_its_request_on(
    pool: EnginePool, doubles: list[EngineDouble]
) -> None:
    home = served_by(generate(pool, request()))
    dying = doubles[int(home[-1]) - 1]
    dying.behaviour.die_after = 0
    assert served_by(generate(pool, request())) != home
    dying.behaviour.die_after = None
    pool.engines[int(home[-1]) - 1].look()
    assert served_by(generate(pool, request())) == home, "it was seen to be up"


def test_what_breaks_after_the_first_token_is_the_callers(
    pool: EnginePool, doubles: list[EngineDouble]
) -> None:
    for double in doubles:
        double.behaviour.die_after = 3
    with pytest.raises(EngineUnavailable) as raised:
        generate(pool, request())
    assert raised.value.context["usage"].completion_tokens == 3  # type: ignore[attr-defined]


FULL = (503, "The engine is currently busy and cannot accept new requests.")


def test_where_all_engines_are_full_a_request_waits_for_a_place(doubles: list[EngineDouble]) -> None:
    pool = pool_of([double.url for double in doubles], wait_seconds=10)
    pool.info()
    for double in doubles:
        double.behaviour.refusals = [FULL]
    assert served_by(generate(pool, request()))


def test_one_engine_that_is_full_is_waited_for_while_the_other_is_down(doubles: list[EngineDouble]) -> None:
    pool = pool_of([doubles[0].url, "http://127.0.0.1:9"], wait_seconds=10)
    pool.info()
    doubles[0].behaviour.refusals = [FULL, FULL]
    assert served_by(generate(pool, request())) == "engine-1"


def test_an_engine_started_again_with_another_model_hands_its_requests_on(
    pool: EnginePool, doubles: list[EngineDouble]
) -> None:
    home = served_by(generate(pool, request()))
    wrong = (404, '{"error": {"message": "The model `double` does not exist.", "code": 404}}')
    doubles[int(home[-1]) - 1].behaviour.refusals = [wrong]
    assert served_by(generate(pool, request())) != home
    for double in doubles:
        double.behaviour.refusals = [wrong] * MAX_ROUNDS
    with pytest.raises(Misconfigured):
        generate(pool, request())


def test_a_full_engine_hands_on_and_if_all_are_full_the_request_is_refused_at_once(
    pool: EnginePool, doubles: list[EngineDouble]
) -> None:
    home = served_by(generate(pool, request()))
    full = (503, "The engine is currently busy and cannot accept new requests.")
    doubles[int(home[-1]) - 1].behaviour.refusals = [full]
    assert served_by(generate(pool, request())) != home
    for double in doubles:
        double.behaviour.refusals = [full]
    with pytest.raises(EngineOverloaded):
        generate(pool, request())


def test_no_engine_at_all_says_so() -> None:
    pool = pool_of(["http://127.0.0.1:9", "http://127.0.0.1:10"])
    with pytest.raises(EngineUnavailable):
        pool.info()
    with pytest.raises(EngineUnavailable):
        generate(pool, request())


def test_requests_go_where_their_controls_hold(doubles: list[EngineDouble]) -> None:
    doubles[0].behaviour.speculates = True  # which min_p is lost to
    pool = pool_of([double.url for double in doubles])
    assert "min_p" in pool.info().controls
    wanted = [request(n, min_p=0.1, temperature=1.0) for n in range(4)]
    assert {served_by(generate(pool, each)) for each in wanted} == {"engine-2"}
    pool.engines[1].rest()
    assert served_by(generate(pool, wanted[0])) == "engine-2", "down, perhaps, but the only one that can"


def test_a_constraint_that_no_engine_can_hold_is_refused_with_the_reason(
    doubles: list[EngineDouble],
) -> None:
    for double in doubles:
        double.behaviour.knows_extensions = False
    pool = pool_of([double.url for double in doubles])
    assert not pool.info().constrains_output
    wanted = GenerationRequest([1, 2, 3], SamplingParameters(8), constraint=OutputConstraint("regex", "a"))
    with pytest.raises(EngineIncapable, match="form of output"):
        generate(pool, wanted)


def test_a_busy_engine_is_passed_over(doubles: list[EngineDouble]) -> None:
    pool = pool_of([double.url for double in doubles], max_imbalance=1)
    home = served_by(generate(pool, request()))
    busy = pool.engines[int(home[-1]) - 1]
    doubles[int(home[-1]) - 1].behaviour.delay_seconds = 0.05

    def keep_busy() -> None:
        with busy.stream(request()) as deltas:
            list(deltas)

    # One more than the two that are too many: a look at the other finds a request of somebody else's.
    threads = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_for(lambda: busy.load >= 3)
    assert served_by(generate(pool, request())) != home
    for thread in threads:
        thread.join()
    wait_for(lambda: busy.load <= 1)


def test_requests_of_other_processes_count_when_they_were_seen(pool: EnginePool) -> None:
    engine = pool.engines[0]
    engine.look()  # the double says that one is running
    assert engine.load == 1


def test_counters_of_the_pool_are_those_of_all(pool: EnginePool, doubles: list[EngineDouble]) -> None:
    counters = pool.engine_counters()
    assert (counters.prompt_tokens, counters.num_running) == (14, 2)
