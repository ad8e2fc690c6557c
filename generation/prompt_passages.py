"""A retrieved passage as a prompt shows it."""

from __future__ import annotations

from generation.segments import PromptPassage
from retrieval.passages import Passage


def passage_id(passage: Passage) -> str:
    """Document and span: the same text wherever it is found again."""
    return f"{passage.document_id}:{passage.start}-{passage.end}"


def prompt_passage(passage: Passage, text: str, *, is_numbered: bool) -> PromptPassage:
    """The passage under its header, if passages are numbered; `text` is all of it, or what is kept."""
    return PromptPassage(passage_id(passage), _header(passage) if is_numbered else "", text)


def _header(passage: Passage) -> str:
    """Document and place; the headings help a small model as much as they help the reader."""
    place = " > ".join(passage.headings)
    return f"{passage.document_name}, p. {passage.first_page}" + (f", {place}" if place else "")
