from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta

from fastapi import APIRouter
from sqlalchemy.orm import Session

from api.authentication import Administrator
from api.dependencies import IdempotencyKey, NewestFirst, OldestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.webhooks import Delivery, IssuedWebhook, NewWebhook, Webhook, WebhookChange
from bootstrap.api_services import ApiServices
from core.clock import utc_now
from core.errors import Conflict
from core.ids import DeliveryId, JobId, TenantId, WebhookId
from storage import models
from storage.listings import Listings
from storage.webhooks import TEST_EVENT, DeliveryRepository, WebhookRepository
from tenancy.webhooks.addresses import AddressPolicy, UnknownHost
from tenancy.webhooks.signature import new_secret

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], responses=problems(401, 403, 422))

OLD_SECRET_HOURS = 24


@router.post("", status_code=201, responses=problems(409))
def create_webhook(
    body: NewWebhook, principal: Administrator, services: Services, idempotency_key: IdempotencyKey = None
) -> IssuedWebhook:
    """Have events POSTed to a URL, signed. Its secret is in this response and nowhere else."""
    url, secret = _checked(services, body.url), new_secret()
    with services.database.write() as session:
        webhooks = WebhookRepository(session, principal.tenant_id)

        def make() -> tuple[str, IssuedWebhook]:
            row = webhooks.create(
                url=url, event_types=body.event_types, description=body.description, secret=secret
            )
            return row.id, IssuedWebhook.issued(row, secret)

        return make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("create_webhook", body.model_dump()),
            make=make,
            load=lambda identifier: IssuedWebhook.issued(webhooks.get(WebhookId(identifier)), None),
        ).resource


@router.get("")
def list_webhooks(page: OldestFirst, principal: Administrator, services: Services) -> ListOf[Webhook]:
    """The tenant's webhooks, oldest first."""
    with services.database.read() as session:
        rows = WebhookRepository(session, principal.tenant_id).list_page(page)
    return ListOf(items=[Webhook.of(row) for row in rows.items], next_cursor=rows.next_cursor)


@router.get("/{webhook_id}", responses=problems(404))
def get_webhook(webhook_id: str, principal: Administrator, services: Services) -> Webhook:
    """One webhook."""
    with services.database.read() as session:
        return Webhook.of(WebhookRepository(session, principal.tenant_id).get(WebhookId(webhook_id)))


@router.patch("/{webhook_id}", responses=problems(404))
def change_webhook(
    webhook_id: str, change: WebhookChange, principal: Administrator, services: Services
) -> Webhook:
    """Change where it leads, what it hears of, or whether it is enabled."""
    values = change.values()
    if change.url is not None:
        values["url"] = _checked(services, change.url)
    with services.database.write() as session:
        webhooks = WebhookRepository(session, principal.tenant_id)
        return Webhook.of(webhooks.change(WebhookId(webhook_id), **values))


@router.delete("/{webhook_id}", status_code=204, responses=problems(404))
def delete_webhook(webhook_id: str, principal: Administrator, services: Services) -> None:
    """Delete it with its log; what was on its way is not sent any more."""
    with services.database.write() as session:
        WebhookRepository(session, principal.tenant_id).delete(WebhookId(webhook_id))


@router.post("/{webhook_id}/rotate", responses=problems(404, 409))
def rotate_webhook_secret(
    webhook_id: str, principal: Administrator, services: Services, idempotency_key: IdempotencyKey = None
) -> IssuedWebhook:
    """Sign with a new secret. For 24 hours the old one signs too, so that none is refused meanwhile."""
    secret, old_until = new_secret(), utc_now() + timedelta(hours=OLD_SECRET_HOURS)
    with services.database.write() as session:
        webhooks = WebhookRepository(session, principal.tenant_id)

        def make() -> tuple[str, IssuedWebhook]:
            row = webhooks.replace_secret(WebhookId(webhook_id), secret, old_until=old_until)
            return row.id, IssuedWebhook.issued(row, secret)

        return make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("rotate_webhook_secret", webhook_id),
            make=make,
            load=lambda identifier: IssuedWebhook.issued(webhooks.get(WebhookId(identifier)), None),
        ).resource


@router.post("/{webhook_id}/test", status_code=202, name="test_webhook", responses=problems(404, 409))
def send_test(
    webhook_id: str, principal: Administrator, services: Services, idempotency_key: IdempotencyKey = None
) -> Delivery:
    """Send it an event `webhook.test`, once. Look at the delivery to see what came of it."""

    def send(deliveries: DeliveryRepository) -> models.WebhookDelivery:
        return deliveries.create(WebhookId(webhook_id), TEST_EVENT, {"webhook_id": webhook_id})

    return _send(services, principal.tenant_id, webhook_id, idempotency_key, "test_webhook", send)


@router.get("/{webhook_id}/deliveries", responses=problems(404))
def list_deliveries(
    webhook_id: str, page: NewestFirst, principal: Administrator, services: Services
) -> ListOf[Delivery]:
    """What was sent to it or will be, newest first, with every attempt."""
    with services.database.read() as session:
        identifier = WebhookId(WebhookRepository(session, principal.tenant_id).get(WebhookId(webhook_id)).id)
        rows = DeliveryRepository(session, principal.tenant_id).list_page(identifier, page)
        items = _show(session, principal.tenant_id, rows.items)
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/{webhook_id}/deliveries/{delivery_id}", responses=problems(404))
def get_delivery(webhook_id: str, delivery_id: str, principal: Administrator, services: Services) -> Delivery:
    """One delivery."""
    with services.database.read() as session:
        row = DeliveryRepository(session, principal.tenant_id).get(
            WebhookId(webhook_id), DeliveryId(delivery_id)
        )
        return _show(session, principal.tenant_id, [row])[0]


@router.post(
    "/{webhook_id}/deliveries/{delivery_id}/redeliver", status_code=202, responses=problems(404, 409)
)
def redeliver(
    webhook_id: str,
    delivery_id: str,
    principal: Administrator,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> Delivery:
    """Send a delivery once more, now, under the same id, whether it was delivered, given up or waits."""

    def send(deliveries: DeliveryRepository) -> models.WebhookDelivery:
        return deliveries.redeliver(WebhookId(webhook_id), DeliveryId(delivery_id))

    return _send(services, principal.tenant_id, webhook_id, idempotency_key, f"redeliver {delivery_id}", send)


# ---- parts -----------------------------------------------------------------------------------


def _checked(services: ApiServices, url: str) -> str:
    """The URL, unless it leads inside. Deliveries look again: a name may lead elsewhere by then."""
    policy = AddressPolicy.of(services.settings.webhooks)
    parsed = policy.parse(url)
    with contextlib.suppress(UnknownHost):  # it may have an address once there is something to deliver
        policy.addresses(parsed)
    return str(parsed)


def _send(
    services: ApiServices,
    tenant_id: TenantId,
    webhook_id: str,
    idempotency_key: str | None,
    request: str,
    send: Callable[[DeliveryRepository], models.WebhookDelivery],
) -> Delivery:
    with services.database.write() as session:
        deliveries = DeliveryRepository(session, tenant_id)

        def make() -> tuple[str, models.WebhookDelivery]:
            webhook = WebhookRepository(session, tenant_id).get(WebhookId(webhook_id))
            if not webhook.enabled:
                raise Conflict(
                    f"Webhook {webhook.id} is disabled. {webhook.disabled_reason or ''}".strip(),
                    remedy="Enable it first: PATCH it with `enabled` true.",
                    webhook_id=webhook.id,
                )
            row = send(deliveries)
            return row.id, row

        made = make_once(
            session,
            tenant_id,
            idempotency_key,
            request_hash(request, webhook_id),
            make=make,
            load=lambda identifier: deliveries.get(WebhookId(webhook_id), DeliveryId(identifier)),
        )
        return _show(session, tenant_id, [made.resource])[0]


def _show(session: Session, tenant_id: TenantId, rows: Sequence[models.WebhookDelivery]) -> list[Delivery]:
    jobs = Listings(session, tenant_id).jobs([JobId(row.job_id) for row in rows])
    return [Delivery.of(row, jobs[JobId(row.job_id)]) for row in rows]
