"""The parts of a prompt: spans of token ids, each tokenized alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from inference.protocols import Tokenizer

SegmentKind = Literal["frame", "system", "context", "passage", "history", "question"]


@dataclass(frozen=True, slots=True)
class PromptPassage:
    """A retrieved passage as the generator gets to see it.

    `id` is whatever the caller knows it by; `header` names document and page, or is empty.
    """

    id: str
    header: str
    text: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of the prompt. Because it is tokenized apart from its neighbours, the same content has
    the same token ids wherever it stands: the unit of prompt layout and of KV-cache reuse."""

    kind: SegmentKind
    token_ids: tuple[int, ...]
    source_ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, slots=True)
class DroppedPassage:
    """A passage that was left out, and the numbers that say why."""

    id: str
    num_tokens: int
    remaining_tokens: int

    @property
    def reason(self) -> str:
        return f"needs {self.num_tokens} tokens, {self.remaining_tokens} were left"


@dataclass(frozen=True, slots=True)
class Packing:
    """Which passages fit, in the order given; `num_tokens` counts their numbers too."""

    included: tuple[Segment, ...]
    dropped: tuple[DroppedPassage, ...]
    num_tokens: int


def passage_segment(tokenizer: Tokenizer, passage: PromptPassage) -> Segment:
    """The passage with its header. Its number is not in it, or its token ids would depend on its place."""
    header = f" {passage.header.strip()}\n" if passage.header.strip() else ""
    text = f"{header}{passage.text.strip()}\n\n"
    return Segment("passage", tuple(tokenizer.encode(text)), (passage.id,))


def pack_passages(
    passages: Sequence[Segment],
    *,
    budget_tokens: int,
    marker_tokens: Callable[[int], int] = lambda number: 0,
) -> Packing:
    """Take passages, best first, as long as they fit whole.

    One that does not fit is left out and the next are still tried, for a shorter one may fit.

    Args:
        marker_tokens: tokens of the number that stands before the n-th included passage, from 1.
    """
    included: list[Segment] = []
    dropped: list[DroppedPassage] = []
    remaining = max(0, budget_tokens)
    for passage in passages:
        cost = len(passage) + marker_tokens(len(included) + 1)
        if cost <= remaining:
            included.append(passage)
            remaining -= cost
        else:
            dropped.append(DroppedPassage(passage.source_ids[0], cost, remaining))
    return Packing(tuple(included), tuple(dropped), max(0, budget_tokens) - remaining)
