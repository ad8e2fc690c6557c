from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from api.authentication import Asker
from api.dependencies import Services
from api.routes.documented import problems
from api.schemas.jobs import Job
from api.schemas.traces import Trace
from api.trace_page import render_trace
from core.html.page import PAGE_HEADERS
from core.ids import AnswerId, TenantId
from generation.tracing.attention_requests import request_attention
from storage import models
from storage.answer_traces import AnswerTraceRepository
from storage.answers import AnswerRepository

router = APIRouter(prefix="/v1/answers", tags=["traces"], responses=problems(401, 403, 404, 422))

_PAGE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The trace, or with `format=html` one file that needs nothing else.",
        "content": {"text/html": {"schema": {"type": "string"}}},
    }
}


@router.get("/{answer_id}/trace", response_model=Trace, responses=_PAGE)
def get_trace(
    answer_id: str,
    principal: Asker,
    services: Services,
    format: Annotated[
        Literal["json", "html"], Query(description="`html`: a page with the heat map, which prints well.")
    ] = "json",
) -> Trace | Response:
    """How an answer came to be: what the model read, what was cut, what it wrote and how sure it was.

    Every answer has a trace in figures. One whose question had `trace` true also has the texts and
    the tokens, each with its place, log-probability, alternatives and entropy.
    """
    with services.database.read() as session:
        answer, row = _rows(session, principal.tenant_id, AnswerId(answer_id))
        trace = Trace.of(row, answer)
    if format == "json":
        return trace
    return HTMLResponse(render_trace(trace, answer), headers=PAGE_HEADERS)


@router.post("/{answer_id}/trace/redact")
def redact_trace(answer_id: str, principal: Asker, services: Services) -> Trace:
    """Take texts and tokens out of a trace for good, and leave its numbers."""
    with services.database.write() as session:
        answer, row = _rows(session, principal.tenant_id, AnswerId(answer_id))
        AnswerTraceRepository(session, principal.tenant_id).redact(row)
        return Trace.of(row, answer)


@router.post("/{answer_id}/trace/attention", status_code=202, responses=problems(409))
def read_attention(answer_id: str, principal: Asker, services: Services, response: Response) -> Job:
    """Have the answer read again for where the model looked; the trace then has `attention`.

    A job in the background, for models that a worker can load beside the engine. Needs a full trace.
    """
    with services.database.write() as session:
        job = request_attention(
            session,
            principal,
            AnswerId(answer_id),
            max_attempts=services.settings.worker.max_attempts,
        )
        shown = Job.of(job)
    response.headers["Location"] = f"/v1/jobs/{shown.id}"
    return shown


def _rows(
    session: Session, tenant_id: TenantId, answer_id: AnswerId
) -> tuple[models.Answer, models.AnswerTrace]:
    answer = AnswerRepository(session, tenant_id).get(answer_id)
    return answer, AnswerTraceRepository(session, tenant_id).get(answer_id)
