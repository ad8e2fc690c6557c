"""A conversation as a small model reads it."""

from __future__ import annotations

from collections.abc import Sequence

from retrieval.history.turns import Turn


def transcript(turns: Sequence[Turn], *, chinese: bool, max_answer_characters: int) -> str:
    """Questions and the beginnings of their answers, oldest first, a line each."""
    user, assistant = ("用户：", "助手：") if chinese else ("User: ", "Assistant: ")
    lines = []
    for turn in turns:
        lines.append(user + one_line(turn.question))
        if turn.answer:
            lines.append(assistant + cut(one_line(turn.answer), max_answer_characters))
    return "\n".join(lines)


def one_line(text: str) -> str:
    return " ".join(text.split())


def cut(text: str, max_characters: int) -> str:
    """The beginning of `text`, at most so long, with an ellipsis where something is left out."""
    return text if len(text) <= max_characters else text[: max_characters - 1].rstrip() + "…"
