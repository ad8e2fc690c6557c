"""Leader first: of requests that share a long prefix which nobody has computed, one computes it.

The others wait for its first token and then find the prefix in the engine's cache. See
docs/decisions/0014-leader-first.md for when an engine would not do this by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from core.ids import new_id
from core.settings import LeaderSettings
from generation.attempt import Attempt
from generation.prefix_points import PrefixPoint, prefix_points
from generation.prompt import Prompt
from inference.protocols import EngineInfo
from storage.prefix_leads import Claim

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.1

Ending = Literal["computed", "too_long", "unknown", "stopped"]
"""Why a wait ended: the prefix is computed, or this attempt is to do it; the bound was reached; Redis
went away; the job is not wanted any more."""


class Leads(Protocol):
    """Knows who computes what; see `storage.prefix_leads.PrefixLeads`."""

    lease_seconds: float

    def claim(self, prefixes: Sequence[str], owner: str) -> Claim | None: ...

    def is_led(self, prefix: str, leader: str) -> bool: ...

    def renew(self, prefixes: Sequence[str], owner: str) -> None: ...

    def mark_held(self, prefixes: Sequence[str]) -> None: ...

    def give_up(self, prefixes: Sequence[str], owner: str) -> None: ...


@dataclass(slots=True)
class Lead:
    """One attempt's stand among those that share its prefixes."""

    leads: Leads | None = None
    keys: tuple[str, ...] = ()
    owner: str = ""
    _ended: threading.Event = field(default_factory=threading.Event)

    def first_token(self) -> None:
        """The engine has the whole prompt now: whoever waits may go. Cheap to call at every token."""
        if self.leads is not None and not self._ended.is_set():
            self._ended.set()
            self.leads.mark_held(self.keys)

    def give_up(self) -> None:
        """There will be no token, unless there was one."""
        if self.leads is not None and not self._ended.is_set():
            self._ended.set()
            self.leads.give_up(self.keys, self.owner)

    def keep_alive(self) -> None:
        """Renew until the end, from a thread; should the process die, the lead is over by itself."""
        threading.Thread(target=self._renew, name="prefix-lead", daemon=True).start()

    def _renew(self) -> None:
        while self.leads is not None and not self._ended.wait(self.leads.lease_seconds / 3):
            self.leads.renew(self.keys, self.owner)


@dataclass(slots=True)
class _Wait:
    """A wait so far."""

    until: float  # time.monotonic()
    shared_tokens: int = 0
    ending: Ending = "stopped"


class LeaderFirst:
    """Holds back attempts whose prefix another one is computing. Serves all threads of a worker."""

    def __init__(self, leads: Leads | None, settings: LeaderSettings) -> None:
        """`leads` None: nobody leads and nobody waits."""
        self._leads = leads if settings.max_wait_seconds > 0 else None
        self._settings = settings

    @contextmanager
    def lead(self, attempt: Attempt, prompt: Prompt, *, engine: EngineInfo) -> Iterator[Lead]:
        """Wait where another attempt leads; then the block generates, and tells of its first token.

        Leaving the block without one, by whatever error, hands the lead on. Notes the step `leader`
        and the time `leader_wait_seconds`.

        Args:
            engine: whose cache is meant.

        Raises:
            JobCancelled, LeaseLost: while waiting.
        """
        points = prefix_points(
            prompt.segments,
            namespace=f"{engine.model}@{engine.revision}\n{attempt.tenant_id}",
            min_tokens=self._settings.min_tokens,
        )
        if self._leads is None or not points:
            yield Lead()
            return
        keys = tuple(point.key for point in points)
        owner = new_id("lead")
        claim = self._leads.claim(keys, owner)
        if claim is None:
            attempt.note("leader", {"role": "alone"})
            yield Lead()
            return
        lead = Lead(self._leads, keys, owner)
        lead.keep_alive()
        try:
            self._follow(attempt, points, owner, claim)
            yield lead
        finally:
            lead.give_up()

    def _follow(self, attempt: Attempt, points: Sequence[PrefixPoint], owner: str, claim: Claim) -> None:
        """Return when nothing long enough is being computed by another one."""
        if self._awaited(points, claim) is None:
            attempt.note("leader", {"role": "leader"})
            return
        wait = _Wait(time.monotonic() + self._settings.max_wait_seconds)
        started = time.monotonic()
        try:
            self._wait_for_all(attempt, points, owner, claim, wait)
        finally:
            seconds = time.monotonic() - started
            attempt.consumption.spend("leader_wait_seconds", seconds)
            attempt.note(
                "leader",
                {
                    "role": "follower",
                    "shared_tokens": wait.shared_tokens,
                    "wait_seconds": round(seconds, 6),
                    "ended": wait.ending,
                },
            )

    def _wait_for_all(
        self, attempt: Attempt, points: Sequence[PrefixPoint], owner: str, claim: Claim, wait: _Wait
    ) -> None:
        found: Claim | None = claim
        while found is not None and (awaited := self._awaited(points, found)) is not None:
            wait.shared_tokens = max(wait.shared_tokens, awaited.num_tokens)
            if not self._wait_for(attempt, awaited, found.leader, wait.until):
                wait.ending = "too_long"
                return
            # Computed, or its leader failed: then somebody else leads, maybe this one.
            found = self._require_leads().claim([point.key for point in points], owner)
        wait.ending = "unknown" if found is None else "computed"

    def _awaited(self, points: Sequence[PrefixPoint], claim: Claim) -> PrefixPoint | None:
        """The prefix worth waiting for: computed by another one, and long beyond what is held."""
        if claim.num_led == 0:
            return None
        awaited = points[claim.num_led - 1]
        held_tokens = points[claim.num_held - 1].num_tokens if claim.num_held else 0
        return awaited if awaited.num_tokens - held_tokens >= self._settings.min_tokens else None

    def _wait_for(self, attempt: Attempt, awaited: PrefixPoint, leader: str, until: float) -> bool:
        """Until `leader` no longer computes it; False when the time is over."""
        pause = _FIRST_PAUSE_SECONDS
        while self._require_leads().is_led(awaited.key, leader):
            attempt.run.checkpoint()
            remaining = until - time.monotonic()
            if remaining <= 0:
                return False
            time.sleep(min(pause, remaining))
            pause = min(_LONGEST_PAUSE_SECONDS, 1.5 * pause)
        return True

    def _require_leads(self) -> Leads:
        assert self._leads is not None
        return self._leads
