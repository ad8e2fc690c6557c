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
