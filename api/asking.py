"""Asking, whatever is asked: registered once, then waited for or streamed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from sqlalchemy.orm import Session

from api import streaming
from api.answer_views import AnswerReader
from api.budget_headers import warning_headers
from api.cancelling import cancel_job
from api.idempotency import Made, make_once, request_hash
from api.job_events import JobEventReader
from api.problems import request_id_of, respond, retry_headers
from api.rate_limiting import take_of_limits
from api.request_context import add_headers
from api.routes.documented import problems
from api.schemas.answers import Answer
from api.schemas.questions import Question
from bootstrap.api_services import ApiServices
from core.errors import Conflict
from core.ids import AnswerId, JobId
from generation.quotes import estimate_tokens
from storage import models
from storage.answers import AnswerRepository
from storage.job_states import FINAL_STATUSES
from tenancy.principal import Principal
from tenancy.question_places import require_place

RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or with `stream` its events.",
        "content": {streaming.MEDIA_TYPE: {"schema": {"type": "string"}}},
    },
    202: {"model": Answer, "description": "Not finished within `wait_seconds`: ask again at `Location`."},
    **problems(404, 409, 429, 503),
}

Register = Callable[[Session], models.Answer]
"""Makes the answer's row and its job in the session's transaction."""


@dataclass(frozen=True, slots=True)
class Asking:
    """One request with a question in it.

    `operation` and `target` name what is asked of whom, so that an idempotency key used for
    another is found out.
    """

    request: Request
    services: ApiServices
    principal: Principal
    events: JobEventReader
    operation: str
    target: str
    body: Question
    idempotency_key: str | None

    async def respond(self, register: Register) -> Response:
        """The answer, its events, or 202 to come back to, as the body asks."""
        made = await run_in_threadpool(self._register, register)
        followed = streaming.FollowedAnswer(
            answer_id=AnswerId(made.resource.id),
            job_id=JobId(made.resource.job_id),
            answers=AnswerReader(self.services.database, self.principal.tenant_id),
            events=self.events,
            instance=self.request.url.path,
            request_id=request_id_of(self.request),
            is_new=not made.is_repeat,
            on_left=self._cancel(JobId(made.resource.job_id))
            if self.body.on_disconnect == "cancel"
            else None,
        )
        if self.body.stream or streaming.MEDIA_TYPE in self.request.headers.get("accept", ""):
            return streaming.stream_answer(followed, announce=True)
        answer = await streaming.wait_for_answer(
            followed,
            timeout_seconds=self.body.wait_seconds,
            has_left=self.request.is_disconnected,
        )
        problem = followed.problem(answer)
        if problem is not None:
            headers = {"Location": f"/v1/answers/{answer.id}"} | retry_headers(problem["code"])
            return respond(problem, headers)
        return Response(
            answer.model_dump_json(),
            status_code=200 if answer.status in FINAL_STATUSES else 202,
            headers={"Location": f"/v1/answers/{answer.id}"},
            media_type="application/json",
        )

    def _cancel(self, job_id: JobId) -> Callable[[], None]:
        def cancel() -> None:
            # It may have ended just now.
            with contextlib.suppress(Conflict):
                cancel_job(self.services, self.principal.tenant_id, job_id)

        return cancel

    def _most_tokens(self) -> int:
        """The question's own, and the room for passages and for the answer."""
        room = self.services.settings.ask
        return (
            estimate_tokens(self.body.question)
            + (self.body.max_context_tokens or room.max_context_tokens)
            + (self.body.max_tokens or room.max_answer_tokens)
        )

    def _register(self, register: Register) -> Made[models.Answer]:
        # How the caller takes the answer is no part of what is asked.
        asked = self.body.model_dump(mode="json", exclude={"stream", "wait_seconds", "on_disconnect"})
        take_of_limits(self.request, self.services.limiter, self.principal, "tokens", self._most_tokens())
        with self.services.database.write() as session:

            def make() -> tuple[str, models.Answer]:
                require_place(session, self.principal, self.services.settings.limits)
                answer = register(session)
                add_headers(self.request, warning_headers(session))
                return answer.id, answer

            return make_once(
                session,
                self.principal.tenant_id,
                self.idempotency_key,
                request_hash(self.operation, self.target, asked),
                make=make,
                load=lambda identifier: AnswerRepository(session, self.principal.tenant_id).get(
                    AnswerId(identifier)
                ),
            )
