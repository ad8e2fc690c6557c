"""The worker's side: which steps computed what must not be kept."""

from __future__ import annotations


class FailedSteps:
    """Steps since blocks could not be loaded, until the scheduler has heard of it.

    Whatever such a step computed may have read a block that is not what it should be: of the request
    whose block it was, and of others that found the same block cached. Written to disk it would be
    wrong under a right name and checksum. The scheduler may have planned further steps before it
    hears; they go on from what is wrong.
    """

    def __init__(self) -> None:
        self._last_failed = -1

    def add(self, step: int) -> None:
        """Blocks of that step could not be loaded."""
        self._last_failed = step

    def may_save(self, heard_until: int) -> bool:
        """Whether what a step computes may be kept.

        Args:
            heard_until: steps up to this one were planned when the scheduler last heard of failures.
        """
        return heard_until >= self._last_failed
