from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy.orm import Session

from api.asking import RESPONSES, Asking
from api.authentication import Asker
from api.dependencies import IdempotencyKey, JobEvents, Services
from api.routes.documented import problems
from api.schemas.answers import Answer
from api.schemas.questions import Question
from bootstrap.estimates import estimate_question
from core.ids import CollectionId
from generation.questions import register_question
from storage import models

router = APIRouter(prefix="/v1/collections", tags=["questions"], responses=problems(401, 403, 422))


@router.post("/{collection_id}/questions", response_model=Answer, responses=RESPONSES)
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
    `passages`, `delta`, `restart` (discard the text so far), and last `done` or `error`. What a
    model writes is streamed as it is written; `done` has the answer as it was checked, which is the
    one stored. An answer that fails is the problem it failed with. Hanging up does not
    cancel it, unless `on_disconnect` is `cancel`.
    """

    def register(session: Session) -> models.Answer:
        return register_question(
            session,
            principal,
            CollectionId(collection_id),
            body.question,
            body.parameters(),
            max_attempts=services.settings.worker.max_attempts,
            deadline_seconds=body.deadline_seconds,
            estimate=partial(estimate_question, services.settings),
        )

    asking = Asking(
        request, services, principal, events, "ask_question", collection_id, body, idempotency_key
    )
    return await asking.respond(register)
