"""Corrections: entries of their own that name what they correct. What is written stays written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from accounting.holds import charge
from accounting.money import cost_of, format_amount
from core.errors import Conflict, InvalidInput, NotFound
from core.ids import TenantId, new_id
from storage.insertion import insert_if_absent
from storage.models import LedgerEntry
from storage.types import MONEY_SCALE

MAX_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Remainder:
    """What an entry amounts to with all its corrections."""

    num_tokens: int
    cost: Decimal
    num_corrections: int


def correct_entry(
    session: Session,
    entry_id: str,
    *,
    reason: str,
    num_tokens: int = 0,
    cost: Decimal | None = None,
    now: datetime,
) -> LedgerEntry:
    """A new entry with signed amounts that stands under the same tenant, job and stage as the one it names.

    Tokens say that the count was wrong, and take their cost with them unless `cost` says otherwise;
    a cost alone says that the count was right and the amount is not asked for.

    Args:
        num_tokens: what is added to the count; mostly negative.
        cost: what is added to the cost; left out: that of `num_tokens` at the entry's price.

    Raises:
        NotFound: there is no such entry.
        InvalidInput: no reason, nothing to correct, a correction of a correction, or too fine an amount.
        Conflict: more than what is left of the entry would be taken, or more given back than was ever
            taken; or another correction of it was written at the same moment.
    """
    entry = session.get(LedgerEntry, entry_id)
    if entry is None:
        raise NotFound(f"There is no ledger entry {entry_id}.", remedy="List them with GET /v1/ledger.")
    amount = cost_of(num_tokens, entry.price_per_million) if cost is None else cost
    _check(entry, reason, num_tokens, amount)
    left = remainder(session, entry)
    _check_remainder(entry, left, num_tokens, amount)
    values = {column.key: getattr(entry, column.key) for column in LedgerEntry.__mapper__.column_attrs}
    values |= {
        "id": new_id("led"),
        # The number makes it unique: of two at once, the second is refused and has to look again.
        "source": f"{entry.id}/correction/{left.num_corrections + 1}",
        "corrects_id": entry.id,
        "reason": reason.strip(),
        "num_tokens": num_tokens,
        "cost": amount,
        "engine_seconds": 0.0,  # the machine did what it did
        "engine_cost": None,
        "created_at": now,
    }
    if not insert_if_absent(session, LedgerEntry, values):
        raise Conflict(
            f"Entry {entry.id} is being corrected by somebody else.", remedy="Look at it, and try again."
        )
    correction = LedgerEntry(**values)
    charge(session, TenantId(correction.tenant_id), [correction])
    return correction


def remainder(session: Session, entry: LedgerEntry) -> Remainder:
    """What is left of an entry."""
    tokens, cost, number = session.execute(
        select(func.sum(LedgerEntry.num_tokens), func.sum(LedgerEntry.cost), func.count()).where(
            LedgerEntry.corrects_id == entry.id
        )
    ).one()
    return Remainder(entry.num_tokens + int(tokens or 0), entry.cost + (cost or Decimal(0)), number)


def _check(entry: LedgerEntry, reason: str, num_tokens: int, cost: Decimal) -> None:
    if not reason.strip() or len(reason) > MAX_REASON_LENGTH:
        raise InvalidInput(
            f"A correction needs a reason of 1 to {MAX_REASON_LENGTH} characters.",
            remedy="Say what was wrong: whoever reads the report will ask.",
        )
    if entry.corrects_id is not None:
        raise InvalidInput(
            f"Entry {entry.id} is a correction itself.", remedy=f"Correct {entry.corrects_id} once more."
        )
    if not num_tokens and not cost:
        raise InvalidInput("There is nothing to correct.", remedy="Give num_tokens, cost, or both.")
    if not cost.is_finite() or cost != round(cost, MONEY_SCALE):
        raise InvalidInput(f"The cost {cost} is no amount of at most {MONEY_SCALE} decimal places.")


def _check_remainder(entry: LedgerEntry, left: Remainder, num_tokens: int, cost: Decimal) -> None:
    if 0 <= left.num_tokens + num_tokens <= entry.num_tokens and 0 <= left.cost + cost <= entry.cost:
        return
    raise Conflict(
        f"Of entry {entry.id} {left.num_tokens} of {entry.num_tokens} tokens and "
        f"{format_amount(left.cost)} of {format_amount(entry.cost)} {entry.currency} are left.",
        remedy="Take at most what is left, and give back at most what was taken.",
        entry_id=entry.id,
        tokens_left=left.num_tokens,
        cost_left=format_amount(left.cost),
    )
