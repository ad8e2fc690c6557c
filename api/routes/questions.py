from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from api import streaming
from api.answer_views import AnswerReader
from api.authentication import Asker
from api.dependencies import IdempotencyKey, JobEvents, Services
from api.idempotency import Made, make_once, request_hash
from api.problems import request_id_of, respond
from api.routes.documented import problems
from api.schemas.answers import Answer
from api.schemas.questions import Question
from bootstrap.api_services import ApiServices
from core.ids import AnswerId, CollectionId, JobId
from generation.questions import register_question
from storage import models
from storage.answers import AnswerRepository
from storage.jobs import FINAL_STATUSES
from tenancy.principal import Principal

router = APIRouter(prefix="/v1/collections", tags=["questions"], responses=problems(401, 403, 422))

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or with `stream` its events.",
        "content": {streaming.MEDIA_TYPE: {"schema": {"type": "string"}}},
    },
    202: {"model": Answer, "description": "Not finished within `wait_seconds`: ask again at `Location`."},
    **problems(404, 409, 503),
}


@router.post("/{collection_id}/questions", response_model=Answer, responses=_RESPONSES)
async def ask_question(
    request: Request,
    collection_id: str,
    body: Question,
    principal: Asker,
    services: Services,
    events: JobEvents,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Ask a question about a collection's documents.

    Waits up to `wait_seconds` for the answer (200), or gives 202 to come back to. With `stream`, or
    `Accept: text/event-stream`, the answer comes as server-sent events: `accepted`, `started`,
    `passages`, `delta`, `restart` (discard the text so far), and last `done` or `error`. An answer
    that fails is the problem it failed with. Hanging up does not cancel it.
    """
    made = await run_in_threadpool(
        _register, services, principal, CollectionId(collection_id), body, idempotency_key
    )
    followed = streaming.FollowedAnswer(
        answer_id=AnswerId(made.resource.id),
        job_id=JobId(made.resource.job_id),
        answers=AnswerReader(services.database, principal.tenant_id),
        events=events,
        instance=request.url.path,
        request_id=request_id_of(request),
        is_new=not made.is_repeat,
    )
    if body.stream or streaming.MEDIA_TYPE in request.headers.get("accept", ""):
        return streaming.stream_answer(followed, announce=True)
    answer = await streaming.wait_for_answer(followed, timeout_seconds=body.wait_seconds)
    problem = followed.problem(answer)
    if problem is not None:
        return respond(problem, {"Location": f"/v1/answers/{answer.id}"})
    return Response(
        answer.model_dump_json(),
        status_code=200 if answer.status in FINAL_STATUSES else 202,
        headers={"Location": f"/v1/answers/{answer.id}"},
        media_type="application/json",
    )


def _register(
    services: ApiServices,
    principal: Principal,
    collection_id: CollectionId,
    body: Question,
    idempotency_key: str | None,
) -> Made[models.Answer]:
    with services.database.write() as session:

        def make() -> tuple[str, models.Answer]:
            answer = register_question(
                session,
                principal,
                collection_id,
                body.question,
                body.parameters(),
                max_attempts=services.settings.worker.max_attempts,
            )
            return answer.id, answer

        # How the caller takes the answer is no part of what is asked.
        asked = body.model_dump(exclude={"stream", "wait_seconds"})
        return make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("ask_question", collection_id, asked),
            make=make,
            load=lambda identifier: AnswerRepository(session, principal.tenant_id).get(AnswerId(identifier)),
        )
