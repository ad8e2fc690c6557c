from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter

from api.authentication import Administrator
from api.dependencies import IdempotencyKey, OldestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.keys import IssuedKey, Key, NewKey
from core.clock import utc_now
from core.ids import KeyId
from tenancy.keys import get_key, issue_key, list_keys, revoke_key

router = APIRouter(prefix="/v1/keys", tags=["keys"], responses=problems(401, 403, 422))


@router.post("", status_code=201, responses=problems(409))
def create_key(
    body: NewKey, principal: Administrator, services: Services, idempotency_key: IdempotencyKey = None
) -> IssuedKey:
    """Issue an API key of the tenant. Its secret is in this response and nowhere else."""
    now = utc_now()
    expires_at = None if body.expires_in_days is None else now + timedelta(days=body.expires_in_days)
    with services.database.write() as session:

        def make() -> tuple[str, IssuedKey]:
            issued = issue_key(
                session,
                principal.tenant_id,
                name=body.name,
                scopes=body.scopes,
                now=now,
                expires_at=expires_at,
            )
            return issued.key.id, IssuedKey.issued(issued.key, issued.token)

        return make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("create_key", body.name, sorted(body.scopes), body.expires_in_days),
            make=make,
            load=lambda identifier: IssuedKey.issued(
                get_key(session, principal.tenant_id, KeyId(identifier)), None
            ),
        ).resource


@router.get("", name="list_keys")
def list_api_keys(page: OldestFirst, principal: Administrator, services: Services) -> ListOf[Key]:
    """The tenant's keys, oldest first, expired and revoked ones too."""
    with services.database.read() as session:
        rows = list_keys(session, principal.tenant_id, page)
    return ListOf(items=[Key.of(key) for key in rows.items], next_cursor=rows.next_cursor)


@router.delete("/{key_id}", status_code=204, name="revoke_key", responses=problems(404))
def revoke_api_key(key_id: str, principal: Administrator, services: Services) -> None:
    """Revoke a key: it is refused from now on, and stays in the list. Repeating changes nothing."""
    with services.database.write() as session:
        revoke_key(session, principal.tenant_id, KeyId(key_id), now=utc_now())
