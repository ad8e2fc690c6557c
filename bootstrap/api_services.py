"""What the API process and the command line need: no model is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from bootstrap.job_kinds import finish_job
from core.settings import Settings
from storage.blobs import BlobStore, LocalBlobStore
from storage.database import Database
from storage.events import EventBus
from tenancy.rate_limits import RateLimiter


@dataclass(frozen=True, slots=True)
class ApiServices:
    settings: Settings
    database: Database
    blobs: BlobStore
    events: EventBus
    limiter: RateLimiter

    def close(self) -> None:
        self.limiter.close()
        self.events.close()
        self.database.dispose()


def build_api_services(settings: Settings) -> ApiServices:
    """Connected services; nothing is started and no table is made."""
    events = EventBus(settings.resolved_redis_url, ttl_seconds=settings.worker.event_ttl_seconds)
    return ApiServices(
        settings=settings,
        database=Database(
            settings.resolved_database_url, on_commit=events.wake_relay, on_job_ended=finish_job
        ),
        blobs=LocalBlobStore(settings.blob_dir, min_free_bytes=settings.upload.min_free_disk_bytes),
        events=events,
        limiter=RateLimiter(settings.resolved_redis_url, settings.limits),
    )
