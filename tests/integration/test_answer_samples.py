"""Several samples of one answer, through the pipeline on a real database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import select

from accounting.recent_usage import list_similar_uses
from accounting.stages import Stage
from core.errors import EngineUnavailable, JobCancelled
from core.usage import TokenUsage
from inference.protocols import GenerationDelta, GenerationRequest
from storage.database import Database
from storage.engine_samples import list_timed_answers
from storage.job_run import JobRun
from storage.models import LedgerEntry
from tests.pipeline_fixtures import House, ScriptedGenerator, build_house

TEXT = b"Neptune has fourteen known moons. Triton is the largest moon of Neptune."
MOONS = "How many known moons has Neptune?"
FOURTEEN = "Neptune has fourteen known moons."


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    house = build_house(database, tmp_path)
    job_id = house.upload({"moons.txt": TEXT})
    house.ingest.run(house.claim(job_id))
    return house


def entries(house: House, answer_id: str) -> list[LedgerEntry]:
    with house.database.read() as session:
        return list(session.scalars(select(LedgerEntry).where(LedgerEntry.source == answer_id)))


def test_the_answer_is_what_most_samples_say_and_each_has_its_cost(house: House) -> None:
    house.generator.texts = {"-0": "It has two moons.", "-1": FOURTEEN, "-2": "Fourteen known moons."}
    job_id, answer_id = house.ask(MOONS, mode="abstractive", preset="creative", n=3, seed=7)
    house.answers.run(house.claim(job_id))

    answer = house.answer(answer_id)
    assert answer.outcome == "answered"
    assert answer.text is not None
    assert "ourteen" in answer.text
    samples = answer.samples
    assert samples["clusters"] == [[1, 2], [0]]
    assert samples["chosen"] in (1, 2)
    assert samples["agreement"] == pytest.approx(0.6667)
    assert [item["seed"] for item in samples["items"]] == [7, 8, 9]
    assert answer.steps["sampling"]["n"] == 3

    lines = {line.stage: line for line in entries(house, answer_id)}
    assert lines["decode"].num_tokens == sum(item["completion_tokens"] for item in samples["items"]) == 12
    assert lines["prefill_cached"].num_tokens == 3 * 32
    of_samples = sum((Decimal(item["cost"]) for item in samples["items"]), Decimal(0))
    assert of_samples == sum(lines[stage].cost for stage in ("decode", "prefill_cached", "prefill_uncached"))
    assert answer.completion_tokens == 12
    assert lines["decode"].engine_seconds > 0


def test_a_stream_has_the_chosen_text_once_it_is_known(house: House) -> None:
    house.generator.text = FOURTEEN
    job_id, answer_id = house.ask(MOONS, mode="abstractive", preset="creative", n=4)
    house.answers.run(house.claim(job_id))
    deltas = [
        str(data["text"]) for job, kind, data in house.events.published if (job, kind) == (job_id, "delta")
    ]
    assert "".join(deltas) == house.answer(answer_id).text == f"{FOURTEEN} [1]"
    seeds = {request.sampling.seed for request in house.generator.requests}
    assert (len(house.generator.requests), seeds) == (4, {None})


def test_a_majority_of_refusals_refuses(house: House) -> None:
    refusal = "The documents do not answer this question."
    house.generator.texts = {"-0": FOURTEEN, "-1": refusal, "-2": refusal}
    job_id, answer_id = house.ask(MOONS, mode="abstractive", preset="creative", n=3)
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert answer.outcome == "refused"
    assert answer.samples["clusters"] == [[1, 2], [0]]


def test_a_minority_is_said_to_be_one(house: House) -> None:
    house.generator.texts = {"-0": FOURTEEN, "-1": "Neptune has two moons.", "-2": "Triton."}
    job_id, answer_id = house.ask(MOONS, mode="abstractive", preset="creative", n=3)
    house.answers.run(house.claim(job_id))
    assert "Only 1 of 3 samples say this." in house.answer(answer_id).warnings


def test_one_sample_that_fails_stops_all_and_what_they_took_is_burned(house: House) -> None:
    house.generator.text = FOURTEEN
    house.generator.failure, house.generator.fail_after = EngineUnavailable("gone", usage=TokenUsage()), 2
    job_id, answer_id = house.ask(MOONS, mode="abstractive", preset="creative", n=3)
    with pytest.raises(EngineUnavailable):
        house.answers.run(house.claim(job_id))
    decoded = [line for line in entries(house, answer_id) if line.stage == "decode"]
    assert [line.billed for line in decoded] == [False]
    assert 2 <= decoded[0].num_tokens <= 6


def test_cancelling_stops_all_samples(house: House) -> None:
    house.generator.text = " ".join(["word"] * 2000)
    job_id, answer_id = house.ask(MOONS, mode="abstractive", preset="creative", n=3)
    claimed = house.claim(job_id)

    def checkpoint() -> None:
        if house.generator.requests:
            raise JobCancelled("The caller asked for it to stop.")

    with pytest.raises(JobCancelled):
        house.answers.run(JobRun(job=claimed.job, owner=claimed.owner, checkpoint=checkpoint))
    assert house.answer(answer_id).outcome is None


def test_an_extractive_answer_says_that_nothing_was_sampled(house: House) -> None:
    job_id, answer_id = house.ask(MOONS, temperature=0.9, n=3)  # mode auto, which here extracts
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert (answer.mode, answer.outcome, answer.samples) == ("extractive", "answered", {})
    assert any("temperature, n had no effect" in warning for warning in answer.warnings)


def test_neither_an_engine_s_pace_nor_a_quote_for_one_answer_is_told_from_several(house: House) -> None:
    house.generator.text = FOURTEEN
    for parameters in ({"n": 3, "preset": "creative"}, {}, {"n": 1}):
        job_id, _ = house.ask(MOONS, mode="abstractive", **parameters)
        house.answers.run(house.claim(job_id))
    tenant_id, collection_id = house.principal.tenant_id, house.collection_id
    with house.database.read() as session:
        timed = list_timed_answers(session, model="scripted", limit=10)
        assert [answer.completion_tokens for answer in timed] == [5, 5]
        for number, decoded in ((1, [5, 5]), (3, [15])):
            uses = list_similar_uses(
                session, tenant_id, collection_id, mode="abstractive", num_samples=number, limit=10
            )
            assert [use.tokens[Stage.DECODE] for use in uses] == decoded


class SeveralEngines(ScriptedGenerator):
    """Each request is served by the engine of its number."""

    def _deltas(self, request: GenerationRequest) -> Iterator[GenerationDelta]:
        for delta in super()._deltas(request):
            yield replace(delta, engine=f"engine{request.request_id[-2:]}")


def test_of_several_engines_the_one_is_named_that_drew_the_answer(database: Database, tmp_path: Path) -> None:
    house = build_house(database, tmp_path, generator=SeveralEngines())
    house.ingest.run(house.claim(house.upload({"moons.txt": TEXT})))
    house.generator.texts = {"-0": "It has two moons.", "-1": FOURTEEN, "-2": FOURTEEN}
    job_id, answer_id = house.ask(MOONS, mode="abstractive", preset="creative", n=3)
    house.answers.run(house.claim(job_id))
    assert house.answer(answer_id).steps["engine"] == {"name": "engine-1"}
