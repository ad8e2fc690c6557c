"""Which of several engines a request goes to."""

from __future__ import annotations

import random

from inference.routing import AFFINITY_TOKENS, Candidate, affinity, rank


def names(*candidates: Candidate, max_imbalance: int = 4) -> list[str]:
    return [candidate.name for candidate in rank(candidates, max_imbalance=max_imbalance)]


def test_the_engine_that_holds_most_of_the_prompt_is_first() -> None:
    assert names(Candidate("a", 600, 0, 9), Candidate("b", 2400, 3, 1), Candidate("c", 1200, 0, 5)) == [
        "b",
        "c",
        "a",
    ]


def test_instructions_alone_do_not_gather_requests_at_one_engine() -> None:
    assert names(Candidate("a", 120, 0, 1), Candidate("b", 0, 0, 2)) == ["b", "a"]


def test_one_that_is_much_busier_comes_last_whatever_it_holds() -> None:
    assert names(Candidate("a", 2400, 5, 1), Candidate("b", 0, 0, 2)) == ["b", "a"]
    assert names(Candidate("a", 2400, 4, 1), Candidate("b", 0, 0, 2)) == ["a", "b"]
    assert names(Candidate("a", 0, 9, 1), Candidate("b", 0, 7, 1), Candidate("c", 0, 0, 1)) == ["c", "b", "a"]


def test_busy_all_alike_is_busy_none() -> None:
    assert names(Candidate("a", 2400, 50, 1), Candidate("b", 0, 50, 2)) == ["a", "b"]


def test_affinity_hangs_on_the_beginning_the_salt_and_the_engine() -> None:
    beginning = list(range(AFFINITY_TOKENS))
    known = affinity("http://a", "tenant", [*beginning, 1, 2])
    assert known == affinity("http://a", "tenant", [*beginning, 3])
    assert known != affinity("http://b", "tenant", beginning)
    assert known != affinity("http://a", "other", beginning)
    assert known != affinity("http://a", "tenant", [7, *beginning])


def test_prompts_spread_evenly_and_an_engine_that_leaves_moves_only_its_own() -> None:
    rng = random.Random(1)
    prompts = [[rng.randrange(40_000) for _ in range(32)] for _ in range(600)]
    engines = ["http://a", "http://b", "http://c"]

    def home(prompt: list[int], among: list[str]) -> str:
        return max(among, key=lambda engine: affinity(engine, "t", prompt))

    before = [home(prompt, engines) for prompt in prompts]
    assert all(150 < before.count(engine) < 250 for engine in engines)
    after = [home(prompt, engines[:2]) for prompt in prompts]
    moved = [b for b, a in zip(before, after, strict=True) if b != a]
    assert set(moved) == {"http://c"}
