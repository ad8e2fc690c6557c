"""Cancelling a job, and telling those who wait for it."""

from __future__ import annotations

from api.job_events import FINISHED
from bootstrap.api_services import ApiServices
from core.ids import JobId, TenantId
from storage.jobs import JobRepository
from storage.models import Job


def cancel_job(services: ApiServices, tenant_id: TenantId, job_id: JobId) -> Job:
    """The job once its cancelling is requested; `cancelled` already where no worker held it.

    Raises:
        NotFound: no such job of the tenant.
        Conflict: it has ended otherwise.
    """
    with services.database.write() as session:
        job = JobRepository(session, tenant_id).request_cancel(job_id)
    if job.status == "cancelled":
        # No worker holds it, so nobody else would tell those who wait.
        services.events.publish(job_id, FINISHED, {"status": job.status})
    return job
