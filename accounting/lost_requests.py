"""What a worker had an engine do before it died: nobody else would put it on the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from accounting.billing import BurnReason, burned
from accounting.ledger import Ledger, generation_lines
from core.ids import TenantId
from core.usage import TokenUsage
from storage.engine_requests import RequestNote
from storage.models import Job


def settle_lost_requests(
    session: Session, ledger: Ledger, job: Job, notes: Sequence[RequestNote], *, source: str
) -> int:
    """Put what is left in the journal of the job on the ledger, and on nobody's bill.

    To be called when no worker holds the job: who does puts its requests on the ledger itself, and
    `Ledger.record` then forgets them.

    Args:
        notes: all that the journal has of the job.
        source: of the entries.

    Returns: how many tokens these are.

    Raises:
        Misconfigured: the price book has no price for the model.
    """
    sums: dict[tuple[int, str, str], TokenUsage] = {}
    for note in notes:
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
