"""Waiting for a place in an engine whose queue is full."""

from __future__ import annotations

import random
from dataclasses import dataclass

from core.priority import INTERACTIVE

_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """How long a refused request asks again before its refusal is passed on.

    Background work waits longer: nobody waits for it, and it must not take the place of who does.
    """

    wait_seconds: float = 0.0
    wait_background_seconds: float = 0.0

    def limit_seconds(self, priority: int) -> float:
        """The longest wait of a request of that priority."""
        return self.wait_seconds if priority <= INTERACTIVE else self.wait_background_seconds


def pause_seconds(num_refusals: int) -> float:
    """Before asking again: twice as long each time, up to 4 s, jittered so that many do not come at once."""
    pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (num_refusals - 1))
    return pause * random.uniform(0.75, 1.25)
