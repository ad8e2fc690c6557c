"""The only place that asks what time it is, so that tests can pass their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Now, timezone-aware, in UTC."""
    return datetime.now(UTC)
