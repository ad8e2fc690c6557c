from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accounting.ledger import generation_lines
from accounting.stages import Stage
from core.usage import TokenUsage

counts = st.integers(0, 10**6)


@given(uncached=counts, cached=counts, completion=counts)
def test_every_token_is_on_exactly_one_line(uncached: int, cached: int, completion: int) -> None:
    usage = TokenUsage(uncached + cached, cached, completion)
    lines = generation_lines(usage, source="ans_1", attempt=1, model="m", model_revision="r")
    assert {line.stage: line.num_tokens for line in lines} == {
        stage: count
        for stage, count in (
            (Stage.PREFILL_UNCACHED, uncached),
            (Stage.PREFILL_CACHED, cached),
            (Stage.DECODE, completion),
        )
        if count
    }


def test_engine_time_goes_to_what_was_computed() -> None:
    lines = generation_lines(
        TokenUsage(100, 64, 10),
        source="ans_1",
        attempt=2,
        model="m",
        model_revision="r",
        prefill_seconds=0.5,
        decode_seconds=1.5,
        billed=False,
        job_id="job_1",
    )
    assert [(line.stage, line.engine_seconds) for line in lines] == [
        (Stage.PREFILL_UNCACHED, 0.5),
        (Stage.PREFILL_CACHED, 0.0),
        (Stage.DECODE, 1.5),
    ]
    assert {(line.billed, line.attempt, line.job_id) for line in lines} == {(False, 2, "job_1")}


def test_a_measured_share_of_the_engine_is_split_as_the_wait_was() -> None:
    usage = TokenUsage(100, 64, 10, engine_seconds=1.0)
    lines = generation_lines(
        usage,
        source="a",
        attempt=1,
        model="m",
        model_revision="r",
        prefill_seconds=0.5,
        decode_seconds=1.5,
    )
    assert [line.engine_seconds for line in lines] == [0.25, 0.0, 0.75]


@given(
    uncached=counts, cached=counts, completion=counts, wait=st.sampled_from([(0, 0), (1, 0), (0, 1), (1, 3)])
)
def test_a_share_is_on_the_lines_whole_whatever_they_are(
    uncached: int, cached: int, completion: int, wait: tuple[float, float]
) -> None:
    usage = TokenUsage(uncached + cached, cached, completion, engine_seconds=2.0)
    lines = generation_lines(
        usage,
        source="a",
        attempt=1,
        model="m",
        model_revision="r",
        prefill_seconds=wait[0],
        decode_seconds=wait[1],
    )
    assert sum(line.engine_seconds for line in lines) == (2.0 if lines else 0.0)
