"""`generation.leading.Leads` within one process, for tests that need no Redis."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from storage.prefix_leads import Claim


@dataclass
class MemoryLeads:
    """As `PrefixLeads`, with nothing that expires; `away` is a Redis that does not answer."""

    lease_seconds: float = 5.0
    away: bool = False
    values: dict[str, str] = field(default_factory=dict)
    num_renewals: int = 0
    _tickets: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def claim(self, prefixes: Sequence[str], owner: str) -> Claim | None:
        if self.away:
            return None
        with self._lock:
            self._tickets += 1
            num_held, num_led, leader = 0, 0, ""
            for number, prefix in enumerate(prefixes, start=1):
                value = self.values.setdefault(prefix, f"{self._tickets}:{owner}")
                if value == "+":
                    num_held = number
                elif _owner(value) != owner:
                    num_led, leader = number, value
            return Claim(num_held, num_led, leader)

    def is_led(self, prefix: str, leader: str) -> bool:
        return not self.away and self.values.get(prefix) == leader

    def renew(self, prefixes: Sequence[str], owner: str) -> None:
        self.num_renewals += 1

    def mark_held(self, prefixes: Sequence[str]) -> None:
        with self._lock:
            self.values |= dict.fromkeys(prefixes, "+")

    def give_up(self, prefixes: Sequence[str], owner: str) -> None:
        with self._lock:
            for prefix in prefixes:
                if _owner(self.values.get(prefix, "")) == owner:
                    del self.values[prefix]


def _owner(lead: str) -> str:
    return lead.partition(":")[2]
