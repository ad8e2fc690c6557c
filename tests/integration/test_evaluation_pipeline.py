"""An evaluation's job on a real database, with answers written as a worker writes them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import func, select

from accounting.ledger import Ledger, LedgerLine, Stage
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from core.clock import utc_now
from core.errors import JobCancelled, LeaseLost, NotFound
from core.ids import AnswerId, CollectionId, EvaluationId, JobId, TenantId
from core.priority import BACKGROUND
from evaluation.pipeline import EvaluationPipeline
from evaluation.questions import GoldQuestion
from evaluation.registration import close_evaluation, register_evaluation
from generation.questions import QuestionParameters
from storage.answers import AnswerRepository
from storage.collections import CollectionRepository
from storage.conversations import ConversationRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.evaluations import EvaluationRepository
from storage.job_run import JobRun
from storage.jobs import JobQueue, JobRepository
from storage.models import Answer, Evaluation, EvaluationItem, Job, Page
from tenancy.keys import issue_key
from tenancy.principal import Principal, Scope
from tenancy.tenants import create_tenant

TEXT = "关云长造青龙偃月刀，又名冷艳锯，重八十二斤。Neptune has fourteen known moons."
QUESTIONS = [
    GoldQuestion(question="刀重多少斤？", answers=["八十二斤"], evidence=["重八十二斤"]),  # type: ignore[list-item]
    GoldQuestion(question="How many moons has Neptune?", answers=["fourteen"]),
    GoldQuestion(question="谁借了东风？", answerable=False),
]


class House:
    """A tenant with a collection of one document, and evaluations of it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.pipeline = EvaluationPipeline(database, max_attempts=3)
        with database.write() as session:
            sync_price_book(session, load_price_book(), now=utc_now())
            tenant = create_tenant(session, name="north", now=utc_now())
            self.tenant_id = TenantId(tenant.id)
            key = issue_key(
                session, self.tenant_id, name="k", scopes=("ask",), now=utc_now(), expires_at=None
            )
            self.collection_id = CollectionId(CollectionRepository(session, self.tenant_id).create("c").id)
            document = DocumentRepository(session, self.tenant_id).create(
                self.collection_id, name="三国.txt", content_hash="0", num_bytes=1
            )
            self.document_id = document.id
            page = Page(
                document_id=document.id, number=1, tenant_id=self.tenant_id, start=0, end=len(TEXT), text=TEXT
            )
            session.add(page)
        self.principal = Principal(self.tenant_id, key.key.id, frozenset({Scope.ASK}))

    def register(self, questions: Sequence[GoldQuestion] = QUESTIONS, **parameters: Any) -> Evaluation:
        with self.database.write() as session:
            return register_evaluation(
                session,
                self.principal,
                self.collection_id,
                questions,
                name="suite",
                parameters=QuestionParameters(**parameters),
                max_attempts=3,
            )

    def claim(self, job_id: str) -> JobRun:
        owner = uuid.uuid4().hex
        with self.database.write() as session:
            job = JobQueue(session).claim_job(JobId(job_id), owner, lease=timedelta(seconds=60))
        assert job is not None
        return JobRun(job=job, owner=owner, checkpoint=lambda: None)

    def slice(self, evaluation: Evaluation) -> str:
        """One slice of the job, given back as the worker gives it back."""
        run = self.claim(evaluation.job_id)
        outcome = self.pipeline.run(run)
        if outcome == "postponed":
            with self.database.write() as session:
                assert JobQueue(session).yield_job(run.job.id, run.owner) == "held"
        return outcome

    def queued_answers(self) -> list[Answer]:
        query = select(Answer).join(Job, Job.id == Answer.job_id).where(Job.status == "queued")
        with self.database.read() as session:
            return list(session.scalars(query.order_by(Answer.id)))

    def answer(self, answer: Answer, text: str, quote: str = "") -> None:
        """What a worker makes of a question: refused where there is no quote."""
        run = self.claim(answer.job_id)
        span = {"document_id": self.document_id, "document_name": "三国.txt", "first_page": 1, "last_page": 1}
        citation = {
            "number": 1,
            "start": TEXT.find(quote),
            "end": TEXT.find(quote) + len(quote),
            "quote": quote,
        }
        line = LedgerLine(
            source=answer.id,
            attempt=1,
            stage=Stage.EMBED,
            model="multilingual-e5-small",
            model_revision="1",
            num_tokens=100,
        )
        with self.database.write() as session:
            run.succeed(session)
            Ledger().record(session, self.tenant_id, [line])
            AnswerRepository(session, self.tenant_id).complete(
                AnswerId(answer.id),
                outcome="answered" if quote else "refused",
                mode="extractive",
                text=text,
                passages=[span | {"start": 0, "end": len(TEXT), "headings": [], "score": 1.0}],
                citations=[span | citation] if quote else [],
                prompt_tokens=30,
                timings={"ttft_seconds": 0.5, "total_seconds": 1.5},
                cost=Decimal("0.0000002"),
                currency="USD",
            )

    def fail(self, answer: Answer) -> None:
        run = self.claim(answer.job_id)
        with self.database.write() as session:
            JobQueue(session).finish(run.job.id, run.owner, error=NotFound("It is gone."))

    def state(self, evaluation: Evaluation) -> tuple[Evaluation, list[EvaluationItem], Job]:
        with self.database.read() as session:
            evaluations = EvaluationRepository(session, self.tenant_id)
            row = evaluations.get(EvaluationId(evaluation.id))
            return (
                row,
                list(evaluations.all_parts(EvaluationId(row.id))),
                JobRepository(session, self.tenant_id).get(JobId(row.job_id)),
            )


@pytest.fixture
def house(database: Database) -> House:
    return House(database)


def test_questions_of_an_evaluation_come_after_those_that_somebody_waits_for(house: House) -> None:
    evaluation = house.register()
    house.slice(evaluation)
    job_ids = [answer.job_id for answer in house.queued_answers()]
    assert job_ids
    assert {house.claim(job_id).job.priority for job_id in job_ids} == {BACKGROUND}


def test_questions_are_asked_a_few_at_a_time_scored_and_reported(house: House) -> None:
    evaluation = house.register(mode="extractive")
    assert house.slice(evaluation) == "postponed"
    first, second = house.queued_answers()
    assert (first.question, second.question) == ("刀重多少斤？", "How many moons has Neptune?")
    assert first.parameters["mode"] == "extractive"
    house.answer(first, "重八十二斤 [1]", "重八十二斤")
    assert house.slice(evaluation) == "postponed"
    row, _, job = house.state(evaluation)
    assert row.num_done == 1
    assert job.progress == {"questions_done": 1, "questions_total": 3}
    for answer in house.queued_answers():
        is_moons = "moons" in answer.question
        house.answer(answer, "It has fourteen. [1]" if is_moons else "没有。", "fourteen" if is_moons else "")
    assert house.slice(evaluation) == "done"

    row, items, job = house.state(evaluation)
    assert (job.status, row.num_done) == ("succeeded", 3)
    assert row.finished_at is not None
    assert items[0].metrics["recall"] == items[0].metrics["citation_precision"] == 1.0
    assert items[0].metrics["f1"] == pytest.approx(2 * 4 / 9)
    assert items[0].result["citations"][0]["supports_gold"] is True
    assert items[0].result["citations"][0]["is_verbatim"] is True
    assert items[0].result["stage_tokens"] == {"embed": 100}
    assert items[2].metrics["refusal_correct"] == 1.0
    assert "f1" not in items[2].metrics
    report = row.report
    assert report["num_scored"] == 3
    assert report["refusal"]["f1"] == 1.0
    assert report["metrics"]["contains_answer"] == {"mean": 1.0, "num": 2}
    assert report["stage_tokens"] == {"embed": 300}
    assert report["work"]["total_seconds"]["p50"] == 1.5
    assert [cost["amount"] for cost in report["costs"]] == ["0.0000006"]
    assert set(report["by_language"]) == {"en", "zh"}


def test_a_failed_answer_is_told_and_is_in_no_mean(house: House) -> None:
    evaluation = house.register(QUESTIONS[:2])
    house.slice(evaluation)
    first, second = house.queued_answers()
    house.fail(first)
    house.answer(second, "fourteen [1]", "fourteen")
    assert house.slice(evaluation) == "done"
    row, items, _ = house.state(evaluation)
    assert items[0].error == {"code": "not_found", "detail": "It is gone."}
    assert items[0].metrics == {}
    assert (row.report["num_scored"], row.report["num_failed"]) == (1, 1)
    assert row.report["metrics"]["em"] == {"mean": 1.0, "num": 1}


def test_a_worker_that_dies_asks_nothing_twice(house: House) -> None:
    evaluation = house.register(QUESTIONS[:1])
    lost = house.claim(evaluation.job_id)
    house.pipeline.run(lost)  # it asked, and died before it could give the job back
    with house.database.write() as session:
        session.get_one(Job, evaluation.job_id).lease_expires_at = utc_now() - timedelta(seconds=1)
    with house.database.write() as session:
        JobQueue(session).take_up_expired()
    house.slice(evaluation)
    [answer] = house.queued_answers()
    house.answer(answer, "八十二斤 [1]", "重八十二斤")
    with pytest.raises(LeaseLost):
        house.pipeline.run(lost)
    assert house.slice(evaluation) == "done"
    with house.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Answer)) == 1


def test_a_cancelled_evaluation_cancels_its_answers_and_reports_what_it_has(house: House) -> None:
    evaluation = house.register()
    house.slice(evaluation)
    first, second = house.queued_answers()
    house.answer(first, "八十二斤 [1]", "重八十二斤")
    house.slice(evaluation)
    run = house.claim(evaluation.job_id)
    with house.database.write() as session:
        JobRepository(session, house.tenant_id).request_cancel(JobId(evaluation.job_id))
    third = house.queued_answers()[-1]
    house.answer(third, "没有。")
    with pytest.raises(JobCancelled):
        house.pipeline.run(run)
    with house.database.write() as session:
        JobQueue(session).finish(run.job.id, run.owner)
    row, _, job = house.state(evaluation)
    assert job.status == "cancelled"
    assert (row.report["num_scored"], row.report["num_questions"]) == (1, 3)
    assert house.queued_answers() == []
    with house.database.read() as session:
        assert session.get_one(Job, second.job_id).status == "cancelled"
        assert session.get_one(Job, third.job_id).status == "succeeded"  # it had ended by itself


def test_closing_an_evaluation_touches_no_other_job_and_happens_once(house: House) -> None:
    evaluation = house.register()
    house.slice(evaluation)
    with house.database.write() as session:
        close_evaluation(session, house.tenant_id, JobId(house.queued_answers()[0].job_id))
        assert EvaluationRepository(session, house.tenant_id).get(EvaluationId(evaluation.id)).report == {}
        close_evaluation(session, TenantId("ten_other"), JobId(evaluation.job_id))
    assert len(house.queued_answers()) == 2
    with house.database.write() as session:
        close_evaluation(session, house.tenant_id, JobId(evaluation.job_id))
    ended_at = house.state(evaluation)[0].finished_at
    assert ended_at is not None
    assert house.queued_answers() == []
    with house.database.write() as session:
        close_evaluation(session, house.tenant_id, JobId(evaluation.job_id))
    assert house.state(evaluation)[0].finished_at == ended_at


def test_a_collection_deleted_meanwhile_ends_the_evaluation(house: House) -> None:
    evaluation = house.register()
    with house.database.write() as session:
        CollectionRepository(session, house.tenant_id).delete(house.collection_id)
    with pytest.raises(NotFound, match="no collection"):
        house.slice(evaluation)


def test_a_question_with_a_history_is_the_next_turn_of_a_conversation_that_went_so(house: House) -> None:
    history = [
        {"question": "关羽用什么刀？", "answer": "青龙偃月刀。"},
        {"question": "谁造的？", "answer": "关羽。"},
    ]
    evaluation = house.register([GoldQuestion(question="它重多少斤？", history=history)])  # type: ignore[arg-type]
    house.slice(evaluation)
    [answer] = house.queued_answers()
    assert (answer.question, answer.turn) == ("它重多少斤？", 3)
    assert answer.conversation_id is not None
    with house.database.read() as session:
        conversations = ConversationRepository(session, house.tenant_id)
        turns = conversations.past_turns(answer.conversation_id, before=3)  # type: ignore[arg-type]
        assert [(turn.question, turn.text, turn.status) for turn in turns] == [
            ("关羽用什么刀？", "青龙偃月刀。", "succeeded"),
            ("谁造的？", "关羽。", "succeeded"),
        ]
        with pytest.raises(NotFound):  # nobody sees it among their own
            conversations.get(answer.conversation_id)  # type: ignore[arg-type]


def test_a_document_deleted_before_scoring_leaves_its_citations_unverified(house: House) -> None:
    evaluation = house.register(QUESTIONS[:1])
    house.slice(evaluation)
    [answer] = house.queued_answers()
    house.answer(answer, "八十二斤 [1]", "重八十二斤")
    with house.database.write() as session:
        DocumentRepository(session, house.tenant_id).delete_pages([house.document_id])  # type: ignore[list-item]
    assert house.slice(evaluation) == "done"
    assert house.state(evaluation)[1][0].metrics["citations_verbatim"] == 0.0
