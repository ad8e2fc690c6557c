"""Bringing the `prices` table into line with the price book.

The table is the truth. The book is the operator's way to write it at start; what was announced to a
running service stands beside what the book says, and the book does not touch it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session

from accounting.price_book import ANY_MODEL, LIST_PRICE, PriceBook, PriceKey
from accounting.stages import Rate, parse_priced
from core.errors import Misconfigured
from core.ids import new_id
from storage.models import LedgerEntry, Price, Tenant

_ADVISORY_LOCK = 0x6C6C70726963  # "llpric"


@dataclass(frozen=True, slots=True)
class PriceChanges:
    """How many rows a sync touched; all zero when the table was in line already."""

    added: int
    changed: int
    removed: int


def sync_price_book(session: Session, book: PriceBook, *, now: datetime) -> PriceChanges:
    """Make the table say what the book says; calling it again changes nothing.

    A price that would have priced a line already on the ledger is history: it can be neither
    changed, removed nor slipped in afterwards. Everything else follows the book, except what was
    announced: that stays, and becomes the book's own once the book says the same.

    Raises:
        Misconfigured: the book rewrites history, changes the currency, names an unknown tenant,
            contradicts an announced price, or leaves a stage without a price now.
    """
    lock_prices(session)
    _check_currency(session, book)
    _check_tenants(session, book)
    _check_in_force(book, now)
    rows = {key_of(row): row for row in session.scalars(select(Price))}
    added = [key for key in book.prices if key not in rows]
    changed = [key for key, row in rows.items() if key in book.prices and book.prices[key] != row.price]
    removed = [key for key, row in rows.items() if key not in book.prices and row.announced_by is None]
    _refuse_contradictions(book, {key: rows[key] for key in changed})
    for verb, keys in (("add", added), ("change", changed), ("remove", removed)):
        for key in keys:
            _refuse_if_used(session, key, verb)
    _write(session, book, added=added, changed=changed, removed=removed, rows=rows, now=now)
    return PriceChanges(len(added), len(changed), len(removed))


def lock_prices(session: Session) -> None:
    """Let no other transaction change prices until this one ends. SQLite has one writer anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})


def key_of(row: Price) -> PriceKey:
    return PriceKey(row.tenant_id, row.model, parse_priced(row.stage), row.effective_from, row.model_revision)


def _check_currency(session: Session, book: PriceBook) -> None:
    used = session.scalar(select(LedgerEntry.currency).where(LedgerEntry.currency != book.currency).limit(1))
    if used is not None:
        raise Misconfigured(
            f"The price book is in {book.currency}, but the ledger has lines in {used}.",
            remedy=f"Keep {used}: amounts of two currencies cannot be summed.",
        )


def _check_tenants(session: Session, book: PriceBook) -> None:
    named = {key.tenant_id for key in book.prices} - {LIST_PRICE}
    known = set(session.scalars(select(Tenant.id).where(Tenant.id.in_(named))))
    for tenant_id in sorted(named - known):
        raise Misconfigured(
            f"The price book has prices for tenant {tenant_id}, who does not exist.",
            remedy="List tenants with `longleaf tenants list`, and mend or remove the entry.",
            tenant_id=tenant_id,
        )


def _check_in_force(book: PriceBook, now: datetime) -> None:
    for stage in sorted({key.stage for key in book.prices} - set(Rate)):
        general = [
            key.effective_from
            for key in book.prices
            if key.stage is stage and key.model == ANY_MODEL and key.tenant_id == LIST_PRICE
        ]
        if not any(moment <= now for moment in general):
            raise Misconfigured(
                f"The price book has no price for {stage.value} of every model that is in force now.",
                remedy='Give it an entry for model = "*" with an earlier effective_from.',
                stage=stage.value,
            )


def _refuse_contradictions(book: PriceBook, changed: Mapping[PriceKey, Price]) -> None:
    for key, row in changed.items():
        if row.announced_by is not None:
            raise Misconfigured(
                f"The price for {key} was announced as {row.price}; the price book says {book.prices[key]}.",
                remedy="Withdraw the announcement with `longleaf prices withdraw`, or mend the book.",
                model=key.model,
                stage=key.stage.value,
            )


def _refuse_if_used(session: Session, key: PriceKey, verb: str) -> None:
    used = LedgerEntry.price_stage == key.stage.value
    if key.stage is Rate.ENGINE_HOUR:  # lines that no rate applied to stay without a true cost
        used = LedgerEntry.engine_cost.is_not(None)
    query = select(func.min(LedgerEntry.created_at)).where(used, LedgerEntry.created_at >= key.effective_from)
    if key.model != ANY_MODEL:
        query = query.where(LedgerEntry.model == key.model)
    if key.revision:
        query = query.where(LedgerEntry.model_revision == key.revision)
    if key.tenant_id != LIST_PRICE:
        query = query.where(LedgerEntry.tenant_id == key.tenant_id)
    first = session.scalar(query)
    if first is not None:
        raise Misconfigured(
            f"The price book would {verb} the price for {key}, but the ledger has had lines for it "
            f"since {first.isoformat()}.",
            remedy="Leave that entry as it was, and add one with an effective_from that is still to come.",
            model=key.model,
            stage=key.stage.value,
        )


def _write(
    session: Session,
    book: PriceBook,
    *,
    added: Iterable[PriceKey],
    changed: Iterable[PriceKey],
    removed: Iterable[PriceKey],
    rows: Mapping[PriceKey, Price],
    now: datetime,
) -> None:
    session.execute(delete(Price).where(Price.id.in_([rows[key].id for key in removed])))
    for key in changed:
        rows[key].price = book.prices[key]
    for key in rows.keys() & book.prices.keys():
        rows[key].announced_by = None
    session.execute(update(Price).where(Price.currency != book.currency).values(currency=book.currency))
    session.add_all(
        Price(
            id=new_id("pri"),
            tenant_id=key.tenant_id,
            model=key.model,
            model_revision=key.revision,
            stage=key.stage.value,
            price=book.prices[key],
            currency=book.currency,
            effective_from=key.effective_from,
            created_at=now,
        )
        for key in added
    )
    session.flush()
