"""What jobs take as a rule and at most, for the holds that budgets put on them. Loads no model."""

from __future__ import annotations

from decimal import Decimal

from sqlalchemy.orm import Session

from accounting.holds import Estimate
from accounting.money import cost_of
from accounting.price_table import price_at
from accounting.stages import Stage
from bootstrap.quoting import forecast_question
from core.clock import utc_now
from core.ids import CollectionId, JobId, TenantId
from core.settings import Settings
from generation.questions import QuestionParameters
from inference.registry import find_model
from ingest.uploads import INGEST_KIND
from storage.answers import ANSWER_KIND, AnswerRepository
from storage.models import Job
from storage.uploads import UploadedFileRepository

_TYPICAL_BYTES_PER_TOKEN = 20  # of files as they come: a PDF is little text in many bytes
_LEAST_BYTES_PER_TOKEN = 3  # of plain text in either language, with what chunks overlap


def estimate_question(
    settings: Settings,
    session: Session,
    tenant_id: TenantId,
    collection_id: CollectionId,
    question: str,
    parameters: QuestionParameters,
) -> Estimate:
    """What the question's quote expects, and its most."""
    lines = forecast_question(
        session,
        tenant_id,
        settings,
        collection_id=collection_id,
        question=question,
        parameters=parameters,
    )
    return Estimate(
        tokens=sum(line.tokens.expected for line in lines),
        most_tokens=sum(line.tokens.high for line in lines),
        cost=sum((line.cost("expected") for line in lines), Decimal(0)),
        most_cost=sum((line.cost("high") for line in lines), Decimal(0)),
    )


def estimate_upload(settings: Settings, session: Session, tenant_id: TenantId, num_bytes: int) -> Estimate:
    """What embedding so many bytes of files takes."""
    model = find_model(settings.embedder).name
    price = price_at(session, model, Stage.EMBED, utc_now(), tenant_id=tenant_id).price_per_million
    typical, most = num_bytes // _TYPICAL_BYTES_PER_TOKEN, num_bytes // _LEAST_BYTES_PER_TOKEN
    return Estimate(typical, most, cost_of(typical, price), cost_of(most, price))


def estimate_again(settings: Settings, session: Session, job: Job) -> Estimate:
    """What a job takes that is tried again: a question as a whole, an upload by the files that are open again.

    Of other kinds nothing is expected as a whole: they hold, part by part, what they are about to take.
    """
    tenant_id, job_id = TenantId(job.tenant_id), JobId(job.id)
    if job.kind == ANSWER_KIND:
        answer = AnswerRepository(session, tenant_id).get_by_job(job_id)
        return estimate_question(
            settings,
            session,
            tenant_id,
            CollectionId(answer.collection_id),
            answer.question,
            QuestionParameters.of_json(answer.parameters),
        )
    if job.kind == INGEST_KIND:
        files = UploadedFileRepository(session, tenant_id).list_open(job_id)
        return estimate_upload(settings, session, tenant_id, sum(file.num_bytes for file in files))
    return Estimate()
