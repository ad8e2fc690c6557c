"""How long work asks whether it should go on."""

from __future__ import annotations

from collections.abc import Callable

Checkpoint = Callable[[], None]
"""Returns at once while the work is still wanted.

Raises:
    JobCancelled: the caller asked for it to stop.
    LeaseLost: another worker has taken the job up; stop without writing anything.
"""
