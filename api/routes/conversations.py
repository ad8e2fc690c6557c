from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.orm import Session

from api.answer_views import show_answers
from api.asking import RESPONSES, Asking
from api.authentication import Asker
from api.collection_filter import find_wanted
from api.dependencies import IdempotencyKey, JobEvents, NewestFirst, OldestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas.answers import Answer
from api.schemas.base import ListOf
from api.schemas.conversations import Conversation, NewConversation
from api.schemas.questions import Question
from bootstrap.estimates import estimate_question
from core.ids import CollectionId, ConversationId
from generation.questions import register_turn
from storage import models
from storage.answers import AnswerRepository
from storage.collections import CollectionRepository
from storage.conversations import ConversationRepository

router = APIRouter(prefix="/v1/conversations", tags=["conversations"], responses=problems(401, 403, 422))


@router.post("", status_code=201, responses=problems(404, 409))
def create_conversation(
    body: NewConversation,
    principal: Asker,
    services: Services,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Conversation:
    """Begin a conversation about a collection. Its questions may refer to those before them."""
    with services.database.write() as session:
        conversations = ConversationRepository(session, principal.tenant_id)

        def make() -> tuple[str, Conversation]:
            collection_id = CollectionId(body.collection_id)
            CollectionRepository(session, principal.tenant_id).hold(collection_id)
            row = conversations.create(collection_id, title=body.title.strip())
            return row.id, Conversation.of(row)

        made = make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("create_conversation", body.model_dump()),
            make=make,
            load=lambda identifier: Conversation.of(conversations.get(ConversationId(identifier))),
        )
    response.headers["Location"] = f"/v1/conversations/{made.resource.id}"
    return made.resource


@router.get("", responses=problems(404))
def list_conversations(
    page: NewestFirst,
    principal: Asker,
    services: Services,
    collection_id: Annotated[
        str | None, Query(max_length=100, description="Only those about this collection.")
    ] = None,
) -> ListOf[Conversation]:
    """The tenant's conversations, the newest first; those deleted are left out."""
    with services.database.read() as session:
        wanted = find_wanted(session, principal.tenant_id, collection_id)
        rows = ConversationRepository(session, principal.tenant_id).list_page(page, collection_id=wanted)
    return ListOf(items=[Conversation.of(row) for row in rows.items], next_cursor=rows.next_cursor)


@router.get("/{conversation_id}", responses=problems(404))
def get_conversation(conversation_id: str, principal: Asker, services: Services) -> Conversation:
    """One conversation, with the summary that stands for its oldest turns."""
    with services.database.read() as session:
        row = ConversationRepository(session, principal.tenant_id).get(ConversationId(conversation_id))
    return Conversation.of(row)


@router.get("/{conversation_id}/turns", responses=problems(404))
def list_turns(
    conversation_id: str, page: OldestFirst, principal: Asker, services: Services
) -> ListOf[Answer]:
    """A conversation's questions with their answers, turn by turn; failed and cancelled ones too."""
    identifier = ConversationId(conversation_id)
    with services.database.read() as session:
        ConversationRepository(session, principal.tenant_id).get(identifier)
        rows = AnswerRepository(session, principal.tenant_id).list_turns(identifier, page)
        items = show_answers(session, principal.tenant_id, rows.items)
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.delete("/{conversation_id}", status_code=204, responses=problems(404))
def delete_conversation(conversation_id: str, principal: Asker, services: Services) -> None:
    """Delete a conversation: it takes no more questions and is no longer listed.

    Its answers can still be read one by one, since their cost is on the ledger.
    """
    with services.database.write() as session:
        ConversationRepository(session, principal.tenant_id).delete(ConversationId(conversation_id))


@router.post("/{conversation_id}/questions", response_model=Answer, responses=RESPONSES)
async def ask_in_conversation(
    request: Request,
    conversation_id: str,
    body: Question,
    principal: Asker,
    services: Services,
    events: JobEvents,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Ask the conversation's next question; "and in 2020?" is understood by the turns before it.

    Body, waiting and streaming are those of `POST /v1/collections/{id}/questions`. Turns are answered
    one after another: while the one before still runs, a question is refused with 409.
    """

    def register(session: Session) -> models.Answer:
        return register_turn(
            session,
            principal,
            ConversationId(conversation_id),
            body.question,
            body.parameters(),
            max_attempts=services.settings.worker.max_attempts,
            deadline_seconds=body.deadline_seconds,
            estimate=partial(estimate_question, services.settings),
        )

    asking = Asking(
        request, services, principal, events, "ask_in_conversation", conversation_id, body, idempotency_key
    )
    return await asking.respond(register)
