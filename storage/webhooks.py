"""Webhooks of tenants, and the log of what was delivered to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import Conflict, NotFound
from core.ids import DeliveryId, JobId, TenantId, WebhookId, new_id
from storage.jobs import JobRepository
from storage.models import Job, Webhook, WebhookDelivery
from storage.paging import Page, PageRequest, paginate

WEBHOOK_KIND = "webhook"

EventType = Literal[
    "job.finished",
    "summary.finished",
    "batch.finished",
    "schedule.missed",
    "budget.warning",
    "budget.exhausted",
    "report.ready",
]
EVENT_TYPES: Sequence[EventType] = get_args(EventType)
EVERY_EVENT: Literal["*"] = "*"
TEST_EVENT = "webhook.test"

_MAX_DEATHS = 5
_MAX_LOGGED_ATTEMPTS = 50


def notify(session: Session, tenant_id: TenantId, event_type: EventType, payload: dict[str, Any]) -> int:
    """Tell the tenant's webhooks of an event, if this transaction commits; how many listen.

    Args:
        payload: ids, states and figures; never a document's text.
    """
    listening = WebhookRepository(session, tenant_id).list_listening(event_type)
    deliveries = DeliveryRepository(session, tenant_id)
    for webhook in listening:
        deliveries.create(WebhookId(webhook.id), event_type, payload)
    return len(listening)


def notify_job_finished(session: Session, job: Job) -> None:
    """`job.finished`, for work that a caller asked for; upkeep and deliveries themselves tell nobody."""
    if job.kind == WEBHOOK_KIND or job.key_id is None:
        return
    notify(session, TenantId(job.tenant_id), "job.finished", _describe(job))


def close_delivery(session: Session, job: Job) -> None:
    """A delivery's status is its job's; that none is to come is all there is to say."""
    session.execute(
        update(WebhookDelivery)
        .where(WebhookDelivery.job_id == job.id, WebhookDelivery.tenant_id == job.tenant_id)
        .values(next_attempt_at=None)
    )


def _describe(job: Job) -> dict[str, Any]:
    finished_at = job.finished_at or utc_now()
    error = {"code": job.error_code, "detail": job.error_detail} if job.error_code else None
    return {
        "job_id": job.id,
        "kind": job.kind,
        "status": job.status,
        "collection_id": job.collection_id,
        "attempt": job.attempt,
        "error": error,
        "created_at": job.created_at.isoformat(),
        "started_at": job.started_at and job.started_at.isoformat(),
        "finished_at": finished_at.isoformat(),
        "seconds": round((finished_at - job.created_at).total_seconds(), 3),
        "links": {"job": f"/v1/jobs/{job.id}"},
    }


class WebhookRepository:
    """Sees only its tenant's webhooks."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def create(self, *, url: str, event_types: Sequence[str], description: str, secret: str) -> Webhook:
        webhook = Webhook(
            id=new_id("wh"),
            tenant_id=self._tenant_id,
            url=url,
            description=description,
            event_types=list(event_types),
            enabled=True,
            secret=secret,
        )
        self._session.add(webhook)
        self._session.flush()
        return webhook

    def get(self, webhook_id: WebhookId) -> Webhook:
        """Raises `NotFound` for an unknown or foreign id."""
        found = self._session.scalar(
            select(Webhook).where(Webhook.id == webhook_id, Webhook.tenant_id == self._tenant_id)
        )
        if found is None:
            raise NotFound(
                f"There is no webhook {webhook_id}.",
                remedy="List yours with GET /v1/webhooks.",
                webhook_id=webhook_id,
            )
        return found

    def list_page(self, page: PageRequest) -> Page[Webhook]:
        query = select(Webhook).where(Webhook.tenant_id == self._tenant_id)
        return paginate(self._session, query, Webhook, page)

    def list_listening(self, event_type: str) -> list[Webhook]:
        """Those that are enabled and want to hear of such events."""
        enabled = self._session.scalars(
            select(Webhook).where(Webhook.tenant_id == self._tenant_id, Webhook.enabled.is_(True))
        )
        return [each for each in enabled if {event_type, EVERY_EVENT} & set(each.event_types)]

    def change(self, webhook_id: WebhookId, **values: Any) -> Webhook:
        """Set `url`, `description`, `event_types` or `enabled`; old failures are forgiven with the first and last."""
        if {"enabled", "url"} & set(values):
            values |= {"failing_since": None, "held_until": None}
        if "enabled" in values:
            values["disabled_reason"] = None
        return self._set(webhook_id, **values)

    def replace_secret(self, webhook_id: WebhookId, secret: str, *, old_until: datetime) -> Webhook:
        """Sign by a new secret, and by the present one too until then."""
        webhook = self.get(webhook_id)
        return self._set(webhook_id, secret=secret, old_secret=webhook.secret, old_secret_until=old_until)

    def delete(self, webhook_id: WebhookId) -> None:
        """With its log. What was on its way is not sent any more."""
        webhook = self.get(webhook_id)
        self._session.execute(
            delete(Webhook).where(Webhook.id == webhook.id, Webhook.tenant_id == self._tenant_id)
        )

    def note_success(self, webhook_id: WebhookId) -> None:
        self._set(webhook_id, failing_since=None, held_until=None)

    def note_failure(self, webhook_id: WebhookId, *, failing_since: datetime, held_until: datetime) -> None:
        self._set(webhook_id, failing_since=failing_since, held_until=held_until)

    def disable(self, webhook_id: WebhookId, reason: str) -> None:
        """For a reason that its tenant is shown."""
        self._set(webhook_id, enabled=False, disabled_reason=reason)

    def _set(self, webhook_id: WebhookId, **values: Any) -> Webhook:
        webhook = self.get(webhook_id)
        for name, value in values.items():
            setattr(webhook, name, value)
        self._session.flush()
        return webhook


class DeliveryRepository:
    """Sees only its tenant's deliveries."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def create(self, webhook_id: WebhookId, event_type: str, payload: dict[str, Any]) -> WebhookDelivery:
        """A delivery with its job."""
        delivery_id = DeliveryId(new_id("dlv"))
        now = utc_now()
        delivery = WebhookDelivery(
            id=delivery_id,
            tenant_id=self._tenant_id,
            webhook_id=webhook_id,
            job_id=self._new_job(delivery_id).id,
            event_type=event_type,
            payload=payload,
            began_at=now,
            next_attempt_at=now,
            created_at=now,
        )
        self._session.add(delivery)
        self._session.flush()
        return delivery

    def get(self, webhook_id: WebhookId, delivery_id: DeliveryId) -> WebhookDelivery:
        """Raises `NotFound` for an unknown or foreign id, or another webhook's."""
        found: WebhookDelivery | None = self._session.scalar(
            self._query().where(WebhookDelivery.id == delivery_id, WebhookDelivery.webhook_id == webhook_id)
        )
        if found is None:
            raise NotFound(
                f"Webhook {webhook_id} has no delivery {delivery_id}.",
                remedy=f"List them with GET /v1/webhooks/{webhook_id}/deliveries.",
                delivery_id=delivery_id,
            )
        return found

    def find_by_job(self, job_id: JobId) -> WebhookDelivery | None:
        found: WebhookDelivery | None = self._session.scalar(
            self._query().where(WebhookDelivery.job_id == job_id)
        )
        return found

    def list_page(self, webhook_id: WebhookId, page: PageRequest) -> Page[WebhookDelivery]:
        query = self._query().where(WebhookDelivery.webhook_id == webhook_id)
        return paginate(self._session, query, WebhookDelivery, page)

    def redeliver(self, webhook_id: WebhookId, delivery_id: DeliveryId) -> WebhookDelivery:
        """Send it once more, now, under the same id, and try it as long as a new one.

        Raises:
            Conflict: it is being sent at this moment.
        """
        delivery = self.get(webhook_id, delivery_id)
        jobs = JobRepository(self._session, self._tenant_id)
        status = jobs.get(JobId(delivery.job_id)).status
        if status == "running":
            raise Conflict(
                f"Delivery {delivery_id} is being sent.",
                remedy="Look at it again in some seconds.",
                delivery_id=delivery_id,
            )
        if status == "queued":
            jobs.request_cancel(JobId(delivery.job_id))
        now = utc_now()
        delivery.job_id = self._new_job(delivery_id).id
        delivery.num_tries, delivery.began_at, delivery.next_attempt_at = 0, now, now
        self._session.flush()
        return delivery

    def record(
        self, delivery_id: DeliveryId, attempt: dict[str, Any], *, next_attempt_at: datetime | None
    ) -> None:
        """Add an attempt to the log, which keeps the latest."""
        delivery = self._session.scalars(self._query().where(WebhookDelivery.id == delivery_id)).one()
        delivery.attempts = [*delivery.attempts, attempt][-_MAX_LOGGED_ATTEMPTS:]
        delivery.num_tries += 1
        delivery.next_attempt_at = next_attempt_at
        self._session.flush()

    def _query(self) -> Any:
        return select(WebhookDelivery).where(WebhookDelivery.tenant_id == self._tenant_id)

    def _new_job(self, delivery_id: DeliveryId) -> Job:
        return JobRepository(self._session, self._tenant_id).create(
            WEBHOOK_KIND,
            queue="delivery",
            payload={"delivery_id": delivery_id},
            collection_id=None,
            key_id=None,
            max_attempts=_MAX_DEATHS,
        )
