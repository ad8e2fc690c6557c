from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from api.authentication import Asker
from api.budget_headers import warning_headers
from api.collection_filter import OfCollection, find_wanted
from api.dependencies import FirstPosition, IdempotencyKey, Limit, NewestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.evaluations import Comparison, Evaluation, EvaluationItem, NewEvaluation
from core.html.page import PAGE_HEADERS, ReportLanguage
from core.ids import CollectionId, EvaluationId, JobId, TenantId
from evaluation.comparison import compare
from evaluation.html_report import ReportHeader, render_comparison, render_report
from evaluation.registration import register_evaluation
from evaluation.report import summarize
from generation.questions import QuestionParameters
from storage import models
from storage.evaluations import EvaluationRepository
from storage.jobs import JobRepository
from storage.listings import Listings
from storage.models import EvaluationItem as ItemRow

router = APIRouter(prefix="/v1/evaluations", tags=["evaluations"], responses=problems(401, 403, 422))

_HTML: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One HTML file that needs nothing else.",
        "content": {"text/html": {"schema": {"type": "string"}}},
    }
}

InLanguage = Annotated[ReportLanguage, Query(description="The language of the report's own words.")]


@router.post("", status_code=202, responses=problems(404, 409, 413, 429))
def create_evaluation(
    body: NewEvaluation,
    principal: Asker,
    services: Services,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Evaluation:
    """Ask a collection questions whose answers are known, and score what comes back.

    Every question is asked like any other and billed like any other. Follow the evaluation at
    `Location`, or its job; cancelling the job stops it, and what was scored is reported.
    """
    questions, name = body.asked()
    with services.database.write() as session:

        def make() -> tuple[str, models.Evaluation]:
            row = register_evaluation(
                session,
                principal,
                CollectionId(body.collection_id),
                questions,
                name=name,
                parameters=body.question_parameters(),
                max_attempts=services.settings.worker.max_attempts,
            )
            return row.id, row

        made = make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("create_evaluation", body.model_dump(mode="json")),
            make=make,
            load=lambda identifier: _get(session, principal.tenant_id, identifier),
        )
        shown = _show(session, principal.tenant_id, [made.resource])[0]
        response.headers.update(warning_headers(session))
    response.headers["Location"] = f"/v1/evaluations/{shown.id}"
    return shown


@router.get("", responses=problems(404))
def list_evaluations(
    page: NewestFirst,
    principal: Asker,
    services: Services,
    collection_id: OfCollection = None,
) -> ListOf[Evaluation]:
    """The tenant's evaluations, newest first."""
    with services.database.read() as session:
        wanted = find_wanted(session, principal.tenant_id, collection_id)
        rows = EvaluationRepository(session, principal.tenant_id).list_page(page, collection_id=wanted)
        items = _show(session, principal.tenant_id, rows.items)
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/{evaluation_id}", responses=problems(404))
def get_evaluation(evaluation_id: str, principal: Asker, services: Services) -> Evaluation:
    """One evaluation, with its report once it has ended."""
    with services.database.read() as session:
        row = _get(session, principal.tenant_id, evaluation_id)
        return _show(session, principal.tenant_id, [row])[0]


@router.delete("/{evaluation_id}", status_code=204, responses=problems(404, 409))
def delete_evaluation(evaluation_id: str, principal: Asker, services: Services) -> None:
    """Delete an evaluation that has ended, with its report. Its answers can still be read one by one."""
    with services.database.write() as session:
        EvaluationRepository(session, principal.tenant_id).delete(EvaluationId(evaluation_id))


@router.get("/{evaluation_id}/items", responses=problems(404))
def list_evaluation_items(
    evaluation_id: str,
    principal: Asker,
    services: Services,
    first: FirstPosition,
    limit: Limit = 50,
) -> ListOf[EvaluationItem]:
    """An evaluation's questions in order, each with its answer and its metrics."""
    with services.database.read() as session:
        row = _get(session, principal.tenant_id, evaluation_id)
        evaluations = EvaluationRepository(session, principal.tenant_id)
        rows = evaluations.list_parts(EvaluationId(row.id), first=first, limit=limit + 1)
    items = [EvaluationItem.of(item) for item in rows[:limit]]
    return ListOf(items=items, next_cursor=str(rows[limit].position) if len(rows) > limit else None)


@router.get("/{evaluation_id}/report.html", response_class=HTMLResponse, responses=_HTML | problems(404))
def get_evaluation_report(
    evaluation_id: str, principal: Asker, services: Services, language: InLanguage = "en"
) -> HTMLResponse:
    """The report as a page: plots, means, and every question. Of what is scored so far."""
    with services.database.read() as session:
        row = _get(session, principal.tenant_id, evaluation_id)
        items = _items(session, principal.tenant_id, row)
        header = _header(session, principal.tenant_id, row)
    report = row.report or summarize(items, num_questions=row.num_questions)
    return HTMLResponse(render_report(header, report, items, language=language), headers=PAGE_HEADERS)


@router.get("/{evaluation_id}/comparisons/{other_id}", responses=problems(404))
def compare_evaluations(
    evaluation_id: str, other_id: str, principal: Asker, services: Services
) -> Comparison:
    """How the other evaluation differs from this one on the questions that both have."""
    with services.database.read() as session:
        first, second, comparison = _compare(session, principal.tenant_id, evaluation_id, other_id)
        shown = _show(session, principal.tenant_id, [first, second])
    return Comparison.model_validate(comparison | {"first": shown[0], "second": shown[1]})


@router.get(
    "/{evaluation_id}/comparisons/{other_id}/report.html",
    response_class=HTMLResponse,
    responses=_HTML | problems(404),
)
def get_comparison_report(
    evaluation_id: str, other_id: str, principal: Asker, services: Services, language: InLanguage = "en"
) -> HTMLResponse:
    """The comparison as a page."""
    with services.database.read() as session:
        first, second, comparison = _compare(session, principal.tenant_id, evaluation_id, other_id)
        before, after = (_header(session, principal.tenant_id, row) for row in (first, second))
    return HTMLResponse(render_comparison(before, after, comparison, language=language), headers=PAGE_HEADERS)


# ---- parts -----------------------------------------------------------------------------------


def _get(session: Session, tenant_id: TenantId, evaluation_id: str) -> models.Evaluation:
    return EvaluationRepository(session, tenant_id).get(EvaluationId(evaluation_id))


def _items(session: Session, tenant_id: TenantId, row: models.Evaluation) -> list[ItemRow]:
    return list(EvaluationRepository(session, tenant_id).all_parts(EvaluationId(row.id)))


def _show(session: Session, tenant_id: TenantId, rows: Sequence[models.Evaluation]) -> list[Evaluation]:
    jobs = Listings(session, tenant_id).jobs([JobId(row.job_id) for row in rows])
    return [Evaluation.of(row, jobs[JobId(row.job_id)]) for row in rows]


def _compare(
    session: Session, tenant_id: TenantId, first_id: str, second_id: str
) -> tuple[models.Evaluation, models.Evaluation, dict[str, Any]]:
    first, second = _get(session, tenant_id, first_id), _get(session, tenant_id, second_id)
    return first, second, compare(_items(session, tenant_id, first), _items(session, tenant_id, second))


def _header(session: Session, tenant_id: TenantId, row: models.Evaluation) -> ReportHeader:
    given, defaults = QuestionParameters.of_json(row.parameters).as_json(), QuestionParameters().as_json()
    return ReportHeader(
        id=row.id,
        name=row.name,
        collection=EvaluationRepository(session, tenant_id).collection_name(row),
        status=JobRepository(session, tenant_id).get(JobId(row.job_id)).status,
        created_at=row.created_at,
        parameters={name: value for name, value in given.items() if value != defaults[name]},
    )
