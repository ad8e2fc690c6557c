"""Of attempts that share a long prefix one computes it while the others wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from core.errors import EngineUnavailable, JobCancelled
from core.ids import TenantId
from core.settings import LeaderSettings
from generation.attempt import Attempt
from generation.leading import LeaderFirst
from generation.prompt import Prompt
from generation.segments import Segment
from inference.protocols import EngineInfo
from storage.job_run import JobRun
from tests.memory_leads import MemoryLeads

ENGINE = EngineInfo("m", "1", 8192, True, True, True, True, True, True)
SHARED = tuple(range(640))


@dataclass
class FakeJob:
    tenant_id: TenantId
    id: str = "job"


def attempt(tenant: str = "a", checkpoint: Callable[[], None] = lambda: None) -> Attempt:
    run = JobRun(job=cast(Any, FakeJob(TenantId(tenant))), owner="me", checkpoint=checkpoint)
    return Attempt(run, cast(Any, None), cast(Any, None), time.monotonic())


def prompt(own: int, *, shared: Sequence[int] = SHARED) -> Prompt:
    segments = (Segment("passage", tuple(shared)), Segment("question", tuple(range(own, own + 40))))
    tokens = tuple(token for segment in segments for token in segment.token_ids)
    return Prompt(tokens, segments, (), (), 0)


def leader_first(leads: MemoryLeads, *, min_tokens: int = 512, max_wait_seconds: float = 5.0) -> LeaderFirst:
    return LeaderFirst(leads, LeaderSettings(min_tokens=min_tokens, max_wait_seconds=max_wait_seconds))


@dataclass
class Follower:
    """An attempt in a thread of its own; `let_in` is set once it may generate."""

    leaders: LeaderFirst
    attempt: Attempt
    prompt: Prompt
    let_in: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            with self.leaders.lead(self.attempt, self.prompt, engine=ENGINE) as lead:
                self.let_in.set()
                lead.first_token()
        except JobCancelled as error:
            self.error = error


def test_followers_wait_for_the_leaders_first_token() -> None:
    leaders = leader_first(MemoryLeads())
    followers = [Follower(leaders, attempt(), prompt(1000 * n)) for n in range(1, 4)]
    leading = attempt()
    with leaders.lead(leading, prompt(0), engine=ENGINE) as lead:
        threads = [follower.start() for follower in followers]
        time.sleep(0.2)
        assert not any(follower.let_in.is_set() for follower in followers)
        lead.first_token()
        for thread in threads:
            thread.join(5)
    assert all(follower.let_in.is_set() for follower in followers)
    assert leading.steps["leader"] == {"role": "leader"}
    for follower in followers:
        noted = follower.attempt.steps["leader"]
        assert (noted["role"], noted["shared_tokens"], noted["ended"]) == ("follower", 640, "computed")
        assert follower.attempt.consumption.seconds["leader_wait_seconds"] >= 0.15


@pytest.mark.parametrize(
    ("tenant", "shared"),
    [("b", SHARED), ("a", SHARED[:500]), ("a", tuple(range(1, 641)))],
    ids=["another tenant", "too short a prefix", "another prefix"],
)
def test_nobody_waits_who_would_not_find_enough(tenant: str, shared: Sequence[int]) -> None:
    leaders = leader_first(MemoryLeads())
    with leaders.lead(attempt(), prompt(0), engine=ENGINE):
        other = Follower(leaders, attempt(tenant), prompt(5000, shared=shared))
        other.start().join(5)
        assert other.let_in.is_set()


def test_what_was_computed_lately_is_not_waited_for() -> None:
    leaders = leader_first(MemoryLeads())
    with leaders.lead(attempt(), prompt(0), engine=ENGINE) as lead:
        lead.first_token()
    with leaders.lead(attempt(), prompt(1000), engine=ENGINE):
        third = Follower(leaders, attempt(), prompt(2000))
        third.start().join(5)
        assert third.let_in.is_set(), "only the question is uncomputed, which is short"


def test_a_leader_that_fails_hands_the_lead_to_exactly_one_of_those_who_wait() -> None:
    leaders = leader_first(MemoryLeads())
    first, second = attempt(), attempt()
    order: list[str] = []
    gate = threading.Event()

    def follow(name: str, own: Attempt, start: int) -> None:
        with leaders.lead(own, prompt(start), engine=ENGINE) as lead:
            order.append(name)
            if len(order) == 1:
                gate.wait(5)
            lead.first_token()

    threads = [
        threading.Thread(target=follow, args=args)
        for args in (("first", first, 1000), ("second", second, 2000))
    ]

    def lead_and_fail() -> None:
        with leaders.lead(attempt(), prompt(0), engine=ENGINE):
            for thread in threads:
                thread.start()
            time.sleep(0.1)
            raise EngineUnavailable("gone")

    with pytest.raises(EngineUnavailable):
        lead_and_fail()
    time.sleep(0.4)
    assert len(order) == 1, "the other one waits for the new leader"
    gate.set()
    for thread in threads:
        thread.join(5)
    assert len(order) == 2


def test_the_wait_is_bounded() -> None:
    leaders = leader_first(MemoryLeads(), max_wait_seconds=0.15)
    with leaders.lead(attempt(), prompt(0), engine=ENGINE):
        follower = Follower(leaders, attempt(), prompt(1000))
        follower.start().join(5)
        assert follower.let_in.is_set()
    assert follower.attempt.steps["leader"]["ended"] == "too_long"


def test_a_job_that_is_cancelled_stops_waiting_and_keeps_nothing() -> None:
    leads = MemoryLeads()
    leaders = leader_first(leads)
    cancelled = threading.Event()

    def checkpoint() -> None:
        if cancelled.is_set():
            raise JobCancelled("cancelled")

    with leaders.lead(attempt(), prompt(0), engine=ENGINE):
        follower = Follower(leaders, attempt(checkpoint=checkpoint), prompt(1000))
        thread = follower.start()
        time.sleep(0.1)
        cancelled.set()
        thread.join(5)
        assert isinstance(follower.error, JobCancelled)
        assert not follower.let_in.is_set()
        assert follower.attempt.steps["leader"]["ended"] == "stopped"
    assert leads.values == {}


def test_without_redis_all_go_at_once() -> None:
    leads = MemoryLeads(away=True)
    alone = attempt()
    with leader_first(leads).lead(alone, prompt(0), engine=ENGINE) as lead:
        lead.first_token()
    assert alone.steps["leader"] == {"role": "alone"}
    assert "leader_wait_seconds" not in alone.consumption.seconds


def test_redis_that_goes_away_ends_the_wait() -> None:
    leads = MemoryLeads()
    leaders = leader_first(leads)
    with leaders.lead(attempt(), prompt(0), engine=ENGINE):
        follower = Follower(leaders, attempt(), prompt(1000))
        thread = follower.start()
        time.sleep(0.1)
        leads.away = True
        thread.join(5)
        assert follower.let_in.is_set()
    assert follower.attempt.steps["leader"]["ended"] == "unknown"


def test_a_lead_is_renewed_until_its_first_token() -> None:
    leads = MemoryLeads(lease_seconds=0.06)
    with leader_first(leads).lead(attempt(), prompt(0), engine=ENGINE) as lead:
        time.sleep(0.2)
        renewed = leads.num_renewals
        assert renewed >= 2
        lead.first_token()
        time.sleep(0.1)
        assert leads.num_renewals <= renewed + 1


def test_no_wait_allowed_means_no_leads() -> None:
    leads = MemoryLeads()
    with leader_first(leads, max_wait_seconds=0).lead(attempt(), prompt(0), engine=ENGINE):
        assert leads.values == {}
