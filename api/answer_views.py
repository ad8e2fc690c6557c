"""Answers as they are shown, read from SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from api.schemas.answers import Answer
from core.ids import AnswerId, DocumentId, JobId, TenantId
from storage import models
from storage.answers import AnswerRepository
from storage.database import Database
from storage.job_states import FINAL_STATUSES
from storage.jobs import JobRepository
from storage.listings import Listings


class AnswerReader:
    """One tenant's answers, each read in a transaction of its own."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self._database = database
        self._tenant_id = tenant_id

    def get(self, answer_id: AnswerId) -> Answer:
        """Raises `NotFound` for an unknown or foreign id."""
        with self._database.read() as session:
            row = AnswerRepository(session, self._tenant_id).get(answer_id)
            return show_answers(session, self._tenant_id, [row])[0]

    def has_ended(self, job_id: JobId) -> bool:
        with self._database.read() as session:
            return JobRepository(session, self._tenant_id).get(job_id).status in FINAL_STATUSES


def show_answers(session: Session, tenant_id: TenantId, rows: Sequence[models.Answer]) -> list[Answer]:
    """The answers in the order given, with their jobs' status and withdrawn citations marked."""
    listings = Listings(session, tenant_id)
    jobs = listings.jobs([JobId(row.job_id) for row in rows])
    cited = {DocumentId(citation["document_id"]) for row in rows for citation in row.citations}
    withdrawn = listings.deleted_documents(sorted(cited)) if cited else frozenset()
    return [Answer.of(row, jobs[JobId(row.job_id)], withdrawn=withdrawn) for row in rows]
