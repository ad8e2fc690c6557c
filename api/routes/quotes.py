from __future__ import annotations

from fastapi import APIRouter

from api.authentication import Asker
from api.dependencies import Services
from api.routes.documented import problems
from api.schemas.quotes import Quote, QuoteRequest
from bootstrap.quoting import quote_question, quote_tokens
from core.ids import CollectionId

router = APIRouter(prefix="/v1/quotes", tags=["quotes"], responses=problems(401, 403, 422))


@router.post("", responses=problems(404))
def create_quote(body: QuoteRequest, principal: Asker, services: Services) -> Quote:
    """What a question would take and cost, before it is asked: tokens, price and seconds.

    Bounds come from the settings and the length of the collection's chunks, what to expect from what
    such answers used lately, seconds from this engine's own pace. Nothing is asked of the engine.
    """
    settings = services.settings
    with services.database.read() as session:
        if body.prompt_tokens is not None:
            quote = quote_tokens(
                session,
                principal.tenant_id,
                settings,
                prompt_tokens=body.prompt_tokens,
                cached_tokens=body.cached_tokens,
                completion_tokens=body.max_tokens or settings.ask.max_answer_tokens,
            )
        else:
            quote = quote_question(
                session,
                principal.tenant_id,
                settings,
                collection_id=CollectionId(body.collection_id or ""),
                question=body.question or "",
                parameters=body.parameters(),
            )
    return Quote.of(quote)
