from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from api.schemas.base import Body, Failure, FreeText, View, failure
from api.schemas.jobs import JobStatus
from storage import models
from storage.webhooks import EVERY_EVENT, EventType

EventTypes = Annotated[list[EventType | Literal["*"]], Field(min_length=1, max_length=20)]
Url = Annotated[FreeText, Field(max_length=2000)]
Description = Annotated[FreeText, Field(max_length=500)]


class NewWebhook(Body):
    url: Url = Field(
        description="Where to POST. http or https, without user and password; it must lead to public addresses."
    )
    event_types: EventTypes = Field(
        [EVERY_EVENT], description="Of which events to tell; `*`: of all, those of later versions too."
    )
    description: Description = Field("", description="For people.")


class WebhookChange(Body):
    """What of a webhook can be changed; what is left out stays."""

    url: Url | None = Field(None, description="Where to POST from now on.")
    event_types: EventTypes | None = Field(None, description="Of which events to tell from now on.")
    description: Description | None = Field(None, description="For people.")
    enabled: bool | None = Field(
        None, strict=True, description="`false` stops it; `true` starts it again and forgets old failures."
    )

    def values(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class Webhook(View):
    """Where the tenant is told of events; its secret is never shown again."""

    id: str = Field(description="`wh_…`")
    url: str = Field(description="Where events are POSTed.")
    event_types: list[str] = Field(description="Of which it is told; `*`: of all.")
    description: str = Field(description="For people.")
    enabled: bool = Field(description="Whether events are sent to it.")
    disabled_reason: str | None = Field(description="Why Longleaf disabled it; null: it did not.")
    failing_since: datetime | None = Field(
        description="Since when nothing was delivered; null: the last attempt went well, or there was none."
    )
    created_at: datetime = Field(description="When it was made.")

    @classmethod
    def of(cls, row: models.Webhook) -> Webhook:
        return cls.model_validate(_shown(row))


class IssuedWebhook(Webhook):
    """A webhook with its new secret, this once."""

    secret: str | None = Field(
        description="Check signatures with it: docs/webhooks.md. Null where an `Idempotency-Key` was "
        "repeated: it was shown to the first request only."
    )

    @classmethod
    def issued(cls, row: models.Webhook, secret: str | None) -> IssuedWebhook:
        return cls.model_validate(_shown(row) | {"secret": secret})


class DeliveryAttempt(View):
    at: datetime = Field(description="When it began.")
    seconds: float = Field(description="How long it took.")
    status: int | None = Field(description="The receiver's HTTP status; null: there was no answer.")
    response: str = Field(description="The first characters of what it answered.")
    error: str | None = Field(description="Why it did not succeed; null: it did.")


class Delivery(View):
    """An event on its way to a webhook. Its id is the header `webhook-id`, the same at every attempt."""

    id: str = Field(description="`dlv_…`")
    webhook_id: str = Field(description="Where it goes.")
    job_id: str = Field(description="The job that sends it; cancel it to stop trying.")
    event_type: str = Field(description="What it tells of.")
    payload: dict[str, Any] = Field(description="`data` of what is sent.")
    status: JobStatus = Field(
        description="`queued`: to be tried (again) at `next_attempt_at`. `succeeded`: delivered. `failed`: given up."
    )
    attempts: list[DeliveryAttempt] = Field(description="The log, oldest first; the last 50.")
    next_attempt_at: datetime | None = Field(description="When it is tried next; null: no more.")
    error: Failure | None = Field(description="Why it was given up; null: it was not.")
    created_at: datetime = Field(description="When the event happened.")
    finished_at: datetime | None = Field(description="When it was delivered or given up.")

    @classmethod
    def of(cls, row: models.WebhookDelivery, job: models.Job) -> Delivery:
        return cls(
            id=row.id,
            webhook_id=row.webhook_id,
            job_id=row.job_id,
            event_type=row.event_type,
            payload=row.payload,
            status=job.status,  # type: ignore[arg-type]  # the column holds nothing else
            attempts=[DeliveryAttempt.model_validate(attempt) for attempt in row.attempts],
            next_attempt_at=row.next_attempt_at,
            error=failure(job.error_code, job.error_detail),
            created_at=row.created_at,
            finished_at=job.finished_at,
        )


def _shown(row: models.Webhook) -> dict[str, Any]:
    return {
        "id": row.id,
        "url": row.url,
        "event_types": row.event_types,
        "description": row.description,
        "enabled": row.enabled,
        "disabled_reason": row.disabled_reason,
        "failing_since": row.failing_since,
        "created_at": row.created_at,
    }
