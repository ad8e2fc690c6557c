"""Outbox to broker: only what workers can soon take, so that the rest can still be put in another order.

A message in the broker is out of our hands: whoever comes later waits behind it. What waits in SQL is
sent by turns of the tenants (ADR 18).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from celery import Celery
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.ids import TenantId
from core.priority import BACKGROUND
from storage.database import Database
from storage.events import EventBus
from storage.models import OutboxMessage
from storage.outbox import Outbox, Waiting, is_next
from storage.queues import QUEUES, Queue
from workers.celery_app import TASK_NAME
from workers.turns import Turns

BROKER_ROOM: Mapping[Queue, int] = {"interactive": 4, "ingest": 1, "batch": 2, "delivery": 4}
"""Messages that may wait in the broker: what its workers take while the relay does not look."""

LOOK_AGAIN_SECONDS = 0.05
"""How soon is looked again whether workers have made room."""


class Dispatcher:
    """Sends what is due and fits. Any number may run: messages are locked while they are sent."""

    def __init__(self, database: Database, events: EventBus, celery: Celery, *, max_background: int) -> None:
        """`max_background`: questions that nobody waits for which may be in flight at once."""
        self._database = database
        self._events = events
        self._celery = celery
        self._max_background = max_background
        self._turns = Turns()
        self._looks_for_next = False
        self.holds_back = False

    def look_for_next(self) -> None:
        """Jobs may have been taken from dead workers: they go at once, full as the broker may be."""
        self._looks_for_next = True

    def send_due(self) -> int:
        """How many were sent; `holds_back` then says whether more were due than fitted."""
        lengths = self._events.queue_lengths(QUEUES)
        room = {q: max(0, BROKER_ROOM[q] - length) for q, length in zip(QUEUES, lengths, strict=True)}
        if self.holds_back and not any(room.values()) and not self._looks_for_next:
            return 0
        with self._database.write() as session:
            messages = self._choose(session, room, utc_now())
            for message in messages:
                self._celery.send_task(
                    TASK_NAME, args=[message.job_id], queue=message.queue, task_id=message.id
                )
                if is_next(message.priority):
                    self._events.bring_forward(message.queue)
                message.sent_at = utc_now()
        self._looks_for_next = False
        return len(messages)

    def _choose(self, session: Session, room: Mapping[Queue, int], now: datetime) -> Sequence[OutboxMessage]:
        outbox, limit = Outbox(session), sum(room.values())
        due = outbox.claim_unsent(now, limit=limit + 1)
        self.holds_back = False
        if len(due) <= limit and self._fits(due, room):
            return due  # nobody has to wait, so nobody's turn matters
        chosen = [
            message for queue in QUEUES for message in self._take_turns(outbox, queue, room[queue], now)
        ]
        self.holds_back = len(due) > len(chosen)
        return chosen

    def _fits(self, due: Sequence[OutboxMessage], room: Mapping[Queue, int]) -> bool:
        counts = Counter(message.queue for message in due)
        return all(counts[queue] <= room[queue] for queue in QUEUES) and not any(
            _is_background(message) for message in due
        )

    def _take_turns(self, outbox: Outbox, queue: Queue, room: int, now: datetime) -> list[OutboxMessage]:
        if not room and not self._looks_for_next:
            return []
        waiting, in_flight = outbox.count_waiting(now, queue), outbox.count_in_flight(queue)
        chosen: list[OutboxMessage] = []
        # Work that somebody waits for goes before all other.
        for priority in sorted({each.priority for each in waiting}):
            of_priority = _of_priority(waiting, priority)
            # They were in flight already, so there are no more of them than dead workers had threads.
            allowed = sum(of_priority.values()) if is_next(priority) else room - len(chosen)
            if queue == "interactive" and priority >= BACKGROUND:
                busy = sum(count for each, count in in_flight.items() if each.priority >= BACKGROUND)
                allowed = min(allowed, self._max_background - busy)
            turns = self._turns.take(of_priority, _by_tenant(in_flight), room=max(0, allowed))
            chosen += _in_order(outbox, queue, turns, priority, now)
        return chosen


def _in_order(
    outbox: Outbox, queue: Queue, turns: Sequence[TenantId], priority: int, now: datetime
) -> list[OutboxMessage]:
    """The messages of these turns; another relay may have locked some, which then are left to it."""
    claimed = {
        tenant_id: list(outbox.claim_waiting(now, queue, Waiting(tenant_id, priority), limit=count))
        for tenant_id, count in Counter(turns).items()
    }
    return [claimed[tenant_id].pop(0) for tenant_id in turns if claimed[tenant_id]]


def _of_priority(counts: Mapping[Waiting, int], priority: int) -> dict[TenantId, int]:
    return {each.tenant_id: count for each, count in counts.items() if each.priority == priority}


def _by_tenant(counts: Mapping[Waiting, int]) -> Counter[TenantId]:
    sums: Counter[TenantId] = Counter()
    for each, count in counts.items():
        sums[each.tenant_id] += count
    return sums


def _is_background(message: OutboxMessage) -> bool:
    return message.queue == "interactive" and message.priority >= BACKGROUND
