"""A document cut at its headings, and small neighbours joined again."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingest.parsed import Heading

_JOINER = "\u2060"
_GAP = re.compile(r"\n\s*")
_LONGEST_HEADING_EXTRA = 40  # marks and numbering before a heading's text
_BARE_EXTRA_CHARACTERS = 12  # `###`, a number, spaces


@dataclass(frozen=True, slots=True)
class Section:
    """Characters `start` to `end`, under the headings of `path`, outermost first.

    `is_bare` where there is a heading and nothing below it.
    """

    start: int
    end: int
    path: tuple[Heading, ...]
    is_bare: bool


class SectionMap:
    """Sections in order, covering the whole text; knows what headings a span stands under."""

    def __init__(self, text: str, headings: Sequence[Heading]) -> None:
        self.sections = _cut(text, headings)
        self._starts = [section.start for section in self.sections]

    def at(self, offset: int) -> Section:
        """The section that holds this character."""
        return self.sections[bisect_right(self._starts, offset) - 1]

    def path_of(self, start: int, end: int) -> tuple[str, ...]:
        """Headings under which all of the span stands, outermost first."""
        first = bisect_right(self._starts, start) - 1
        last = bisect_right(self._starts, max(start, end - 1)) - 1
        spanned = self.sections[first : last + 1]
        telling = [section for section in spanned if not section.is_bare] or spanned
        shared = telling[0].path
        for section in telling[1:]:
            shared = _common_prefix(shared, section.path)
        return tuple(heading.text for heading in shared)

    def mask_heading_ends(self, text: str) -> str:
        """`text`, as long as before, without the line breaks by which a heading could be cut off.

        They become U+2060, which joins words and separates nothing.
        """
        parts: list[str] = []
        done = 0
        for section in self.sections:
            if not section.path:
                continue
            expected = section.start + len(section.path[-1].text)
            gap = _GAP.search(text, expected, expected + _LONGEST_HEADING_EXTRA)
            if gap and gap.start() >= done:
                parts += [text[done : gap.start()], _JOINER * len(gap.group())]
                done = gap.end()
        return "".join([*parts, text[done:]])


def _common_prefix(one: tuple[Heading, ...], other: tuple[Heading, ...]) -> tuple[Heading, ...]:
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return one[:length]


def _cut(text: str, headings: Sequence[Heading]) -> list[Section]:
    ordered = sorted(
        (heading for heading in headings if 0 <= heading.start < len(text)),
        key=lambda heading: (heading.start, heading.level),
    )
    sections: list[Section] = []
    path: list[Heading] = []
    start = 0
    for heading in ordered:
        if heading.start > start:
            sections.append(_section(text, start, heading.start, path))
        path = [outer for outer in path if outer.level < heading.level] + [heading]
        start = heading.start
    sections.append(_section(text, start, len(text), path))
    return sections


def _section(text: str, start: int, end: int, path: list[Heading]) -> Section:
    num_shown = len(text[start:end].strip()) if end - start < 1000 else end - start
    is_bare = bool(path) and num_shown <= len(path[-1].text) + _BARE_EXTRA_CHARACTERS
    return Section(start, end, tuple(path), is_bare)


@dataclass(slots=True)
class _Group:
    start: int
    end: int
    num_tokens: int
    last: Section


def group_sections(
    sections: Sequence[Section], *, count: Callable[[int, int], int], max_tokens: int
) -> list[tuple[int, int]]:
    """Spans to be chunked apart: a section, or small neighbours that fit into one chunk.

    `count(start, end)` gives tokens. Sections under different outermost headings are joined only
    where one of them is tiny. A tiny section that opens a part goes with what follows, even if
    that is too long for one chunk; one that ends a part goes with what precedes.
    """
    tiny = max_tokens // 8
    groups: list[_Group] = []
    for index, section in enumerate(sections):
        num_tokens = count(section.start, section.end)
        following = sections[index + 1] if index + 1 < len(sections) else None
        is_opening = following is not None and _is_below(following, section)
        if groups and _belongs(groups[-1], section, num_tokens, is_opening, max_tokens, tiny):
            group = groups[-1]
            group.end, group.last = section.end, section
            group.num_tokens += num_tokens
        else:
            groups.append(_Group(section.start, section.end, num_tokens, section))
    return [(group.start, group.end) for group in groups]


def _belongs(
    group: _Group, section: Section, num_tokens: int, is_opening: bool, max_tokens: int, tiny: int
) -> bool:
    if group.num_tokens <= tiny and _is_below(section, group.last):
        return True
    if group.num_tokens + num_tokens > max_tokens:
        return False
    if num_tokens <= tiny and is_opening:
        return False
    if group.num_tokens <= tiny or num_tokens <= tiny:
        return True
    return _share_outermost(group.last, section) and group.num_tokens < max_tokens // 2


def _is_below(inner: Section, outer: Section) -> bool:
    return len(inner.path) > len(outer.path) and inner.path[: len(outer.path)] == outer.path


def _share_outermost(one: Section, other: Section) -> bool:
    return one.path[:1] == other.path[:1]
