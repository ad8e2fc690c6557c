"""A document put whole into the prompt because the caller asked for it, or because it is static.

Else, where the caller leaves it to us, `generation/prefix/` decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import InvalidInput, TooLong
from core.ids import DocumentId


@dataclass(frozen=True, slots=True)
class WholeCandidate:
    """The one document that a question is about.

    A static one was marked so: what is computed of it is kept, so it counts as bought.
    """

    document_id: DocumentId
    name: str
    num_tokens: int
    is_static: bool = False


def require_whole(candidate: WholeCandidate | None, *, room_tokens: int) -> WholeCandidate:
    """The document to put in.

    Args:
        candidate: None where the passages found are of several documents.
        room_tokens: what the model's window leaves for a document.

    Raises:
        InvalidInput: no single document is meant.
        TooLong: it does not fit.
    """
    if candidate is None:
        raise InvalidInput(
            "`context` is `whole`, but the question is about several documents.",
            remedy="Name one in `filter.document_ids`, or leave `context` at `auto`.",
        )
    if candidate.num_tokens > room_tokens:
        raise TooLong(
            f"{candidate.name} has {candidate.num_tokens} tokens; the window has room for {room_tokens}.",
            remedy="Ask with `context` `passages`, or use a model with a longer window.",
            document_id=candidate.document_id,
            num_tokens=candidate.num_tokens,
            max_tokens=room_tokens,
        )
    return candidate
