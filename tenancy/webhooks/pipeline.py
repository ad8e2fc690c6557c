"""Delivers one event to one webhook, as a job: an attempt a run, until it succeeds or patience ends."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog

from core.clock import Clock, utc_now
from core.errors import DeliveryFailed
from core.ids import DeliveryId, JobId, TenantId, WebhookId
from core.settings import WebhookSettings
from storage.database import Database
from storage.job_run import JobRun, RunOutcome
from storage.models import Webhook, WebhookDelivery
from storage.webhooks import TEST_EVENT, DeliveryRepository, WebhookRepository
from tenancy.webhooks.patience import held_until, next_attempt_at
from tenancy.webhooks.places import Places
from tenancy.webhooks.sender import Attempt
from tenancy.webhooks.signature import signature_headers

log = structlog.get_logger()

_SPREAD_SECONDS = 30.0
_JITTER = (0.8, 1.2)

Uniform = Callable[[float, float], float]


class Sender(Protocol):
    def post(self, url: str, body: bytes, headers: dict[str, str], *, at: datetime) -> Attempt: ...


class WebhookPipeline:
    """Runs jobs of kind `webhook`. A receiver's refusals are not attempts of the job, only deaths are."""

    def __init__(
        self,
        database: Database,
        sender: Sender,
        settings: WebhookSettings,
        *,
        clock: Clock = utc_now,
        uniform: Uniform = random.uniform,
    ) -> None:
        self._database = database
        self._sender = sender
        self._patience = timedelta(hours=settings.retry_hours)
        self._disable_after = timedelta(days=settings.disable_after_days)
        self._clock = clock
        self._uniform = uniform
        self._places = Places(max(settings.threads // 2, 1))

    def run(self, run: JobRun) -> RunOutcome:
        """Try once.

        Raises:
            DeliveryFailed: it was tried for long enough, or its webhook is disabled.
        """
        found = self._load(run.job.tenant_id, run.job.id)
        if found is None:
            return self._forget(run)
        delivery, webhook = found
        if not webhook.enabled:
            raise _failed(delivery, f"Webhook {webhook.id} is disabled.")
        is_test = delivery.event_type == TEST_EVENT
        if webhook.held_until is not None and self._clock() < webhook.held_until and not is_test:
            return webhook.held_until + timedelta(seconds=self._uniform(0.0, _SPREAD_SECONDS))
        with self._places.take(webhook.id) as is_free:
            if not is_free:
                return self._clock() + timedelta(seconds=self._uniform(1.0, _SPREAD_SECONDS))
            attempt = self._try(webhook, delivery)
        return self._record(run, webhook, delivery, attempt)

    def _load(self, tenant_id: TenantId, job_id: JobId) -> tuple[WebhookDelivery, Webhook] | None:
        with self._database.read() as session:
            delivery = DeliveryRepository(session, tenant_id).find_by_job(job_id)
            if delivery is None:
                return None
            webhook = WebhookRepository(session, tenant_id).get(WebhookId(delivery.webhook_id))
        return delivery, webhook

    def _forget(self, run: JobRun) -> RunOutcome:
        """The webhook was deleted, and its deliveries with it."""
        with self._database.write() as session:
            run.succeed(session)
        return "done"

    def _try(self, webhook: Webhook, delivery: WebhookDelivery) -> Attempt:
        now = self._clock()
        body = body_of(delivery)
        headers = {"Content-Type": "application/json", "User-Agent": "Longleaf-Webhooks"}
        secrets = [webhook.secret]
        if webhook.old_secret and webhook.old_secret_until and now < webhook.old_secret_until:
            secrets.append(webhook.old_secret)
        signed = signature_headers(secrets, message_id=delivery.id, at=now, body=body)
        return self._sender.post(webhook.url, body, headers | signed, at=now)

    def _record(
        self, run: JobRun, webhook: Webhook, delivery: WebhookDelivery, attempt: Attempt
    ) -> RunOutcome:
        log.info("webhook.tried", delivery_id=delivery.id, status=attempt.status, seconds=attempt.seconds)
        due = None if attempt.succeeded or attempt.receiver_is_gone else self._next(delivery)
        with self._database.write() as session:
            run.confirm(session)
            DeliveryRepository(session, run.job.tenant_id).record(
                DeliveryId(delivery.id), _logged(attempt), next_attempt_at=due
            )
            webhooks = WebhookRepository(session, run.job.tenant_id)
            if attempt.succeeded:
                webhooks.note_success(WebhookId(webhook.id))
                run.succeed(session)
                return "done"
            if delivery.event_type != TEST_EVENT:
                self._note_failure(webhooks, WebhookId(webhook.id), attempt)
        if due is None:
            raise _failed(delivery, attempt.reason)
        return due

    def _next(self, delivery: WebhookDelivery) -> datetime | None:
        if delivery.event_type == TEST_EVENT:
            return None  # who tests wants to hear now
        return next_attempt_at(
            delivery.num_tries + 1,
            began_at=delivery.began_at,
            now=self._clock(),
            patience=self._patience,
            jitter=self._uniform(*_JITTER),
        )

    def _note_failure(self, webhooks: WebhookRepository, webhook_id: WebhookId, attempt: Attempt) -> None:
        now = self._clock()
        webhook = webhooks.get(webhook_id)
        since = webhook.failing_since or now
        webhooks.note_failure(webhook_id, failing_since=since, held_until=held_until(since, now=now))
        if attempt.receiver_is_gone:
            webhooks.disable(webhook_id, "The receiver answered 410: it is gone for good.")
        elif now - since >= self._disable_after:
            webhooks.disable(
                webhook_id,
                f"Nothing was delivered since {since:%Y-%m-%d %H:%M}Z. The last attempt: {attempt.reason}",
            )


def body_of(delivery: WebhookDelivery) -> bytes:
    """The same bytes at every attempt."""
    document = {
        "type": delivery.event_type,
        "timestamp": delivery.created_at.isoformat(),
        "data": delivery.payload,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _logged(attempt: Attempt) -> dict[str, Any]:
    return {
        "at": attempt.at.isoformat(),
        "seconds": attempt.seconds,
        "status": attempt.status,
        "response": attempt.response,
        "error": None if attempt.succeeded else attempt.reason,
    }


def _failed(delivery: WebhookDelivery, why: str) -> DeliveryFailed:
    return DeliveryFailed(
        f"Delivery {delivery.id} to webhook {delivery.webhook_id} was given up: {why}",
        remedy=f"Mend the receiver, then POST /v1/webhooks/{delivery.webhook_id}/deliveries/{delivery.id}/redeliver.",
        webhook_id=delivery.webhook_id,
        delivery_id=delivery.id,
    )
