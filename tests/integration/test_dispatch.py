"""What goes to the broker when, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from core.clock import utc_now
from core.ids import JobId, TenantId, new_id
from storage.database import Database
from storage.events import EventBus
from storage.jobs import JobQueue, JobRepository
from storage.models import Job, Tenant
from storage.outbox import Outbox
from storage.queues import Queue, QueuePauses
from workers.dispatch import BROKER_ROOM, Dispatcher

LEASE = timedelta(seconds=10)


@dataclass
class Broker:
    """Puts what is sent into the lists that the dispatcher measures."""

    events: EventBus
    sent: list[str] = field(default_factory=list)

    def send_task(self, name: str, *, args: list[str], queue: str, task_id: str) -> None:
        self.sent.append(args[0])
        self.events.client.lpush(queue, args[0])

    def take(self, queue: Queue) -> JobId:
        """The next message, as a worker takes it."""
        taken: Any = self.events.client.rpop(queue)
        return JobId(taken.decode())


@dataclass
class Yard:
    database: Database
    broker: Broker
    dispatcher: Dispatcher
    tenants: tuple[TenantId, TenantId]

    def queue(self, tenant: int, count: int, *, queue: Queue = "ingest", background: bool = False) -> None:
        with self.database.write() as session:
            for _ in range(count):
                JobRepository(session, self.tenants[tenant]).create(
                    "job",
                    queue=queue,
                    payload={},
                    collection_id=None,
                    key_id=None,
                    max_attempts=3,
                    background=background,
                )

    def work(self, queue: Queue = "ingest") -> int:
        """A worker does the next job; whose it was."""
        job_id = self.broker.take(queue)
        with self.database.write() as session:
            claimed = JobQueue(session).claim_job(job_id, "w", lease=LEASE)
        assert claimed is not None
        self.dispatcher.send_due()
        with self.database.write() as session:
            JobQueue(session).finish(job_id, "w")
        self.dispatcher.send_due()
        return self.tenants.index(claimed.tenant_id)


@pytest.fixture
def yard(database: Database, redis_url: str) -> Iterator[Yard]:
    events = EventBus(redis_url, ttl_seconds=60)
    broker = Broker(events)
    celery: Any = broker
    tenants = TenantId(new_id("ten")), TenantId(new_id("ten"))
    with database.write() as session:
        session.add_all(Tenant(id=each, name=each) for each in tenants)
    yield Yard(database, broker, Dispatcher(database, events, celery, max_background=2), tenants)
    events.close()


def test_a_second_tenants_job_is_among_the_next_however_many_the_first_has_queued(yard: Yard) -> None:
    yard.queue(0, 60)
    yard.dispatcher.send_due()
    assert len(yard.broker.sent) == BROKER_ROOM["ingest"]
    assert yard.dispatcher.holds_back
    yard.work()
    yard.queue(1, 3)
    assert 1 in [yard.work() for _ in range(BROKER_ROOM["ingest"] + 1)]
    later = [yard.work() for _ in range(6)]
    assert later.count(1) == 2, "they take turns until the second has no more"
    assert {yard.work() for _ in range(3)} == {0}


def test_everything_is_sent_in_the_end_once(yard: Yard) -> None:
    yard.queue(0, 7)
    yard.queue(1, 5)
    yard.dispatcher.send_due()
    assert sorted([yard.work() for _ in range(12)]) == [0] * 7 + [1] * 5
    assert len(set(yard.broker.sent)) == len(yard.broker.sent) == 12
    yard.dispatcher.send_due()
    assert not yard.dispatcher.holds_back


def test_a_full_queue_keeps_no_other_waiting(yard: Yard) -> None:
    yard.queue(0, 20)
    yard.queue(0, 1, queue="interactive")
    yard.dispatcher.send_due()
    assert yard.work("interactive") == 0


def test_what_somebody_waits_for_goes_before_what_nobody_does_of_whichever_tenant(yard: Yard) -> None:
    yard.queue(0, 20, queue="interactive", background=True)
    yard.dispatcher.send_due()
    assert len(yard.broker.sent) == 2, "the other threads serve people"
    yard.queue(0, 1, queue="interactive")
    yard.queue(1, 1, queue="interactive")
    yard.dispatcher.send_due()
    with yard.database.read() as session:
        priorities = [session.get_one(Job, job_id).priority for job_id in yard.broker.sent]
    assert priorities == [10, 10, 0, 0]


def test_a_dead_workers_job_is_the_next_however_full_the_broker_is(yard: Yard) -> None:
    yard.queue(0, 12, queue="interactive")
    yard.dispatcher.send_due()
    lost = yard.broker.take("interactive")
    with yard.database.write() as session:
        assert JobQueue(session).claim_job(lost, "dead", lease=timedelta(seconds=-1)) is not None
    yard.dispatcher.send_due()
    num_sent = len(yard.broker.sent)
    with yard.database.write() as session:
        JobQueue(session).take_up_expired()
    assert yard.dispatcher.send_due() == 0, "it is full"
    yard.dispatcher.look_for_next()
    assert yard.dispatcher.send_due() == 1
    assert yard.broker.sent[num_sent:] == [lost]
    assert yard.broker.take("interactive") == lost
    assert yard.dispatcher.holds_back


def test_of_a_paused_queue_nothing_begins_and_all_of_it_does_once_it_is_resumed(yard: Yard) -> None:
    room = BROKER_ROOM["ingest"]
    yard.queue(0, room)
    yard.dispatcher.send_due()
    with yard.database.write() as session:
        QueuePauses(session).pause("ingest", reason="disk is full")
    yard.queue(0, 1)
    yard.queue(0, 1, queue="batch")
    yard.dispatcher.send_due()
    assert len(yard.broker.sent) == room + 1, "only the other queue's"
    for _ in range(room):  # what the broker had already
        with yard.database.write() as session:
            assert JobQueue(session).claim_job(yard.broker.take("ingest"), "w", lease=LEASE) is None
    yard.dispatcher.send_due()
    assert len(yard.broker.sent) == room + 1
    with yard.database.read() as session:
        assert Outbox(session).next_due_at() is None, "the relay does not spin meanwhile"
    with yard.database.write() as session:
        QueuePauses(session).resume("ingest")
    yard.dispatcher.send_due()
    assert [yard.work() for _ in range(room + 1)] == [0] * (room + 1)


def test_a_queue_paused_for_one_tenant_goes_on_for_the_others(yard: Yard) -> None:
    with yard.database.write() as session:
        QueuePauses(session).pause("ingest", yard.tenants[0])
    yard.queue(0, 2)
    yard.queue(1, 1)
    yard.dispatcher.send_due()
    assert len(yard.broker.sent) == 1
    assert yard.work() == 1


def test_a_broker_that_lost_its_memory_gets_everything_again(yard: Yard) -> None:
    yard.queue(0, 4)
    yard.dispatcher.send_due()
    yard.broker.events.client.flushall()
    with yard.database.write() as session:
        outbox = Outbox(session)
        lost = outbox.list_unheard("ingest", utc_now() + timedelta(minutes=1))
        assert len(lost) == BROKER_ROOM["ingest"], "only what was sent can have been lost"
        for job in lost:
            outbox.announce(job)
    yard.dispatcher.send_due()
    assert [yard.work() for _ in range(4)] == [0] * 4


def test_a_question_on_an_idle_system_costs_no_statement_more_than_its_own_message(yard: Yard) -> None:
    statements: list[str] = []
    yard.queue(0, 1, queue="interactive")
    event.listen(yard.database.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    yard.dispatcher.send_due()
    assert len(yard.broker.sent) == 1
    assert [each.split()[0] for each in statements if each != "BEGIN IMMEDIATE"] == ["SELECT", "UPDATE"]
