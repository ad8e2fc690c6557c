from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from api import streaming
from api.answer_views import AnswerReader, show_answers
from api.authentication import Asker
from api.collection_filter import find_wanted
from api.dependencies import JobEvents, NewestFirst, Services
from api.problems import request_id_of
from api.routes.documented import problems
from api.schemas.answers import Answer
from api.schemas.base import ListOf
from core.ids import AnswerId, JobId
from storage.answers import AnswerRepository

router = APIRouter(prefix="/v1/answers", tags=["answers"], responses=problems(401, 403, 422))


@router.get("", responses=problems(404))
def list_answers(
    page: NewestFirst,
    principal: Asker,
    services: Services,
    collection_id: Annotated[
        str | None, Query(max_length=100, description="Only those about this collection.")
    ] = None,
) -> ListOf[Answer]:
    """The tenant's answers, newest first."""
    with services.database.read() as session:
        wanted = find_wanted(session, principal.tenant_id, collection_id)
        rows = AnswerRepository(session, principal.tenant_id).list_page(page, collection_id=wanted)
        items = show_answers(session, principal.tenant_id, rows.items)
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/{answer_id}", responses=problems(404))
def get_answer(answer_id: str, principal: Asker, services: Services) -> Answer:
    """One answer, finished or not: `status` says."""
    return AnswerReader(services.database, principal.tenant_id).get(AnswerId(answer_id))


@router.get(
    "/{answer_id}/events", response_class=StreamingResponse, responses=streaming.EVENTS | problems(404)
)
async def follow_answer(
    request: Request,
    answer_id: str,
    principal: Asker,
    services: Services,
    events: JobEvents,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The `id` of the last event you have.")
    ] = None,
) -> StreamingResponse:
    """An answer's events, from the beginning or after `Last-Event-ID`.

    Events are kept for an hour; of an older answer only the last one, `done` or `error`, is given.
    """
    after = streaming.parse_last_event_id(last_event_id)
    answers = AnswerReader(services.database, principal.tenant_id)
    answer = await run_in_threadpool(answers.get, AnswerId(answer_id))
    followed = streaming.FollowedAnswer(
        answer_id=AnswerId(answer.id),
        job_id=JobId(answer.job_id),
        answers=answers,
        events=events,
        instance=request.url.path,
        request_id=request_id_of(request),
    )
    return streaming.stream_answer(followed, after=after, announce=last_event_id is None)
