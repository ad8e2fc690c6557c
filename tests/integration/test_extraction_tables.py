"""Tables on a real database and real indexes: filled, verified, paid for once, taken up again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from accounting.ledger import Ledger
from bootstrap.answer_services import ModelDefaults
from bootstrap.extraction_services import build_extraction_pipeline
from core.errors import EmptyInput, EngineUnavailable, JobCancelled
from core.ids import DocumentId, ExtractionId, JobId
from generation.extraction_tables.pipeline import ExtractionPipeline
from generation.extraction_tables.registration import ExtractionParameters, register_extraction
from retrieval.filters import DocumentFilter
from storage.database import Database
from storage.documents import DocumentRepository
from storage.extractions import ExtractionRepository
from storage.job_run import JobRun
from storage.jobs import JobQueue, JobRepository
from storage.models import Document, Extraction, ExtractionRow, Job, LedgerEntry
from tests.pipeline_fixtures import House, WordTokenizer, build_house

ACME = b"Acme was founded in 1987 in Lisbon. In 2023 the revenue of Acme rose to 14,500 dollars."
INITECH = "华云公司成立于2015年3月5日，总部设在杭州。2023年公司营业收入为1.4万元。".encode()
SCHEMA = {
    "type": "object",
    "properties": {
        "revenue": {"type": "integer", "description": "revenue 营业收入 in 2023"},
        "city": {"type": "string", "description": "city where the company sits, 总部"},
    },
}


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    house = build_house(database, tmp_path)
    house.ingest.run(house.claim(house.upload({"acme.txt": ACME, "华云.txt": INITECH}, tags=["a"])))
    return house


def tables(house: House, *, method: str = "fill", slice_seconds: float = 100.0) -> ExtractionPipeline:
    return build_extraction_pipeline(
        settings=house.settings.ask,
        defaults=ModelDefaults.of(None if method == "fill" else 1_000_000),
        database=house.database,
        embedder=house.embedder,
        retrieval=house.retrieval,
        generator=house.generator,
        tokenizer=WordTokenizer(),
        ledger=Ledger(),
        min_support=0.0,
        slice_seconds=slice_seconds,
    )


def register(house: House, schema: dict[str, Any] = SCHEMA, **parameters: Any) -> Extraction:
    with house.database.write() as session:
        return register_extraction(
            session,
            house.principal,
            house.collection_id,
            ExtractionParameters(schema=schema, **parameters),
            max_attempts=3,
        )


def state(house: House, extraction: Extraction) -> tuple[Extraction, Sequence[ExtractionRow], Job]:
    with house.database.read() as session:
        repository = ExtractionRepository(session, house.principal.tenant_id)
        row = repository.get(ExtractionId(extraction.id))
        rows = repository.list_parts(ExtractionId(extraction.id))
        return row, rows, JobRepository(session, house.principal.tenant_id).get(JobId(row.job_id))


def row_of(rows: Sequence[ExtractionRow], name: str) -> ExtractionRow:
    return next(row for row in rows if row.document_name == name)


def lines(house: House, extraction: Extraction) -> list[LedgerEntry]:
    with house.database.read() as session:
        return list(
            session.scalars(select(LedgerEntry).where(LedgerEntry.source.startswith(f"{extraction.id}/")))
        )


def test_a_model_fills_rows_and_what_is_not_in_the_document_is_null(house: House) -> None:
    extraction = register(house, max_repairs=0)
    house.generator.replies = [
        json.dumps({"revenue": 14500, "city": "Paris"}),
        json.dumps({"revenue": 14000, "city": "杭州"}, ensure_ascii=False),
    ]
    assert tables(house).run(house.claim(JobId(extraction.job_id))) == "done"
    done, rows, job = state(house, extraction)
    assert (job.status, done.num_done, done.finished_at is not None) == ("succeeded", 2, True)
    assert job.progress == {"documents_done": 2, "documents_total": 2}
    acme, other = row_of(rows, "acme.txt"), row_of(rows, "华云.txt")
    assert (acme.outcome, other.outcome) == ("partial", "filled")
    revenue = acme.cells["revenue"]
    assert revenue["value"] == 14500
    assert ACME.decode()[revenue["start"] : revenue["end"]] == revenue["text"] == "14,500 dollars"
    assert revenue["citation"]["first_page"] == 1
    assert revenue["citation"]["document_id"] == acme.document_id
    assert (acme.cells["city"]["value"], acme.cells["city"]["reason"]) == (None, "not_in_document")
    assert acme.cells["city"]["rejected"] == "Paris"
    assert other.cells["revenue"]["text"] == "1.4万元"
    assert other.cells["city"]["value"] == "杭州"
    constraint = house.generator.requests[0].constraint
    assert constraint is not None
    assert constraint.kind == "json"
    billed = lines(house, extraction)
    assert {line.document_id for line in billed} == {acme.document_id, other.document_id}
    assert {line.stage for line in billed} >= {"embed", "prefill_uncached", "decode"}
    assert all(line.billed for line in billed)


def test_an_unfounded_cell_is_asked_for_again_alone(house: House) -> None:
    with house.database.read() as session:
        acme = session.scalar(select(Document.id).where(Document.name == "acme.txt"))
    extraction = register(house, filter=DocumentFilter(document_ids=(acme,)))
    house.generator.replies = [
        json.dumps({"revenue": 14500, "city": "Paris"}),
        json.dumps({"city": "Lisbon"}),
    ]
    tables(house).run(house.claim(JobId(extraction.job_id)))
    _, [row], _ = state(house, extraction)
    assert row.outcome == "filled"
    assert row.cells["city"]["value"] == "Lisbon"
    assert row.trail[0]["findings"][0]["stage"] == "support"
    assert "Paris" in row.trail[0]["findings"][0]["detail"]
    second = house.generator.requests[1]
    assert second.constraint is not None
    assert list(second.constraint.value["properties"]) == ["city"]  # type: ignore[index,call-overload]
    completion = sum(line.num_tokens for line in lines(house, extraction) if line.stage == "decode")
    assert completion == sum(step["usage"]["completion_tokens"] for step in row.trail if "usage" in step)


def test_without_a_model_the_likeliest_phrase_of_the_right_type_is_taken(house: House) -> None:
    schema = {
        "type": "object",
        "properties": {
            "revenue": {"type": "integer", "description": "revenue 营业收入"},
            "founded": {"type": "string", "format": "date", "description": "founded 成立"},
            "profitable": {"type": "boolean"},
        },
    }
    extraction = register(house, schema)
    assert tables(house, method="rule").run(house.claim(JobId(extraction.job_id))) == "done"
    _, rows, _ = state(house, extraction)
    assert house.generator.requests == []
    acme, other = row_of(rows, "acme.txt"), row_of(rows, "华云.txt")
    assert acme.cells["revenue"]["value"] == 14500
    assert acme.cells["founded"]["value"] == "1987"
    assert other.cells["revenue"]["value"] == 14000
    assert other.cells["founded"]["value"] == "2015-03-05"
    assert acme.cells["profitable"]["reason"] == "needs_model"
    assert {line.stage for line in lines(house, extraction)} <= {"embed", "rerank", "extract"}


def test_a_model_may_choose_among_phrases_only(house: House) -> None:
    extraction = register(
        house, {"type": "object", "properties": {"revenue": {"type": "integer"}}}, method="choice"
    )
    house.generator.text = "14,500 dollars"
    tables(house).run(house.claim(JobId(extraction.job_id)))
    _, rows, _ = state(house, extraction)
    assert row_of(rows, "acme.txt").cells["revenue"]["value"] == 14500
    offered = house.generator.requests[0].constraint
    assert offered is not None
    assert offered.kind == "choice"
    assert {"not stated"} < set(offered.value) or {"未提及"} < set(offered.value)


def test_a_table_is_filled_in_slices_and_a_dead_workers_rows_are_not_filled_twice(house: House) -> None:
    extraction = register(house)
    house.generator.text = json.dumps({"revenue": None, "city": None})
    pipeline = tables(house, slice_seconds=0.0)
    lost = house.claim(JobId(extraction.job_id))
    assert pipeline.run(lost) == "yielded"
    house.lose_worker(lost.job.id)  # before it could give the job back
    run = house.claim(lost.job.id)
    assert run.job.attempt == 2
    assert pipeline.run(run) == "yielded"
    with house.database.write() as session:
        JobQueue(session).yield_job(run.job.id, run.owner)
    assert pipeline.run(house.claim(run.job.id)) == "done"
    done, rows, _ = state(house, extraction)
    assert done.num_done == 2
    assert {row.outcome for row in rows} == {"empty"}
    assert len(house.generator.requests) == 2
    by_document = {(line.document_id, line.stage, line.attempt) for line in lines(house, extraction)}
    assert len({attempt for _, _, attempt in by_document}) == 2


def test_what_a_failed_attempt_took_is_burned_and_the_row_stays_open(house: House) -> None:
    extraction = register(house)
    house.generator.text = '{"revenue": 1, "city": "x"}'
    house.generator.failure, house.generator.fail_after = EngineUnavailable("gone"), 2
    with pytest.raises(EngineUnavailable):
        tables(house).run(house.claim(JobId(extraction.job_id)))
    _, rows, _ = state(house, extraction)
    assert all(row.outcome is None for row in rows)
    burned = lines(house, extraction)
    assert {line.stage for line in burned} >= {"decode"}
    assert not any(line.billed for line in burned)


def test_every_try_of_a_row_counts_its_engine_time(house: House) -> None:
    with house.database.read() as session:
        acme = DocumentId(session.scalars(select(Document.id).where(Document.name == "acme.txt")).one())
    extraction = register(house, filter=DocumentFilter(document_ids=(acme,)), max_repairs=1)
    house.generator.replies = [
        json.dumps({"revenue": 99999, "city": "Lisbon"}),
        json.dumps({"revenue": 14500}),
    ]
    tables(house).run(house.claim(JobId(extraction.job_id)))
    decoded = [line for line in lines(house, extraction) if line.stage == "decode"]
    assert sum(line.engine_seconds for line in decoded) == pytest.approx(2 * 0.2)


def test_a_table_cancelled_while_the_model_writes_stops_there_and_burns_what_it_took(house: House) -> None:
    extraction = register(house)
    house.generator.text = " ".join(["word"] * 500)
    run = house.claim(JobId(extraction.job_id))

    def checkpoint() -> None:
        if house.generator.requests:
            raise JobCancelled("The caller asked for it to stop.")

    with pytest.raises(JobCancelled):
        tables(house).run(JobRun(job=run.job, owner=run.owner, checkpoint=checkpoint))
    decoded = [line for line in lines(house, extraction) if line.stage == "decode"]
    assert [(line.num_tokens, line.billed) for line in decoded] == [(1, False)]


def test_whatever_ends_an_attempt_what_it_took_is_on_the_ledger(house: House) -> None:
    extraction = register(house)
    house.generator.text, house.generator.fail_after = "a b c d", 2
    house.generator.failure = RuntimeError("a fault of ours")
    with pytest.raises(RuntimeError):
        tables(house).run(house.claim(JobId(extraction.job_id)))
    decoded = [line for line in lines(house, extraction) if line.stage == "decode"]
    assert [(line.num_tokens, line.billed) for line in decoded] == [(2, False)]


def test_the_engine_is_told_that_a_table_is_background_work(house: House) -> None:
    house.generator.text = json.dumps({"revenue": 14500, "city": None})
    extraction = register(house)
    tables(house).run(house.claim(JobId(extraction.job_id)))
    # A priority of its own would be before that of its job, which the engine's client adds.
    assert {request.priority for request in house.generator.requests} == {0}


def test_a_cancelled_table_keeps_the_rows_it_has(house: House) -> None:
    extraction = register(house)
    house.generator.text = json.dumps({"revenue": 14500, "city": None})
    pipeline = tables(house, slice_seconds=0.0)
    run = house.claim(JobId(extraction.job_id))
    pipeline.run(run)
    with house.database.write() as session:
        JobRepository(session, house.principal.tenant_id).request_cancel(run.job.id)
    with pytest.raises(JobCancelled):
        pipeline.run(run)
    _, rows, _ = state(house, extraction)
    assert [row.outcome is None for row in rows] == [False, True]
    assert {line.billed for line in lines(house, extraction)} == {True, False}


def test_a_document_deleted_meanwhile_has_a_row_that_says_so(house: House) -> None:
    extraction = register(house)
    _, rows, _ = state(house, extraction)
    with house.database.write() as session:
        DocumentRepository(session, house.principal.tenant_id).delete(rows[0].document_id)  # type: ignore[arg-type]
    house.generator.text = json.dumps({"revenue": None, "city": None})
    assert tables(house).run(house.claim(JobId(extraction.job_id))) == "done"
    _, rows, job = state(house, extraction)
    assert job.status == "succeeded"
    assert rows[0].outcome == "failed"
    assert rows[0].trail[0]["error"]["code"] == "not_found"


def test_no_document_is_no_table(house: House) -> None:
    with pytest.raises(EmptyInput):
        register(house, filter=DocumentFilter(tags=("none",)))
