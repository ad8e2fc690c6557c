"""The `prices` table: brought into line with the price book, and asked for the price of a moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session

from accounting.price_book import ANY_MODEL, LIST_PRICE, PriceBook, PriceKey
from accounting.stages import Stage
from core.errors import Misconfigured
from core.ids import TenantId, new_id
from storage.models import LedgerEntry, Price, Tenant

_ADVISORY_LOCK = 0x6C6C70726963  # "llpric"


@dataclass(frozen=True, slots=True)
class AppliedPrice:
    """The price in force at a moment."""

    price_per_million: Decimal
    currency: str
    effective_from: datetime


@dataclass(frozen=True, slots=True)
class PriceChanges:
    """How many rows a sync touched; all zero when the table was in line already."""

    added: int
    changed: int
    removed: int


def sync_price_book(session: Session, book: PriceBook, *, now: datetime) -> PriceChanges:
    """Make the table say what the book says; calling it again changes nothing.

    A price that would have priced a line already on the ledger is history: it can be neither
    changed, removed nor slipped in afterwards. Everything else follows the book.

    Raises:
        Misconfigured: the book rewrites history, changes the currency, or names an unknown tenant.
    """
    if session.get_bind().dialect.name == "postgresql":
        # Processes that start at once would otherwise insert the same rows. SQLite has one writer.
        session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    _check_currency(session, book)
    _check_tenants(session, book)
    rows = {_key_of(row): row for row in session.scalars(select(Price))}
    added = [key for key in book.prices if key not in rows]
    changed = [
        key for key, row in rows.items() if key in book.prices and book.prices[key] != row.price_per_million
    ]
    removed = [key for key in rows if key not in book.prices]
    for verb, keys in (("add", added), ("change", changed), ("remove", removed)):
        for key in keys:
            _refuse_if_used(session, key, verb)
    _write(session, book, added=added, changed=changed, removed=removed, rows=rows, now=now)
    return PriceChanges(len(added), len(changed), len(removed))


def price_at(
    session: Session, model: str, stage: Stage, moment: datetime, *, tenant_id: TenantId
) -> AppliedPrice:
    """The price in force: the tenant's own before the list's, the model's own before any model's.

    Raises:
        Misconfigured: no price was in force.
    """
    return prices_at(session, [(model, stage)], moment, tenant_id=tenant_id)[model, stage]


def prices_at(
    session: Session,
    wanted: Iterable[tuple[str, Stage]],
    moment: datetime,
    *,
    tenant_id: TenantId,
) -> dict[tuple[str, Stage], AppliedPrice]:
    """`price_at` for many (model, stage) pairs in one query."""
    wanted = list(wanted)
    rows = session.scalars(
        select(Price)
        .where(
            Price.tenant_id.in_([LIST_PRICE, tenant_id]),
            Price.model.in_({ANY_MODEL, *(model for model, _ in wanted)}),
            Price.stage.in_({stage.value for _, stage in wanted}),
            Price.effective_from <= moment,
        )
        .order_by(Price.effective_from)
    )
    latest = {(row.tenant_id, row.model, row.stage): row for row in rows}
    return {(model, stage): _choose(latest, model, stage, moment, tenant_id) for model, stage in wanted}


def find_currency(session: Session) -> str:
    """The currency of the price table; empty while the table is."""
    return session.scalar(select(Price.currency).limit(1)) or ""


def _choose(
    latest: Mapping[tuple[str, str, str], Price],
    model: str,
    stage: Stage,
    moment: datetime,
    tenant_id: TenantId,
) -> AppliedPrice:
    for owner in (tenant_id, LIST_PRICE):
        for name in (model, ANY_MODEL):
            row = latest.get((owner, name, stage.value))
            if row is not None:
                return AppliedPrice(row.price_per_million, row.currency, row.effective_from)
    raise Misconfigured(
        f"No price for {stage.value} of model {model!r} is in force at {moment.isoformat()}.",
        remedy='Give the price book an entry for model = "*" with an earlier effective_from.',
        model=model,
        stage=stage.value,
    )


def _key_of(row: Price) -> PriceKey:
    return PriceKey(row.tenant_id, row.model, Stage(row.stage), row.effective_from)


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


def _refuse_if_used(session: Session, key: PriceKey, verb: str) -> None:
    query = select(func.min(LedgerEntry.created_at)).where(
        LedgerEntry.stage == key.stage.value, LedgerEntry.created_at >= key.effective_from
    )
    if key.model != ANY_MODEL:
        query = query.where(LedgerEntry.model == key.model)
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
        rows[key].price_per_million = book.prices[key]
    session.execute(update(Price).where(Price.currency != book.currency).values(currency=book.currency))
    session.add_all(
        Price(
            id=new_id("pri"),
            tenant_id=key.tenant_id,
            model=key.model,
            stage=key.stage.value,
            price_per_million=book.prices[key],
            currency=book.currency,
            effective_from=key.effective_from,
            created_at=now,
        )
        for key in added
    )
    session.flush()
