from __future__ import annotations

from core.ids import TenantId
from workers.turns import Turns

NORTH, SOUTH, 西 = TenantId("north"), TenantId("south"), TenantId("西")


def test_tenants_take_turns_however_much_one_has_waiting() -> None:
    assert Turns().take({NORTH: 2000, SOUTH: 1}, {}, room=4) == [NORTH, SOUTH, NORTH, NORTH]


def test_who_has_least_in_flight_is_next() -> None:
    assert Turns().take({NORTH: 9, SOUTH: 9}, {NORTH: 2}, room=3) == [SOUTH, SOUTH, NORTH]


def test_among_equals_it_is_who_was_served_longest_ago_and_that_is_remembered() -> None:
    turns, waiting = Turns(), {NORTH: 9, SOUTH: 9, 西: 9}
    taken = [turns.take(waiting, {}, room=1)[0] for _ in range(6)]
    assert taken == [NORTH, SOUTH, 西] * 2


def test_nobody_gets_more_turns_than_it_has_waiting_nor_more_than_there_is_room() -> None:
    assert Turns().take({NORTH: 1, SOUTH: 2}, {}, room=9) == [NORTH, SOUTH, SOUTH]
    assert Turns().take({NORTH: 1}, {}, room=0) == []
