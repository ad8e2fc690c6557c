"""Lays a prompt out in token ids so that the engine's prefix cache can reuse it.

    [head][system][middle] [context] [1][passage] [2][passage] … [history] [ranking] [task and question] [tail]

The bracketed numbers are segments of their own, a few tokens each. A passage's number follows its
place in the prompt, so two prompts with the same passages in the same order share all of them; the
passage itself has the same token ids at any place. Nothing that changes with the request stands
before what does not: the question's language shows from the history on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.errors import TooLong
from generation.instructions import Instructions
from generation.segments import (
    DroppedPassage,
    Packing,
    PromptPassage,
    Segment,
    pack_passages,
    passage_segment,
)
from inference.protocols import ChatFrame, Tokenizer
from retrieval.history.turns import Turn

_HISTORY_SHARE = 4  # earlier turns get at most one quarter of what the fixed parts leave


class PassageLayout:
    """The token ids of a prompt from its beginning to the end of its passages, part by part."""

    def __init__(
        self, tokenizer: Tokenizer, frame: ChatFrame, instructions: Instructions, *, context: str = ""
    ) -> None:
        self._tokenizer = tokenizer
        self.is_numbered = instructions.is_numbered
        self.opening = _opening(tokenizer, frame, instructions, context)

    @property
    def opening_ids(self) -> tuple[int, ...]:
        """What stands in front of the first passage."""
        return tuple(token for segment in self.opening for token in segment.token_ids)

    def marker(self, number: int) -> tuple[int, ...]:
        """What stands in front of the passage cited by that number."""
        return _marker(self._tokenizer, number) if self.is_numbered else ()

    def passage_ids(self, passage: PromptPassage) -> tuple[int, ...]:
        """The passage itself, the same at any place."""
        return passage_segment(self._tokenizer, passage).token_ids


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt ready to send; `segments` in order make up `token_ids`.

    `included[i]` is the passage cited as `[i + 1]`.
    """

    token_ids: tuple[int, ...]
    segments: tuple[Segment, ...]
    included: tuple[PromptPassage, ...]
    dropped: tuple[DroppedPassage, ...]
    num_dropped_turns: int

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)


def build_prompt(
    tokenizer: Tokenizer,
    frame: ChatFrame,
    *,
    instructions: Instructions,
    passages: Sequence[PromptPassage],
    question: str,
    max_prompt_tokens: int,
    context: str = "",
    summary: str = "",
    history: Sequence[Turn] = (),
    max_history_tokens: int | None = None,
    max_passage_tokens: int | None = None,
    ranking: Sequence[str] = (),
) -> Prompt:
    """Put a prompt together that is no longer than `max_prompt_tokens`.

    Args:
        frame: the chat template with a system part (`chat_frame(has_system=True)`).
        passages: in the order they get; whole ones only (see `pack_passages`).
        max_prompt_tokens: the model's window less the room for the answer.
        context: what is known of the collection or document beforehand.
        summary: what was said before `history`.
        history: oldest first; the newest turns that fit are kept.
        max_history_tokens: room for them, where less than a quarter of what is left.
        max_passage_tokens: room for passages, where less than what is left.
        ranking: ids of passages, best first, to be told by number in front of the question, where the
            order does not say it.

    Raises:
        TooLong: question and fixed parts alone exceed `max_prompt_tokens`.
    """
    layout = PassageLayout(tokenizer, frame, instructions, context=context)
    before = layout.opening
    after = _closing(tokenizer, frame, instructions, question)
    ranked = ranking if instructions.is_numbered else ()
    # As long as the line can get, so that what is left out of it later never makes it longer.
    line_room = (
        len(tokenizer.encode(_ranking_line(instructions, range(1, len(passages) + 1)))) if ranked else 0
    )
    room = max_prompt_tokens - sum(map(len, (*before, *after))) - line_room
    if room < 0:
        raise _question_too_long(tokenizer, question, max_prompt_tokens, excess=-room)
    share = room // _HISTORY_SHARE
    turns = _recent_turns(
        tokenizer,
        instructions,
        summary,
        history,
        budget_tokens=share if max_history_tokens is None else min(share, max_history_tokens),
    )
    room = max(0, room - sum(map(len, turns)))
    packing = pack_passages(
        [passage_segment(tokenizer, passage) for passage in passages],
        budget_tokens=room if max_passage_tokens is None else min(room, max_passage_tokens),
        marker_tokens=lambda number: len(layout.marker(number)),
    )
    number_of = {segment.source_ids[0]: n for n, segment in enumerate(packing.included, start=1)}
    numbers = [number_of[name] for name in ranked if name in number_of]
    if numbers:
        line = _ranking_line(instructions, numbers)
        after = (Segment("question", tuple(tokenizer.encode(line))), *after)
    included = _numbered(tokenizer, packing) if instructions.is_numbered else packing.included
    segments = (*before, *included, *turns, *after)
    by_id = {passage.id: passage for passage in passages}
    return Prompt(
        token_ids=tuple(token for segment in segments for token in segment.token_ids),
        segments=segments,
        included=tuple(by_id[segment.source_ids[0]] for segment in packing.included),
        dropped=packing.dropped,
        num_dropped_turns=len(history) - max(0, len(turns) - 1),
    )


def _opening(
    tokenizer: Tokenizer, frame: ChatFrame, instructions: Instructions, context: str
) -> tuple[Segment, ...]:
    known = f"{context.strip()}\n\n" if context.strip() else ""
    return (
        Segment("frame", frame.head),
        Segment("system", tuple(tokenizer.encode(instructions.system))),
        Segment("frame", frame.middle),
        Segment("context", tuple(tokenizer.encode(known + instructions.passages_label))),
    )


def _ranking_line(instructions: Instructions, numbers: Iterable[int]) -> str:
    return instructions.ranking.format(instructions.ranking_separator.join(f"[{n}]" for n in numbers))


def _closing(
    tokenizer: Tokenizer, frame: ChatFrame, instructions: Instructions, question: str
) -> tuple[Segment, ...]:
    text = f"{instructions.task}{instructions.question_label}{question.strip()}{instructions.answer_label}"
    return Segment("question", tuple(tokenizer.encode(text))), Segment("frame", frame.tail)


def _recent_turns(
    tokenizer: Tokenizer,
    instructions: Instructions,
    summary: str,
    history: Sequence[Turn],
    *,
    budget_tokens: int,
) -> tuple[Segment, ...]:
    """The label with the summary, and the newest turns that fit, oldest first; empty for neither."""
    text = instructions.history_label + (f"{summary.strip()}\n\n" if summary.strip() else "")
    label = Segment("history", tuple(tokenizer.encode(text)))
    kept: list[Segment] = []
    remaining = budget_tokens if summary else budget_tokens - len(label)
    for turn in reversed(history):
        text = (
            f"{instructions.user_label}{turn.question.strip()}\n"
            f"{instructions.assistant_label}{turn.answer.strip()}\n\n"
        )
        segment = Segment("history", tuple(tokenizer.encode(text)))
        if len(segment) > remaining:
            break
        kept.append(segment)
        remaining -= len(segment)
    return (label, *reversed(kept)) if kept or summary.strip() else ()


def _marker(tokenizer: Tokenizer, number: int) -> tuple[int, ...]:
    return tuple(tokenizer.encode(f"[{number}]"))


def _numbered(tokenizer: Tokenizer, packing: Packing) -> list[Segment]:
    segments = []
    for number, passage in enumerate(packing.included, start=1):
        segments += [Segment("frame", _marker(tokenizer, number)), passage]
    return segments


def _question_too_long(
    tokenizer: Tokenizer, question: str, max_prompt_tokens: int, *, excess: int
) -> TooLong:
    num_question_tokens = tokenizer.count(question.strip())
    return TooLong(
        f"The question has {num_question_tokens} tokens, which with the instructions is {excess} more "
        f"than the {max_prompt_tokens} tokens a prompt may have.",
        remedy=f"Shorten the question to at most {max(0, num_question_tokens - excess)} tokens.",
        question_tokens=num_question_tokens,
        max_prompt_tokens=max_prompt_tokens,
    )
