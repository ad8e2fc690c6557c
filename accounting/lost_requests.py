"""What a worker had an engine do before it died: nobody else would put it on the ledger."""

from __future__ import annotations

from sqlalchemy.orm import Session

from accounting.billing import BurnReason, burned
from accounting.ledger import Ledger, generation_lines
from core.ids import JobId, TenantId
from core.usage import TokenUsage
from storage.engine_requests import list_requests
from storage.models import Job


def settle_lost_requests(session: Session, ledger: Ledger, job: Job, *, source: str) -> int:
    """Put what is left in the journal of the job on the ledger, and on nobody's bill.

    To be called when no worker holds the job: who does puts its requests on the ledger itself, and
    `Ledger.record` then forgets them.

    Args:
        source: of the entries.

    Returns: how many tokens were found.

    Raises:
        Misconfigured: the price book has no price for the model.
    """
    sums: dict[tuple[int, str, str], TokenUsage] = {}
    for note in list_requests(session, JobId(job.id)):
        key = (note.attempt, note.model, note.model_revision)
        sums[key] = sums.get(key, TokenUsage()) + note.usage
    lines = [
        line
        for (attempt, model, revision), usage in sums.items()
        for line in generation_lines(
            usage,
            source=source,
            attempt=attempt,
            model=model,
            model_revision=revision,
            key_id=job.key_id,
            job_id=job.id,
            collection_id=job.collection_id,
        )
    ]
    ledger.record(session, TenantId(job.tenant_id), burned(lines, BurnReason.LOST))
    return sum(line.num_tokens for line in lines)
