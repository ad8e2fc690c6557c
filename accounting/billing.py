"""What is billed, and what is burned: recorded with its cost, and on nobody's bill.

One rule: work is billed if its effect was committed, in the transaction that commits it. Whatever came to
nothing is burned, and its line says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from core.errors import JobCancelled, LeaseLost

if TYPE_CHECKING:
    from accounting.ledger import LedgerLine


class BurnReason(StrEnum):
    """Why a line is on nobody's bill."""

    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"  # its worker died, or was too slow and another took the job up
    PREWARM = "prewarm"  # for the cache, whoever may profit
    TRACE = "trace"  # explaining an answer that was paid for
    PROBE = "probe"  # finding out what an engine can do
    REPAIR = "repair"  # an index that had lost what was paid for before


def burn_reason(error: BaseException | None) -> BurnReason:
    """Why an attempt that ended by `error` came to nothing."""
    if isinstance(error, JobCancelled):
        return BurnReason.CANCELLED
    if isinstance(error, LeaseLost):
        return BurnReason.LOST
    return BurnReason.FAILED


def burned(lines: Iterable[LedgerLine], reason: BurnReason) -> list[LedgerLine]:
    """The same lines, on nobody's bill."""
    return [replace(line, billed=False, reason=reason.value) for line in lines]
