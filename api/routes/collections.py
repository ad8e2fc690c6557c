from __future__ import annotations

from fastapi import APIRouter, Response

from api.authentication import Ingester, Reader
from api.dependencies import IdempotencyKey, OldestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.collections import Collection, NewCollection
from core.ids import CollectionId
from storage.collections import CollectionRepository
from storage.listings import Listings

router = APIRouter(prefix="/v1/collections", tags=["collections"], responses=problems(401, 403, 422))


@router.post("", status_code=201, responses=problems(409))
def create_collection(
    body: NewCollection,
    principal: Ingester,
    services: Services,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Collection:
    """Make a collection, which holds documents that are searched together."""
    with services.database.write() as session:
        collections = CollectionRepository(session, principal.tenant_id)

        def make() -> tuple[str, Collection]:
            row = collections.create(body.name)
            return row.id, Collection.of(row, num_documents=0)

        def load(identifier: str) -> Collection:
            row = collections.get(CollectionId(identifier))
            counts = Listings(session, principal.tenant_id).count_documents([CollectionId(row.id)])
            return Collection.of(row, num_documents=counts.get(CollectionId(row.id), 0))

        made = make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("create_collection", body.name),
            make=make,
            load=load,
        )
    response.headers["Location"] = f"/v1/collections/{made.resource.id}"
    return made.resource


@router.get("")
def list_collections(page: OldestFirst, principal: Reader, services: Services) -> ListOf[Collection]:
    """The tenant's collections, oldest first."""
    with services.database.read() as session:
        rows = CollectionRepository(session, principal.tenant_id).list_page(page)
        ids = [CollectionId(row.id) for row in rows.items]
        counts = Listings(session, principal.tenant_id).count_documents(ids)
    items = [Collection.of(row, num_documents=counts.get(CollectionId(row.id), 0)) for row in rows.items]
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/{collection_id}", responses=problems(404))
def get_collection(collection_id: str, principal: Reader, services: Services) -> Collection:
    """One collection."""
    identifier = CollectionId(collection_id)
    with services.database.read() as session:
        row = CollectionRepository(session, principal.tenant_id).get(identifier)
        counts = Listings(session, principal.tenant_id).count_documents([identifier])
    return Collection.of(row, num_documents=counts.get(identifier, 0))


@router.delete("/{collection_id}", status_code=204, responses=problems(404))
def delete_collection(collection_id: str, principal: Ingester, services: Services) -> None:
    """Delete a collection with its documents: nothing of it is found from now on."""
    with services.database.write() as session:
        CollectionRepository(session, principal.tenant_id).delete(CollectionId(collection_id))
