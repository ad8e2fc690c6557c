"""The sections that a document is read by: every character of it that is not white space is in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from storage.chunks import ChunkPlace


class Paged(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Section:
    """Characters `start` to `end` of a document, under `headings`."""

    start: int
    end: int
    headings: tuple[str, ...]
    text: str
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Pages of a document, those that were read, those with no text, and why the others were not read."""

    num_pages: int
    num_pages_read: int
    num_pages_empty: int
    skipped: tuple[dict[str, Any], ...]


def cut_sections(chunks: Sequence[ChunkPlace], text: str, *, max_tokens: int) -> list[Section]:
    """Adjoining chunks together, up to `max_tokens` of the generator's; a new heading begins a new section
    unless the one before it is still small.

    Args:
        chunks: of one document, in order; they may overlap.
    """
    sections: list[Section] = []
    group: list[ChunkPlace] = []
    first = 0

    def close() -> None:
        nonlocal first
        end = group[-1].end
        sections.append(
            Section(
                first,
                end,
                group[0].headings,
                text[first:end],
                sum(chunk.num_generator_tokens for chunk in group),
            )
        )
        first = end
        group.clear()

    for chunk in chunks:
        size = sum(each.num_generator_tokens for each in group)
        turns = group and chunk.headings != group[-1].headings and size >= max_tokens // 4
        if group and (turns or size + chunk.num_generator_tokens > max_tokens):
            close()
        if not group:
            first = max(first, chunk.start)
        group.append(chunk)
    if group:
        close()
    return sections


def cover(pages: Sequence[Paged], text: str, sections: Sequence[Section], *, unread: str = "") -> Coverage:
    """How much of each page lies in `sections`.

    Args:
        unread: why what does not was left out.
    """
    skipped: list[dict[str, Any]] = []
    read = empty = 0
    for page in pages:
        if not text[page.start : page.end].strip():
            empty += 1
            skipped.append({"page": page.number, "reason": "no_text"})
        elif _is_covered(page, text, sections):
            read += 1
        else:
            skipped.append({"page": page.number, "reason": unread or "not_indexed"})
    return Coverage(len(pages), read, empty, tuple(skipped))


def _is_covered(page: Paged, text: str, sections: Sequence[Section]) -> bool:
    at = page.start
    for section in sections:
        if section.end <= at:
            continue
        if section.start >= page.end:
            break
        if text[at : max(at, section.start)].strip():
            return False
        at = max(at, section.end)
    return not text[at : page.end].strip()
