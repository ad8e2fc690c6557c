"""Prices announced to a running service: from a later date on, beside what the price book says."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import select
from sqlalchemy.orm import Session

from accounting.price_book import LIST_PRICE, PriceKey, check_key, check_price
from accounting.price_sync import lock_prices
from accounting.price_table import find_currency
from accounting.stages import parse_priced
from core.errors import Conflict, InvalidInput, NotFound
from core.ids import KeyId, TenantId, new_id
from storage.models import Price, Tenant


def announce_price(
    session: Session,
    *,
    model: str,
    stage: str,
    price: Decimal,
    effective_from: datetime,
    now: datetime,
    announced_by: KeyId,
    revision: str = "",
    tenant_id: TenantId | None = None,
    currency: str | None = None,
) -> Price:
    """A price that will hold from `effective_from` on; whose, unless it is everybody's.

    Raises:
        InvalidInput: the price or what it is for makes no sense, it would hold from a moment that has
            passed, or it is in another currency than all others.
        NotFound: there is no such tenant.
        Conflict: there is a price for the same from the same moment on.
    """
    lock_prices(session)
    owner = tenant_id or TenantId(LIST_PRICE)
    key = _checked(owner, model, revision, stage, effective_from, price, now)
    _check_currency(session, currency)
    if tenant_id is not None and session.get(Tenant, tenant_id) is None:
        raise NotFound(f"There is no tenant {tenant_id}.", remedy="List them with `longleaf tenants list`.")
    row = Price(
        id=new_id("pri"),
        tenant_id=owner,
        model=key.model,
        model_revision=key.revision,
        stage=key.stage.value,
        price=price,
        currency=find_currency(session),
        announced_by=announced_by,
        effective_from=key.effective_from,
        created_at=now,
    )
    _refuse_second(session, row, key)
    session.add(row)
    session.flush()
    return row


def get_price(session: Session, price_id: str) -> Price:
    """Raises `NotFound` for an unknown id."""
    row = session.get(Price, price_id)
    if row is None:
        raise NotFound(f"There is no price {price_id}.", remedy="List them with GET /v1/prices.")
    return row


def withdraw_price(session: Session, price_id: str, *, now: datetime) -> None:
    """As if it had never been announced.

    Raises:
        NotFound: there is no such price.
        Conflict: it holds already, or the price book says it.
    """
    lock_prices(session)
    row = get_price(session, price_id)
    if row.announced_by is None:
        raise Conflict(
            f"Price {price_id} is the price book's.", remedy="Take it out of the book and start again."
        )
    if row.effective_from <= now:
        raise Conflict(
            f"Price {price_id} has held since {row.effective_from.isoformat()}.",
            remedy="Announce another one for a later date.",
        )
    session.delete(row)


def _checked(
    owner: TenantId,
    model: str,
    revision: str,
    stage: str,
    effective_from: datetime,
    price: Decimal,
    now: datetime,
) -> PriceKey:
    if effective_from.tzinfo is None:
        raise InvalidInput(f"effective_from {effective_from} has no time zone.", remedy="Add one, such as Z.")
    try:
        key = PriceKey(owner, model, parse_priced(stage), effective_from.astimezone(UTC), revision)
        check_key(key)
        check_price(price)
    except ValueError as error:
        raise InvalidInput(f"The price cannot be announced: {error}.") from error
    if key.effective_from <= now:
        raise InvalidInput(
            f"The price would hold from {key.effective_from.isoformat()}, which has passed: lines of the "
            "ledger have been priced since.",
            remedy="Announce it for a moment to come; what was priced wrongly is corrected by entry.",
        )
    return key


def _check_currency(session: Session, currency: str | None) -> None:
    ours = find_currency(session)
    if currency is not None and ours and currency != ours:
        raise InvalidInput(
            f"The price is in {currency}, all others are in {ours}: amounts of two cannot be summed.",
            remedy=f"Give it in {ours}.",
        )


def _refuse_second(session: Session, row: Price, key: PriceKey) -> None:
    known = session.scalar(
        select(Price).where(
            Price.tenant_id == row.tenant_id,
            Price.model == row.model,
            Price.model_revision == row.model_revision,
            Price.stage == row.stage,
            Price.effective_from == row.effective_from,
        )
    )
    if known is not None:
        raise Conflict(
            f"There is a price for {key} already, {known.price}.",
            remedy="Withdraw it, if it is announced and still to come, or choose another moment.",
            price_id=known.id,
        )
