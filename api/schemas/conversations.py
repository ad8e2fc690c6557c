from __future__ import annotations

from datetime import datetime

from pydantic import Field

from api.schemas.base import MAX_NAME_LENGTH, Body, FreeText, View
from storage import models


class NewConversation(Body):
    collection_id: str = Field(max_length=100, description="The collection that it is about.")
    title: FreeText = Field("", max_length=MAX_NAME_LENGTH, description="For lists of conversations.")


class SummarizedTurns(View):
    """What became of turns that no longer stand word for word in the history."""

    first_turn: int = Field(description="The first of the turns.")
    last_turn: int = Field(description="The last of them.")
    method: str = Field(
        description="`model`, or `rule` where no model kept the summary; `document_deleted`: what it stood for "
        "cited a document that was deleted, and it was emptied."
    )
    tokens_before: int = Field(description="Tokens of the turns and of the summary before them.")
    tokens_after: int = Field(description="Tokens of the summary that stands for both.")
    num_rejected: int = Field(
        description="Facts that the model gave and that were not kept: a number or a name in them does "
        "not occur in the turns."
    )
    num_forgotten: int = Field(description="Facts of earlier turns that no longer found room.")


class Conversation(View):
    """Questions about one collection, each understood in the light of those before it."""

    id: str = Field(description="`con_…`")
    collection_id: str = Field(description="The collection that it is about.")
    title: str = Field(description="As given; may be empty.")
    num_turns: int = Field(description="Questions asked so far.")
    summary: str = Field(description="What stands for turns 1 to `summarized_turns`.")
    summarized_turns: int = Field(description="How many of the oldest turns the summary stands for.")
    summary_dropped: list[SummarizedTurns] = Field(description="What the summary left out, fold by fold.")
    created_at: datetime = Field(description="When it was begun.")

    @classmethod
    def of(cls, row: models.Conversation) -> Conversation:
        return cls(
            id=row.id,
            collection_id=row.collection_id,
            title=row.title,
            num_turns=row.num_turns,
            summary=row.summary,
            summarized_turns=row.summarized_turns,
            summary_dropped=[SummarizedTurns(**fold) for fold in row.summary_dropped],
            created_at=row.created_at,
        )
