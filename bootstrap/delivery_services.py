"""What the worker that delivers webhooks needs: no model is loaded, so that it costs little memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bootstrap.api_services import ApiServices, build_api_services
from core.settings import Settings
from storage.database import Database
from storage.events import EventBus
from storage.webhooks import WEBHOOK_KIND
from tenancy.webhooks.addresses import AddressPolicy
from tenancy.webhooks.pipeline import WebhookPipeline
from tenancy.webhooks.sender import WebhookSender


@dataclass(frozen=True, slots=True)
class DeliveryServices:
    """`handlers` runs jobs, by kind."""

    settings: Settings
    database: Database
    events: EventBus
    handlers: Mapping[str, WebhookPipeline]
    shared: ApiServices

    def close(self) -> None:
        self.shared.close()


def build_delivery_services(settings: Settings) -> DeliveryServices:
    shared = build_api_services(settings)
    return DeliveryServices(
        settings=settings,
        database=shared.database,
        events=shared.events,
        handlers={WEBHOOK_KIND: build_webhook_pipeline(settings, shared.database)},
        shared=shared,
    )


def build_webhook_pipeline(settings: Settings, database: Database) -> WebhookPipeline:
    webhooks = settings.webhooks
    sender = WebhookSender(AddressPolicy.of(webhooks), timeout_seconds=webhooks.timeout_seconds)
    return WebhookPipeline(database, sender, webhooks)
