"""Every queue is served: a message of one that is forgotten somewhere would wait for ever."""

from __future__ import annotations

from typing import get_args

from embedded.components import QUEUES_OF
from storage.queues import QUEUES, Queue
from workers.dispatch import BROKER_ROOM


def test_every_queue_has_room_in_the_broker() -> None:
    assert set(BROKER_ROOM) == set(QUEUES) == set(get_args(Queue))
    assert min(BROKER_ROOM.values()) > 0


def test_one_worker_of_the_embedded_stack_takes_each_queue() -> None:
    taken = [queue for queues in QUEUES_OF.values() for queue in queues]
    assert sorted(taken) == sorted(QUEUES)
