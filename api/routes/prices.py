from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from accounting.price_announcements import announce_price, get_price, withdraw_price
from accounting.price_list import list_prices
from api.authentication import Operator, Reporter
from api.dependencies import IdempotencyKey, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas import ledger as schemas
from core.clock import utc_now
from core.ids import TenantId
from tenancy.tenants import is_operator

router = APIRouter(prefix="/v1/prices", tags=["reports"], responses=problems(401, 403, 422))


@router.get("")
def get_prices(
    principal: Reporter,
    services: Services,
    at: Annotated[
        AwareDatetime | None, Query(description="Only what applies at this moment; left out: of all dates.")
    ] = None,
) -> schemas.PriceList:
    """List prices and the tenant's own, with the dates from which they hold.

    What applies: the tenant's own before the list; then the model's revision, the model, `*`. The
    operator's tenant also sees `engine_hour`, what machines cost.
    """
    with services.database.read() as session:
        with_rates = is_operator(session, principal)
        rows = list_prices(session, principal.tenant_id, at=at, with_rates=with_rates)
    return schemas.PriceList(items=[schemas.Price.of(row) for row in rows])


@router.post("", status_code=201, name="announce_price", responses=problems(404, 409))
def add_price(
    body: schemas.NewPrice, principal: Operator, services: Services, idempotency_key: IdempotencyKey = None
) -> schemas.Price:
    """Announce a price that will hold from a later moment on, without a restart. For the operator."""
    with services.database.write() as session:

        def make() -> tuple[str, schemas.Price]:
            row = announce_price(
                session,
                model=body.model,
                revision=body.revision,
                stage=body.stage,
                price=body.price_per_million,
                effective_from=body.effective_from,
                tenant_id=None if body.tenant_id is None else TenantId(body.tenant_id),
                currency=body.currency,
                now=utc_now(),
                announced_by=principal.key_id,
            )
            return row.id, schemas.Price.of(row)

        return make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("announce", body.model_dump(mode="json")),
            make=make,
            load=lambda identifier: schemas.Price.of(get_price(session, identifier)),
        ).resource


@router.delete("/{price_id}", status_code=204, name="withdraw_price", responses=problems(404, 409))
def remove_price(price_id: str, _principal: Operator, services: Services) -> None:
    """Withdraw a price that was announced and does not hold yet. For the operator."""
    with services.database.write() as session:
        withdraw_price(session, price_id, now=utc_now())
