"""Budgets: of a whole tenant they are the operator's, of its keys and collections its administrator's."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy.orm import Session

from accounting.budgets import (
    change_budget,
    create_budget,
    delete_budget,
    get_budget,
    list_budgets,
    standing_of,
)
from api.authentication import Administrator, Reporter, require_operator
from api.budget_headers import headers_of
from api.dependencies import IdempotencyKey, OldestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.budgets import Budget, BudgetChange, NewBudget
from core.clock import utc_now
from core.ids import BudgetId, CollectionId, KeyId, TenantId
from storage import models
from tenancy.principal import Principal
from tenancy.tenants import get_tenant, is_operator

router = APIRouter(prefix="/v1/budgets", tags=["budgets"], responses=problems(401, 403, 422))


@router.post("", status_code=201, name="create_budget", responses=problems(404))
def add_budget(
    body: NewBudget,
    principal: Administrator,
    services: Services,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Budget:
    """Limit what a key or a collection may use; or, for the operator, what a tenant may.

    Every budget that work counts against holds. What the ledger has for the period already counts.
    """
    now = utc_now()
    with services.database.write() as session:
        tenant_id = _tenant_of(session, principal, body)

        def make() -> tuple[str, models.Budget]:
            row = create_budget(
                session,
                tenant_id,
                limit=body.limit,
                unit=body.unit,
                period=body.period,
                time_zone=body.time_zone,
                warn_at=body.warn_at,
                key_id=KeyId(body.key_id) if body.key_id is not None else None,
                collection_id=CollectionId(body.collection_id) if body.collection_id is not None else None,
                now=now,
            )
            return row.id, row

        made = make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("create_budget", body.model_dump(mode="json")),
            make=make,
            load=lambda identifier: get_budget(session, tenant_id, BudgetId(identifier)),
        )
        standing = standing_of(session, made.resource, now)
    response.headers["Location"] = f"/v1/budgets/{made.resource.id}"
    return Budget.of(standing)


@router.get("", name="list_budgets")
def show_budgets(
    page: OldestFirst,
    principal: Reporter,
    services: Services,
    all_tenants: Annotated[bool, Query(description="For the operator: everybody's.")] = False,
) -> ListOf[Budget]:
    """The tenant's budgets as they stand, oldest first, those that the operator set for it too."""
    now = utc_now()
    with services.database.read() as session:
        if all_tenants:
            _require_operator(session, principal)
        rows = list_budgets(session, None if all_tenants else principal.tenant_id, page)
        items = [Budget.of(standing_of(session, row, now)) for row in rows.items]
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/{budget_id}", name="get_budget", responses=problems(404))
def show_budget(budget_id: str, principal: Reporter, services: Services) -> Budget:
    """A budget: what is used, held and left of it, and when it is whole again."""
    with services.database.read() as session:
        row = get_budget(session, _visible(session, principal), BudgetId(budget_id))
        return Budget.of(standing_of(session, row, utc_now()))


@router.patch("/{budget_id}", name="change_budget", responses=problems(404))
def alter_budget(
    budget_id: str, body: BudgetChange, principal: Administrator, services: Services, response: Response
) -> Budget:
    """Give a budget another limit or other thresholds.

    A limit below what is used is taken, and `state` and a header say so: nothing new begins until it is
    raised or reset, and what runs stops at its next look.
    """
    with services.database.write() as session:
        row = _changeable(session, principal, budget_id)
        standing = change_budget(session, row, limit=body.limit, warn_at=body.warn_at, now=utc_now())
    if standing.state != "open":
        response.headers.update(headers_of([standing]))
    return Budget.of(standing)


@router.delete("/{budget_id}", status_code=204, name="delete_budget", responses=problems(404))
def remove_budget(budget_id: str, principal: Administrator, services: Services) -> None:
    """Delete a budget: nothing is held to it any more. The ledger keeps what was used."""
    with services.database.write() as session:
        delete_budget(session, _changeable(session, principal, budget_id))


# ---- parts -----------------------------------------------------------------------------------


def _tenant_of(session: Session, principal: Principal, body: NewBudget) -> TenantId:
    """Whose budget is asked for, by one who may set it."""
    target = TenantId(body.tenant_id) if body.tenant_id is not None else principal.tenant_id
    is_foreign = target != principal.tenant_id
    if is_foreign or (body.key_id is None and body.collection_id is None):
        _require_operator(session, principal)
    if is_foreign:
        get_tenant(session, target)
    return target


def _changeable(session: Session, principal: Principal, budget_id: str) -> models.Budget:
    row = get_budget(session, _visible(session, principal), BudgetId(budget_id))
    if row.key_id is None and row.collection_id is None:
        _require_operator(session, principal)
    return row


def _visible(session: Session, principal: Principal) -> TenantId | None:
    """Whose budgets the caller sees; None: everybody's."""
    return None if is_operator(session, principal) else principal.tenant_id


def _require_operator(session: Session, principal: Principal) -> None:
    require_operator(
        session,
        principal,
        for_what="budgets of whole tenants are the operator's",
        or_else="limit a key or a collection",
    )
