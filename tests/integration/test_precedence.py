"""Who gives way to whom, through a real Valkey."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from core.cancellation import watching
from core.clock import utc_now
from core.errors import EngineUnavailable, JobCancelled
from core.ids import JobId, TenantId
from core.precedence import current_precedence
from core.priority import BACKGROUND, INTERACTIVE
from storage.jobs import ClaimedJob
from storage.waiting_people import WaitingPeople
from workers.precedence import JobPrecedence

QUESTION = ClaimedJob(
    id=JobId("job_question"),
    tenant_id=TenantId("ten_a"),
    key_id=None,
    collection_id=None,
    kind="answer",
    queue="interactive",
    payload={},
    attempt=1,
    max_attempts=3,
    priority=INTERACTIVE,
    created_at=utc_now(),
    claimed_at=utc_now(),
    deadline_at=None,
)
EVALUATED = replace(QUESTION, id=JobId("job_evaluated"), priority=BACKGROUND)
UPLOAD = replace(QUESTION, id=JobId("job_upload"), kind="ingest", queue="ingest")


@pytest.fixture
def people(redis_url: str) -> Iterator[WaitingPeople]:
    client = redis.Redis.from_url(redis_url)
    yield WaitingPeople(client)
    client.close()


@pytest.fixture
def precedence(people: WaitingPeople) -> JobPrecedence:
    return JobPrecedence(people, max_seconds=0.6)


def seconds_of_giving_way(precedence: JobPrecedence, job: ClaimedJob) -> float:
    with precedence.of(job):
        started = time.monotonic()
        current_precedence().give_way()
        return time.monotonic() - started


def test_what_nobody_waits_for_gives_way_until_the_first_token(
    people: WaitingPeople, precedence: JobPrecedence
) -> None:
    patient = JobPrecedence(people, max_seconds=30.0)
    with precedence.of(QUESTION):
        reader = threading.Timer(0.3, current_precedence().first_token)
        started = time.monotonic()
        reader.start()
        seconds_of_giving_way(patient, EVALUATED)
        # It is still being written, but who asked is reading.
        assert 0.25 < time.monotonic() - started < 5.0
        assert not people.is_anyone()


def test_a_question_that_ends_without_a_token_holds_nobody_up(
    people: WaitingPeople, precedence: JobPrecedence
) -> None:
    def fail() -> None:
        with precedence.of(QUESTION):
            assert people.is_anyone()
            raise EngineUnavailable("It went away.")

    with pytest.raises(EngineUnavailable):
        fail()
    assert seconds_of_giving_way(precedence, EVALUATED) < 0.5


def test_work_goes_on_though_somebody_always_waits(precedence: JobPrecedence) -> None:
    with precedence.of(QUESTION):
        assert seconds_of_giving_way(precedence, EVALUATED) >= 0.6


@pytest.mark.parametrize("job", [QUESTION, UPLOAD], ids=["a person's question", "an upload"])
def test_what_somebody_waits_for_gives_way_to_nobody(precedence: JobPrecedence, job: ClaimedJob) -> None:
    with precedence.of(replace(QUESTION, id=JobId("job_another"))):
        assert seconds_of_giving_way(precedence, job) < 0.5


def test_nobody_gives_way_to_an_upload(people: WaitingPeople, precedence: JobPrecedence) -> None:
    with precedence.of(UPLOAD):
        assert not people.is_anyone()


def test_a_cancelled_job_gives_way_no_longer_and_meets_its_checkpoint_with_its_books_in_order(
    people: WaitingPeople, precedence: JobPrecedence
) -> None:
    def cancelled() -> None:
        raise JobCancelled("Job job_evaluated was cancelled.")

    patient = JobPrecedence(people, max_seconds=30.0)
    with precedence.of(QUESTION), watching(cancelled):
        assert seconds_of_giving_way(patient, EVALUATED) < 5.0


def test_a_job_whose_worker_uploads_wait_for_gives_way_for_so_long_in_all(precedence: JobPrecedence) -> None:
    summary = replace(EVALUATED, id=JobId("job_summary"), kind="summarize", queue="batch")
    with precedence.of(QUESTION), precedence.of(summary):
        started = time.monotonic()
        current_precedence().give_way()
        assert time.monotonic() - started >= 0.6
        assert current_precedence().is_behind()
        started = time.monotonic()
        current_precedence().give_way()
        assert time.monotonic() - started < 0.5


def test_without_redis_nobody_waits_and_nothing_fails() -> None:
    nowhere = WaitingPeople(redis.Redis(port=9, retry=Retry(NoBackoff(), 0)))
    precedence = JobPrecedence(nowhere, max_seconds=30.0)
    with precedence.of(QUESTION):
        assert seconds_of_giving_way(precedence, EVALUATED) < 5.0
