"""What an attempt is known to have decoded whose worker died for good, so that nobody comes to settle it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from accounting.ledger import Ledger, generation_lines
from core.ids import JobId, TenantId
from core.usage import TokenUsage
from storage.answers import AnswerRepository
from storage.models import Job


def settle_parked_answer(
    session: Session, ledger: Ledger, job: Job, last_delta: Mapping[str, Any] | None
) -> None:
    """Put it on the ledger and on nobody's bill, in the transaction that ends the job.

    Args:
        last_delta: the last that the job published, with the engine's own count; None: nothing is known.
    """
    if last_delta is None or "usage" not in last_delta or "model" not in last_delta:
        return
    tenant_id = TenantId(job.tenant_id)
    answer = AnswerRepository(session, tenant_id).get_by_job(JobId(job.id))
    lines = generation_lines(
        TokenUsage(**last_delta["usage"]),
        source=answer.id,
        attempt=last_delta["attempt"],
        model=last_delta["model"],
        model_revision=last_delta["model_revision"],
        billed=False,
        key_id=job.key_id,
        job_id=job.id,
        collection_id=answer.collection_id,
    )
    ledger.record(session, tenant_id, lines)
