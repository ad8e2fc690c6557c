"""Summaries on a real database: every page read, every statement cited, nothing paid for twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import delete as delete_rows
from sqlalchemy import select, update

from accounting.budgets import create_budget
from accounting.ledger import Ledger
from bootstrap.answer_services import ModelDefaults
from bootstrap.job_kinds import retry_job
from bootstrap.summary_quoting import quote_summary
from bootstrap.summary_services import build_summary_pipeline
from core.clock import utc_now
from core.errors import (
    BudgetHeld,
    Conflict,
    EmptyInput,
    EngineUnavailable,
    InvalidInput,
    JobCancelled,
    NotFound,
)
from core.ids import CollectionId, DocumentId, JobId, SummaryId, content_hash, derive_chunk_id
from generation.summaries.parameters import SummaryParameters
from generation.summaries.pipeline import SummaryPipeline
from generation.summaries.registration import register_summary
from retrieval.filters import DocumentFilter
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.jobs import JobQueue, JobRepository
from storage.models import (
    BudgetHold,
    Chunk,
    Document,
    Job,
    LedgerEntry,
    Page,
    Summary,
    SummaryDocument,
    SummaryNode,
    WebhookDelivery,
)
from storage.retention import forget_results, forget_summary_nodes
from storage.summaries import SummaryRepository
from storage.webhooks import WebhookRepository
from tests.databases import make_sqlite
from tests.pipeline_fixtures import House, WordTokenizer, build_house

TOPICS = ("roof", "budget", "school", "harbour", "garden", "bridge", "library", "market")


def report(number: int, *, num_parts: int = 4) -> list[str]:
    """Pages of a document, one for each of its parts."""
    return [
        f"In report {number} the council of the town discussed the {TOPICS[part]} at great length. "
        f"The {TOPICS[part]} will cost {number}{part}00 dollars in the coming year, as the council decided. "
        + "".join(
            f"Speaker {i} of {number} said that the {TOPICS[part]} was important for people on street {i}. "
            for i in range(6)
        )
        for part in range(num_parts)
    ]


CHINESE = (
    "镇议会在年度会议上讨论了屋顶的维修问题，并决定拨款一万四千元。议员们认为图书馆的开放时间应当延长到晚上九点。"
    "十月的一场暴风雨损坏了北方仓库的屋顶，修复工作持续了三周。"
)


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    return furnished(build_house(database, tmp_path))


@pytest.fixture
def local(tmp_path: Path) -> Iterator[House]:
    """On SQLite alone, for what both databases do alike."""
    database = Database(make_sqlite(tmp_path / "longleaf.db"))
    yield furnished(build_house(database, tmp_path))
    database.dispose()


def furnished(house: House) -> House:
    add(house, "one.md", report(1))
    add(house, "two.md", report(2))
    add(house, "三.txt", [CHINESE])
    return house


def add(house: House, name: str, pages: Sequence[str]) -> None:
    """A document as ingest leaves it: a page is a chunk under a heading of its own."""
    tenant_id, text = house.principal.tenant_id, "".join(pages)
    with house.database.write() as session:
        document = DocumentRepository(session, tenant_id).create(
            house.collection_id, name=name, content_hash=content_hash(text), num_bytes=len(text.encode())
        )
        document.status, document.num_pages = "ready", len(pages)
        start = 0
        for number, page in enumerate(pages, start=1):
            end = start + len(page)
            session.add(
                Page(
                    document_id=document.id,
                    number=number,
                    tenant_id=tenant_id,
                    start=start,
                    end=end,
                    text=page,
                    layout=b"",
                )
            )
            session.add(
                Chunk(
                    id=derive_chunk_id(DocumentId(document.id), number, page),
                    tenant_id=tenant_id,
                    collection_id=house.collection_id,
                    document_id=document.id,
                    position=number,
                    start=start,
                    end=start + len(page.rstrip()),
                    first_page=number,
                    last_page=number,
                    headings=[f"Part {number}"],
                    text=page.rstrip(),
                    num_tokens=len(page.split()),
                    num_generator_tokens=len(page),
                )
            )
            start = end


def pipeline(house: House, *, slice_seconds: float = 100.0) -> SummaryPipeline:
    return build_summary_pipeline(
        defaults=ModelDefaults.of(1_000_000),
        database=house.database,
        embedder=house.embedder,
        generator=house.generator,
        tokenizer=WordTokenizer(),
        ledger=Ledger(),
        slice_seconds=slice_seconds,
    )


def register(house: House, **parameters: object) -> Summary:
    with house.database.write() as session:
        return register_summary(
            session,
            house.principal,
            house.collection_id,
            SummaryParameters(**parameters),  # type: ignore[arg-type]
            max_attempts=3,
        )


def summarize(house: House, **parameters: object) -> Summary:
    summary = register(house, **parameters)
    assert pipeline(house).run(house.claim(JobId(summary.job_id))) == "done"
    return read(house, summary)


def read(house: House, summary: Summary) -> Summary:
    with house.database.read() as session:
        return SummaryRepository(session, house.principal.tenant_id).get(SummaryId(summary.id))


def documents(house: House, summary: Summary) -> Sequence[SummaryDocument]:
    with house.database.read() as session:
        return SummaryRepository(session, house.principal.tenant_id).list_parts(SummaryId(summary.id))


def lines(house: House, summary: Summary) -> list[LedgerEntry]:
    with house.database.read() as session:
        return list(session.scalars(select(LedgerEntry).where(LedgerEntry.job_id == summary.job_id)))


def document_named(house: House, name: str) -> DocumentId:
    with house.database.read() as session:
        return DocumentId(
            session.scalars(
                select(Document.id).where(Document.name == name, Document.deleted_at.is_(None))
            ).one()
        )


def delete(house: House, name: str) -> None:
    with house.database.write() as session:
        session.get_one(Document, document_named(house, name)).deleted_at = utc_now()


def text_of(house: House, document_id: str) -> str:
    with house.database.read() as session:
        pages = DocumentRepository(session, house.principal.tenant_id).list_pages(DocumentId(document_id))
        return "".join(page.text for page in pages)


def test_every_statement_is_a_sentence_of_a_document_and_every_page_is_read(house: House) -> None:
    summary = summarize(house)
    assert (summary.outcome, summary.num_done, summary.version) == ("complete", 3, 1)
    citations = {citation["number"]: citation for citation in summary.result["citations"]}
    for statement in summary.result["statements"]:
        [number] = statement["citations"]
        citation = citations[number]
        source = text_of(house, citation["document_id"])
        assert source[citation["start"] : citation["end"]] == citation["quote"]
        assert "".join(statement["text"].split()) == "".join(citation["quote"].split())
        assert summary.result["text"][statement["start"] : statement["end"]] == statement["text"]
    rows = documents(house, summary)
    assert all((row.num_pages_read, row.skipped) == (row.num_pages, []) for row in rows)
    assert all(row.statements for row in rows)
    billed = lines(house, summary)
    assert {line.stage for line in billed} == {"embed"}
    assert summary.num_tokens == sum(line.num_tokens for line in billed)
    assert summary.cost == sum((line.cost for line in billed), Decimal(0))
    with house.database.read() as session:
        job = JobRepository(session, house.principal.tenant_id).get(JobId(summary.job_id))
    assert (job.status, job.queue) == ("succeeded", "batch")
    assert job.progress["pages_done"] == job.progress["pages_total"] > 0


def test_webhooks_hear_where_the_summary_is(local: House) -> None:
    with local.database.write() as session:
        WebhookRepository(session, local.principal.tenant_id).create(
            url="https://example.com", event_types=["summary.finished"], description="", secret="whsec_AA=="
        )
    summary = summarize(local)
    with local.database.read() as session:
        [told] = session.scalars(select(WebhookDelivery.payload)).all()
    assert (told["summary_id"], told["outcome"], told["num_tokens"]) == (
        summary.id,
        "complete",
        summary.num_tokens,
    )
    assert told["links"]["summary"] == f"/v1/summaries/{summary.id}"


def test_a_run_over_what_did_not_change_takes_nothing_and_is_the_next_version(house: House) -> None:
    first, second = summarize(house), summarize(house)
    assert (first.version, second.version) == (1, 2)
    assert (second.num_tokens, second.num_computed, lines(house, second)) == (0, 0, [])
    assert second.num_nodes == first.num_nodes
    assert second.result["text"] == first.result["text"]


def test_of_a_changed_document_only_what_changed_is_read_again(local: House) -> None:
    first = summarize(local)
    delete(local, "two.md")
    add(local, "two.md", [*report(2)[:3], "The council of the town put off the harbour for two more years."])
    second = summarize(local)
    assert 0 < second.num_tokens < first.num_tokens
    documents_read = {line.document_id for line in lines(local, second)} - {None}
    assert documents_read <= {document_named(local, "two.md")}


def test_nodes_that_no_run_has_wanted_for_long_are_forgotten_and_made_anew(house: House) -> None:
    first = summarize(house)
    long_ago = utc_now() - timedelta(days=100)
    with house.database.write() as session:
        session.execute(update(SummaryNode).values(used_at=long_ago))
        session.add(
            SummaryNode(tenant_id=house.principal.tenant_id, key="other", statements=[], used_at=long_ago)
        )
    assert summarize(house).num_computed == 0, "they are there, and wanted again"
    month_ago = utc_now() - timedelta(days=30)
    with house.database.write() as session:
        assert forget_summary_nodes(session, before=month_ago) == 1, "the one that nobody wanted"
    assert summarize(house).num_computed == 0
    with house.database.write() as session:
        forget_summary_nodes(session, before=utc_now() + timedelta(days=1))
    assert summarize(house).num_computed == first.num_computed


def test_results_are_forgotten_after_their_time_and_what_they_cost_is_not(house: House) -> None:
    kept, failed = summarize(house), register(house)
    run = house.claim(JobId(failed.job_id))
    with house.database.write() as session:
        JobQueue(session).finish(run.job.id, run.owner, error=EngineUnavailable("gone"))
    with house.database.write() as session:
        assert forget_results(session, before=utc_now() - timedelta(hours=1)) == 0
        assert forget_results(session, before=utc_now() + timedelta(hours=1)) == 2
    with pytest.raises(NotFound):
        read(house, kept)
    assert sum(line.num_tokens for line in lines(house, kept)) == kept.num_tokens
    with house.database.write() as session:
        assert session.get_one(Job, kept.job_id).status == "succeeded"
        with pytest.raises(Conflict, match="forgotten"):
            retry_job(session, session.get_one(Job, run.job.id), max_attempts=3)


def test_a_dead_workers_nodes_are_taken_up_and_not_made_or_billed_twice(house: House) -> None:
    whole = summarize(house, length="short")
    with house.database.write() as session:
        for node in session.scalars(select(SummaryNode)):
            session.delete(node)
    summary = register(house, length="short")
    hasty = pipeline(house, slice_seconds=0.0)
    lost = house.claim(JobId(summary.job_id))
    assert hasty.run(lost) == "yielded"
    house.lose_worker(lost.job.id)  # before it could give the job back
    while True:
        run = house.claim(lost.job.id)
        if hasty.run(run) == "done":
            break
        with house.database.write() as session:
            JobQueue(session).yield_job(run.job.id, run.owner)
    done = read(house, summary)
    assert done.result["text"] == whole.result["text"]
    assert (done.num_tokens, done.num_computed) == (whole.num_tokens, whole.num_computed)
    by_node = [(line.source, line.stage) for line in lines(house, summary)]
    assert len(by_node) == len(set(by_node)) > 1
    assert {line.attempt for line in lines(house, summary)} == {1, 2}


def test_a_limit_stops_the_run_and_what_was_read_is_kept_and_told(house: House) -> None:
    limit = 2300  # a section may take up to 2,200, and takes some 150
    capped = summarize(house, style="key_points", max_tokens=limit)
    assert capped.outcome == "capped"
    assert 0 < capped.num_tokens <= limit
    assert "limit" in " ".join(capped.result["warnings"])
    rows = documents(house, capped)
    assert any(item["reason"] == "limit" for row in rows for item in row.skipped)
    free = summarize(house, length="long", max_cost=Decimal(0))
    assert (free.outcome, free.num_tokens, free.result["text"]) == ("capped", 0, "")


def test_a_narrative_that_a_limit_broke_off_says_which_pages_were_not_read(local: House) -> None:
    only = DocumentFilter(document_ids=(document_named(local, "one.md"),))
    # By less than a section takes, so that the first that reads any reads one.
    limits = range(1000, 6000, 100)
    runs = (summarize(local, method="refine", filter=only, max_tokens=limit) for limit in limits)
    capped = next(run for run in runs if run.num_computed)
    [row] = documents(local, capped)
    assert 0 < row.num_pages_read < row.num_pages == 4
    assert {item["reason"] for item in row.skipped} == {"limit"}
    assert (capped.outcome, capped.result["text"] != "") == ("capped", True)
    assert "limit" in " ".join(capped.result["warnings"])


def test_a_node_holds_its_most_while_it_is_made(local: House) -> None:
    summary = register(local, writer="abstractive")
    run = local.claim(JobId(summary.job_id))
    with local.database.write() as session:
        create_budget(
            session,
            local.principal.tenant_id,
            limit=Decimal(1_000_000),
            unit="tokens",
            period="total",
            now=utc_now(),
        )
    held: list[int] = []

    def look() -> None:
        if local.generator.requests:
            with local.database.read() as session:
                held.extend(session.scalars(select(BudgetHold.amount)))

    local.generator.text = "The council of the town discussed the roof at great length."
    assert pipeline(local).run(replace(run, checkpoint=look)) == "done"
    assert max(held) > 1000, "a prompt's most"


def test_a_node_that_was_made_and_could_not_be_kept_is_burned(local: House) -> None:
    summary = register(local)
    run = local.claim(JobId(summary.job_id))

    def cancel_once() -> None:
        with local.database.write() as session:
            session.get_one(Job, run.job.id).cancel_requested_at = utc_now()

    with pytest.raises(JobCancelled):
        pipeline(local).run(replace(run, checkpoint=cancel_once))
    assert {(line.stage, line.billed, line.reason) for line in lines(local, summary)} == {
        ("embed", False, "cancelled")
    }


def test_the_same_text_under_another_name_is_asked_for_by_that_name(local: House) -> None:
    add(local, "copy.md", [*report(1), "A last page."])
    local.generator.text = "The council of the town discussed the roof at great length."
    asked = []
    for name in ("one.md", "copy.md"):
        only = DocumentFilter(document_ids=(document_named(local, name),))
        prompt = "Say in {language}, in {length}, what {title} is about."
        asked.append(
            summarize(local, writer="abstractive", style="prompt", prompt=prompt, filter=only).num_computed
        )
    assert asked[1] >= asked[0] > 3


def test_a_used_up_budget_stops_the_run_and_one_that_others_hold_lets_it_wait(local: House) -> None:
    summary, other = register(local, style="key_points"), register(local)
    run = local.claim(JobId(summary.job_id))
    with local.database.write() as session:
        budget = create_budget(
            session,
            local.principal.tenant_id,
            limit=Decimal(100),  # less than a section takes
            unit="tokens",
            period="total",
            now=utc_now(),
        )
        session.add(BudgetHold(budget_id=budget.id, job_id=other.job_id, amount=100))
    with pytest.raises(BudgetHeld):
        pipeline(local).run(run)
    with local.database.write() as session:
        session.execute(delete_rows(BudgetHold))
    assert pipeline(local).run(run) == "done"
    capped = read(local, summary)
    assert (capped.outcome, capped.num_computed) == ("capped", 1)
    assert "budget" in " ".join(capped.result["warnings"])


def test_changes_since_the_last_version_are_what_it_did_not_read(house: House) -> None:
    first = summarize(house, style="changes_since_last")
    assert first.result["since"]["version"] is None
    add(house, "four.txt", ["A new lift was built in the town hall, which cost the council 900 dollars."])
    delete(house, "two.md")
    second = summarize(house, style="changes_since_last")
    assert [each["text"] for each in second.result["statements"]] == [
        "A new lift was built in the town hall, which cost the council 900 dollars."
    ]
    since = second.result["since"]
    assert (since["version"], since["documents_added"], since["documents_removed"]) == (
        1,
        ["four.txt"],
        ["two.md"],
    )
    third = summarize(house, style="changes_since_last")
    assert (third.result["statements"], third.num_tokens) == ([], 0)


def test_one_summary_is_carried_through_a_narrative(local: House) -> None:
    only = DocumentFilter(document_ids=(document_named(local, "one.md"),))
    first = summarize(local, method="refine", filter=only)
    again = summarize(local, method="refine", filter=only)
    assert first.result["text"] == again.result["text"] != ""
    assert again.num_tokens == 0
    with pytest.raises(InvalidInput, match="one document"):
        register(local, method="refine")


def test_what_a_model_writes_is_held_against_what_it_read(local: House) -> None:
    only = DocumentFilter(document_ids=(document_named(local, "三.txt"),))
    said = "镇议会决定拨款一万四千元维修屋顶。议会还决定在月球上修建一座火车站。"
    local.generator.text = said
    flagged = summarize(local, writer="abstractive", filter=only)
    supported, invented = flagged.result["statements"]
    assert (supported["supported"], invented["supported"]) == (True, False)
    assert any("月球" in warning for warning in flagged.result["warnings"])
    removed = summarize(local, writer="abstractive", filter=only, unsupported="remove")
    assert "月球" not in removed.result["text"]
    stages = {line.stage for line in lines(local, flagged)}
    assert stages >= {"prefill_uncached", "prefill_cached", "decode"}
    request = local.generator.requests[0]
    assert request.cache_salt == local.principal.tenant_id


def test_prompts_of_one_kind_begin_alike_and_a_second_run_asks_nothing(local: House) -> None:
    local.generator.text = "The council of the town discussed the roof at great length."
    summarize(
        local, writer="abstractive", filter=DocumentFilter(document_ids=(document_named(local, "one.md"),))
    )
    prompts = [bytes(min(t, 255) for t in r.prompt_token_ids) for r in local.generator.requests]
    assert len(prompts) >= 2
    shared = next(i for i, pair in enumerate(zip(*prompts[:2], strict=False)) if pair[0] != pair[1])
    assert shared > 150
    asked = len(local.generator.requests)
    again = summarize(
        local, writer="abstractive", filter=DocumentFilter(document_ids=(document_named(local, "one.md"),))
    )
    assert (len(local.generator.requests), again.num_tokens) == (asked, 0)


def test_what_a_failed_attempt_took_is_burned_and_the_next_one_goes_on(local: House) -> None:
    summary = register(local, writer="abstractive")
    local.generator.text = "The council of the town discussed the roof at great length."
    local.generator.failure, local.generator.fail_after = EngineUnavailable("gone"), 3
    with pytest.raises(EngineUnavailable):
        pipeline(local).run(local.claim(JobId(summary.job_id)))
    assert {(line.billed, line.reason) for line in lines(local, summary)} == {(False, "failed")}
    assert read(local, summary).num_tokens == 0


def test_a_deleted_document_is_left_out_with_the_reason(local: House) -> None:
    summary = register(local)
    delete(local, "two.md")
    pipeline(local).run(local.claim(JobId(summary.job_id)))
    [gone] = [row for row in documents(local, summary) if row.document_name == "two.md"]
    assert (gone.num_pages_read, gone.skipped[0]["reason"]) == (0, "deleted")
    assert read(local, summary).outcome == "complete"


def test_a_cancelled_summary_keeps_its_documents(local: House) -> None:
    summary = register(local)
    run = local.claim(JobId(summary.job_id))
    with local.database.write() as session:
        JobRepository(session, local.principal.tenant_id).request_cancel(run.job.id)
    with pytest.raises(JobCancelled):
        pipeline(local).run(run)
    assert read(local, summary).outcome is None


def test_a_cancelled_summary_tried_again_makes_only_the_nodes_that_it_lacks(local: House) -> None:
    summary = register(local)
    run = local.claim(JobId(summary.job_id))
    assert pipeline(local, slice_seconds=0.0).run(run) == "yielded"
    kept = {line.source for line in lines(local, summary)}
    with local.database.write() as session:
        JobRepository(session, local.principal.tenant_id).request_cancel(run.job.id)
        assert JobQueue(session).finish(run.job.id, run.owner) == "cancelled"
    with local.database.write() as session:
        retry_job(session, session.get_one(Job, run.job.id), max_attempts=3)
    assert pipeline(local).run(local.claim(run.job.id)) == "done"
    assert read(local, summary).outcome == "complete"
    by_node = [(line.source, line.stage) for line in lines(local, summary)]
    assert len(by_node) == len(set(by_node)) > len(kept) > 0


def test_an_empty_collection_is_refused(local: House) -> None:
    with local.database.write() as session:
        empty = CollectionRepository(session, local.principal.tenant_id).create("empty")
        with pytest.raises(EmptyInput, match="No ready document"):
            register_summary(
                session,
                local.principal,
                CollectionId(empty.id),
                SummaryParameters(),
                max_attempts=3,
            )


def test_a_quote_holds_what_the_run_takes_and_nothing_for_what_was_read(local: House) -> None:
    def quoted(**parameters: object) -> tuple[int, int, int]:
        with local.database.read() as session:
            quote = quote_summary(
                session,
                local.principal.tenant_id,
                local.settings,
                collection_id=local.collection_id,
                parameters=SummaryParameters(**parameters),  # type: ignore[arg-type]
            )
        spans = [line.tokens for line in quote.lines]
        return sum(s.low for s in spans), sum(s.expected for s in spans), sum(s.high for s in spans)

    low, expected, high = quoted()
    took = summarize(local).num_tokens
    assert low <= took <= high
    assert expected > 0
    assert quoted()[1] == 0
    assert quoted(writer="abstractive")[1] > expected
