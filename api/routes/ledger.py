from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from accounting.corrections import correct_entry
from accounting.reconciliation import TOLERANCE, ModelReconciliation, reconcile
from api.authentication import Operator, Reporter
from api.dependencies import IdempotencyKey, NewestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas import ledger as schemas
from api.schemas.base import ListOf
from bootstrap.engine_sampling import EngineSampler, sampled_engines
from core.clock import utc_now
from core.errors import InvalidInput
from storage.ledger_entries import LedgerEntries, get_entry

router = APIRouter(prefix="/v1", tags=["reports"], responses=problems(401, 403, 422))


@router.get("/ledger")
def list_ledger_entries(
    page: NewestFirst,
    principal: Reporter,
    services: Services,
    source: Annotated[
        str | None, Query(max_length=300, description="Of this answer, batch, entry, …")
    ] = None,
    job_id: Annotated[str | None, Query(max_length=100, description="Of this job.")] = None,
) -> ListOf[schemas.LedgerEntry]:
    """The tenant's entries, newest first, burned ones and corrections too."""
    with services.database.read() as session:
        rows = LedgerEntries(session, principal.tenant_id).list_page(page, source=source, job_id=job_id)
    items = [schemas.LedgerEntry.of(row) for row in rows.items]
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.post("/ledger/corrections", status_code=201, responses=problems(404, 409))
def correct_ledger_entry(
    body: schemas.NewCorrection,
    principal: Operator,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> schemas.LedgerEntry:
    """Take back some of an entry, or give back what was taken: by an entry of its own that names it.

    Only the operator may, and of any tenant's. What is left of the entry stays between nothing and all.
    """
    with services.database.write() as session:

        def make() -> tuple[str, schemas.LedgerEntry]:
            row = correct_entry(
                session,
                body.entry_id,
                reason=body.reason,
                num_tokens=body.num_tokens,
                cost=body.cost,
                now=utc_now(),
            )
            return row.id, schemas.LedgerEntry.of(row)

        return make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("correct", body.model_dump(mode="json")),
            make=make,
            load=lambda identifier: schemas.LedgerEntry.of(get_entry(session, identifier)),
        ).resource


@router.get("/reports/reconciliation")
def get_reconciliation(
    _principal: Operator,
    services: Services,
    start: Annotated[AwareDatetime | None, Query(description="Left out: since engines were read.")] = None,
    end: Annotated[AwareDatetime | None, Query(description="Left out: now.")] = None,
) -> schemas.Reconciliation:
    """The ledger of all tenants against the engines' own counters, by model. For the operator."""
    now = utc_now()
    until = min(end, now) if end is not None else now
    if start is not None and until <= start:
        raise InvalidInput(f"The interval ends at {until}, which is not after its start, {start}.")
    if until == now:  # the relay looks now and then only
        EngineSampler(services.database, sampled_engines(services.settings)).sample()
        until = utc_now()
    with services.database.read() as session:
        found = reconcile(session, start=start, end=until)
    return schemas.Reconciliation(
        start=start,
        end=until,
        tolerance=TOLERANCE,
        is_alarming=any(each.is_alarming for each in found),
        models=[_shown(each) for each in found],
    )


def _shown(found: ModelReconciliation) -> schemas.ReconciledModel:
    return schemas.ReconciledModel(
        model=found.model,
        compared_from=found.compared_from,
        compared_to=found.compared_to,
        is_quiet=found.is_quiet,
        counters={
            name: schemas.CounterView(
                engine=each.engine,
                ledger=each.ledger,
                difference=each.difference,
                unexplained=each.unexplained,
                share=each.share,
            )
            for name, each in found.counters.items()
        },
        billed=found.billed.as_dict(),
        burned={reason: tokens.as_dict() for reason, tokens in found.burned.items()},
        corrected=found.corrected.as_dict(),
        unsampled=found.unsampled.as_dict(),
        aborted=found.aborted.as_dict(),
        num_starts=found.num_starts,
        engine_seconds=round(found.engine_seconds, 6),
        busy_seconds=round(found.busy_seconds, 6),
        is_alarming=found.is_alarming,
        notes=list(found.notes),
    )
