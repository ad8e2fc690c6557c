"""How many questions a key, and a tenant, may have unanswered at once."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.errors import RateLimited
from core.settings import LimitSettings
from storage.listings import count_awaited_answers
from storage.models import Tenant
from tenancy.principal import Principal

RETRY_SECONDS = 2


def require_place(session: Session, principal: Principal, limits: LimitSettings) -> None:
    """What a transaction asks that is about to make a question of the caller's.

    Raises:
        RateLimited: as many as the key or its tenant may have are unanswered.
    """
    if limits.questions_per_key is None and limits.questions_per_tenant is None:
        return
    # Others of the tenant wait until this one is counted; rows that refer to the tenant can be made.
    session.execute(select(Tenant.id).where(Tenant.id == principal.tenant_id).with_for_update(key_share=True))
    for whose, limit, key_id in (
        ("key", limits.questions_per_key, principal.key_id),
        ("tenant", limits.questions_per_tenant, None),
    ):
        if limit is not None and count_awaited_answers(session, principal.tenant_id, key_id) >= limit:
            raise RateLimited(
                f"A {whose} may have {limit:,} questions unanswered at once, and has.",
                remedy="Try again when one of them is answered.",
                policy=f"questions-per-{whose}",
                limit=limit,
                retry_after_seconds=RETRY_SECONDS,
            )
