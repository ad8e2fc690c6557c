"""Whose job goes next where more wait than workers can soon take."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

from core.ids import TenantId


class Turns:
    """Tenants take turns: next is who has the least in flight, and among these who was served longest ago.

    It remembers who was served, in one process; one that starts knows nobody, which only costs a turn.
    """

    def __init__(self) -> None:
        self._served: dict[TenantId, int] = {}
        self._number = itertools.count(1)

    def take(
        self, waiting: Mapping[TenantId, int], in_flight: Mapping[TenantId, int], *, room: int
    ) -> list[TenantId]:
        """At most `room` turns, in order; a tenant gets no more of them than it has `waiting`."""
        left, load = Counter(waiting), Counter(in_flight)
        turns: list[TenantId] = []
        while len(turns) < room and (candidates := [tenant for tenant in left if left[tenant] > 0]):
            tenant = min(candidates, key=lambda each: (load[each], self._served.get(each, 0), each))
            left[tenant] -= 1
            load[tenant] += 1
            self._served[tenant] = next(self._number)
            turns.append(tenant)
        return turns
