"""What a collection's next prompts are likely to begin with, and what of it is worth computing now.

A head is a list of passages by key, in the order of the prompt, behind the instructions of a mode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.ids import ConversationId, DocumentId
from generation.prefix.pieces import PieceKey, whole_key
from storage.prewarm_jobs import SentPrompt

MIN_USES = 2
"""A beginning that a single prompt had is none that the next is likely to have."""

Kind = Literal["instructions", "static", "conversation", "shared"]


@dataclass(frozen=True, slots=True)
class Head:
    """`keys` in order, none for the instructions alone; `uses` is how often it was wanted lately.

    `is_marked`: it is a document that was marked static, so what is computed of it is to be kept.
    """

    kind: Kind
    mode: str
    keys: tuple[PieceKey, ...]
    uses: int
    is_marked: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "mode": self.mode, "order": list(self.keys), "uses": self.uses}


@dataclass(frozen=True, slots=True)
class BuiltHead:
    """A head in token ids. `kept_document` is the static document that it consists of, if it does."""

    head: Head
    token_ids: tuple[int, ...]
    kept_document: DocumentId | None = None

    def __len__(self) -> int:
        return len(self.token_ids)


def propose_heads(
    sent: Sequence[SentPrompt], static: Sequence[DocumentId], *, default_mode: str
) -> tuple[Head, ...]:
    """Heads that the next prompts may have, the likeliest first; those of equal use in a fixed order.

    - the instructions of each mode asked for lately;
    - documents marked static, and what was bought for a document's questions;
    - of each conversation what its last prompt held;
    - what several prompts began with.

    Args:
        sent: newest first.
        static: documents of the collection that are marked.
        default_mode: that of questions which name none; `extractive` writes nothing.
    """
    modes = Counter(prompt.mode for prompt in sent)
    if default_mode != "extractive":
        modes[default_mode] += 1
    found: dict[tuple[str, tuple[PieceKey, ...]], Head] = {}
    for head in (
        *(Head("instructions", mode, (), uses) for mode, uses in modes.items()),
        *_static_heads(sent, static, modes),
        *_bought_heads(sent),
        *_conversation_heads(sent),
        *_shared_heads(sent),
    ):
        known = found.get((head.mode, head.keys))
        if known is None or (known.uses < head.uses and not known.is_marked):
            found[head.mode, head.keys] = head
    return tuple(sorted(found.values(), key=lambda head: (-head.uses, len(head.keys), head.mode, head.keys)))


def fit_heads(heads: Iterable[BuiltHead], *, budget_tokens: int) -> Iterator[BuiltHead]:
    """Heads, best first, as far as their tokens fit; what a head has of one before it counts once."""
    remaining = budget_tokens
    taken: list[tuple[int, ...]] = []
    for head in heads:
        shared = max((_shared_length(head.token_ids, other) for other in taken), default=0)
        cost = len(head) - shared
        if not cost or cost > remaining:
            continue
        remaining -= cost
        taken.append(head.token_ids)
        yield head


def _order(prefix: Mapping[str, Any]) -> tuple[PieceKey, ...]:
    return tuple(PieceKey(key) for key in prefix.get("order", []))


def _static_heads(
    sent: Sequence[SentPrompt], static: Sequence[DocumentId], modes: Iterable[str]
) -> Iterator[Head]:
    firsts = Counter((prompt.mode, _order(prompt.prefix)[:1]) for prompt in sent)
    for document_id in static:
        keys = (whole_key(document_id),)
        for mode in modes:
            yield Head("static", mode, keys, firsts[mode, keys] + 1, is_marked=True)


def _bought_heads(sent: Sequence[SentPrompt]) -> Iterator[Head]:
    bought = Counter(
        (prompt.mode, _order(prompt.prefix)[: prompt.prefix.get("num_static", 0)]) for prompt in sent
    )
    for (mode, keys), uses in bought.items():
        if keys:
            yield Head("static", mode, keys, uses)


def _conversation_heads(sent: Sequence[SentPrompt]) -> Iterator[Head]:
    seen: set[ConversationId] = set()
    for prompt in sent:
        if prompt.conversation_id is None or prompt.conversation_id in seen:
            continue
        seen.add(prompt.conversation_id)
        if keys := _order(prompt.prefix):
            yield Head("conversation", prompt.mode, keys, 1)


def _shared_heads(sent: Sequence[SentPrompt]) -> Iterator[Head]:
    """The longest beginnings for each number of prompts that had them."""
    uses = Counter(
        (prompt.mode, keys[:length])
        for prompt in sent
        for keys in [_order(prompt.prefix)]
        for length in range(1, len(keys) + 1)
    )
    longer = Counter({(mode, keys[:-1]): 0 for mode, keys in uses})
    for (mode, keys), count in uses.items():
        longer[mode, keys[:-1]] = max(longer[mode, keys[:-1]], count)
    for (mode, keys), count in uses.items():
        if count >= MIN_USES and longer[mode, keys] < count:
            yield Head("shared", mode, keys, count)


def _shared_length(one: Sequence[int], other: Sequence[int]) -> int:
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(i for i in range(length) if one[i] != other[i])
