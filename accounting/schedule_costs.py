"""What runs of schedules cost, from the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from core.ids import ScheduleRunId, TenantId
from storage.models import Job, LedgerEntry


def costs_of_runs(
    session: Session, tenant_id: TenantId, run_ids: Sequence[ScheduleRunId]
) -> Mapping[ScheduleRunId, Mapping[str, Decimal]]:
    """By run, what it was billed in each currency, with the jobs that its job made; others are absent."""
    sums = session.execute(
        select(Job.schedule_run_id, LedgerEntry.currency, func.sum(LedgerEntry.cost))
        .join(LedgerEntry, LedgerEntry.job_id == Job.id)
        .where(
            Job.tenant_id == tenant_id,
            LedgerEntry.tenant_id == tenant_id,
            Job.schedule_run_id.in_(run_ids),
            LedgerEntry.billed,
        )
        .group_by(Job.schedule_run_id, LedgerEntry.currency)
    )
    costs: defaultdict[ScheduleRunId, dict[str, Decimal]] = defaultdict(dict)
    for run_id, currency, amount in sums:
        costs[ScheduleRunId(str(run_id))][currency] = amount
    return costs
