from __future__ import annotations

import random

import pytest

from inference.engine_time import EngineTime


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def test_a_request_alone_has_all_of_the_time_and_none_before_it_came() -> None:
    clock = Clock()
    engine = EngineTime(clock)
    clock.wait(7)
    share = engine.begin()
    clock.wait(2)
    assert share.seconds() == 2


def test_two_at_once_have_half_each_while_they_are_two() -> None:
    clock = Clock()
    engine = EngineTime(clock)
    first = engine.begin()
    clock.wait(1)
    second = engine.begin()
    clock.wait(4)
    assert (first.seconds(), second.seconds()) == (3, 2)
    first.end()
    clock.wait(1)
    assert second.seconds() == 3


def test_requests_of_other_processes_take_their_part_as_long_as_the_figure_is_fresh() -> None:
    clock = Clock()
    engine = EngineTime(clock)
    share = engine.begin()
    engine.heard(4)
    clock.wait(4)
    assert share.seconds() == 1
    clock.wait(4)
    assert share.seconds() == 2
    clock.wait(1)
    assert share.seconds() == 3


@pytest.mark.parametrize("seed", range(5))
def test_shares_add_up_to_the_time_in_which_there_was_a_request(seed: int) -> None:
    dice, clock = random.Random(seed), Clock()
    engine = EngineTime(clock)
    running, total, busy = [], 0.0, 0.0
    for _ in range(200):
        seconds = dice.random()
        busy += seconds if running else 0.0
        clock.wait(seconds)
        if running and dice.random() < 0.5:
            share = running.pop(dice.randrange(len(running)))
            total += share.seconds()
            share.end()
        else:
            running.append(engine.begin())
    assert total + sum(share.seconds() for share in running) == pytest.approx(busy)
