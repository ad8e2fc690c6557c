"""Cuts a document's text into the chunks that are embedded and cited."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from langchain_text_splitters.character import RecursiveCharacterTextSplitter

from inference.protocols import Tokenizer
from ingest.parsed import Heading
from ingest.sections import SectionMap, group_sections

CHUNKER_REVISION = "1"
"""Changes whenever the same text and settings would give other chunks."""

_CLOSERS = "[”’」』）)】》\"']*"
_SENTENCE_END = rf"[。！？!?；;…]+{_CLOSERS}\s*|(?<=[^\s.])\.{_CLOSERS}\s+"
# A line break is a paragraph's end only after a sentence's end: PDF and hard-wrapped text break
# lines anywhere.
_SEPARATORS = [
    r"\n[ \t\u3000]*\n\s*",
    r"(?<=[。！？!?；;：:.”」』）)])\n\s*",
    _SENTENCE_END,
    r"\n\s*",
    r"[，、,：:—]+\s*",
    r"\s+",
    "",
]
_SENTENCE_START = re.compile(rf"{_SEPARATORS[0]}|{_SENTENCE_END}")
# No tokenizer makes fewer tokens of running text; longer pieces are cut without being counted.
_MAX_CHARACTERS_PER_TOKEN = 8


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    """Characters `start` to `end` of the document, which are `text`, trimmed of white space.

    `headings` are those under which the whole chunk stands, outermost first. Tokens are exact, by
    the embedder's and the generator's own tokenizers, without special tokens.
    """

    position: int
    start: int
    end: int
    first_page: int
    last_page: int
    headings: tuple[str, ...]
    text: str
    num_tokens: int
    num_generator_tokens: int


def chunk_document(
    text: str,
    headings: Sequence[Heading],
    page_starts: Sequence[int],
    *,
    embedder_tokenizer: Tokenizer,
    generator_tokenizer: Tokenizer,
    max_tokens: int,
    overlap_tokens: int,
) -> list[ChunkDraft]:
    """Chunks in text order that together hold everything but white space.

    Cut at headings first, then at paragraphs, sentences, clauses, words, characters. None has more
    than `max_tokens` of the embedder's (a single character that has is kept whole). A chunk may
    begin with up to `overlap_tokens` of whole sentences from its predecessor in the same section.
    `headings` and `page_starts` count characters of `text`.
    """
    counter = _TokenCounter(embedder_tokenizer, text)
    section_map = SectionMap(text, headings)
    cutter = _Cutter(text, counter, section_map, max_tokens, overlap_tokens)
    spans = [span for group in cutter.groups() for span in cutter.cut(*group)]
    return [
        ChunkDraft(
            position=position,
            start=start,
            end=end,
            first_page=bisect_right(page_starts, start) or 1,
            last_page=bisect_right(page_starts, end - 1) or 1,
            headings=section_map.path_of(start, end),
            text=text[start:end],
            num_tokens=counter.count(start, end),
            num_generator_tokens=generator_tokenizer.count(text[start:end]),
        )
        for position, (start, end) in enumerate(spans)
    ]


class _TokenCounter:
    """Counts tokens, of spans and of pieces; remembers short pieces, which splitters ask for again."""

    def __init__(self, tokenizer: Tokenizer, text: str) -> None:
        self._tokenizer = tokenizer
        self._text = text
        self._known: dict[str, int] = {}

    def count(self, start: int, end: int) -> int:
        return self._tokenizer.count(self._text[start:end])

    def bound(self, piece: str, limit: int) -> int:
        """Tokens of `piece`, or more than `limit` where that is plain from its length."""
        if len(piece) > limit * _MAX_CHARACTERS_PER_TOKEN:
            return max(limit + 1, len(piece) // _MAX_CHARACTERS_PER_TOKEN)
        num_tokens = self._known.get(piece)
        if num_tokens is None:
            num_tokens = self._known[piece] = self._tokenizer.count(piece)
        return num_tokens

    def forget(self) -> None:
        self._known.clear()


class _Cutter:
    """Cuts spans of one document so that each fits."""

    def __init__(
        self,
        text: str,
        counter: _TokenCounter,
        section_map: SectionMap,
        max_tokens: int,
        overlap_tokens: int,
    ) -> None:
        self._text = text
        self._masked = section_map.mask_heading_ends(text)
        self._counter = counter
        self._section_map = section_map
        self._max_tokens = max_tokens
        self._overlap_tokens = min(overlap_tokens, max_tokens // 2)

    def groups(self) -> list[tuple[int, int]]:
        """Spans between headings, small ones joined."""
        return group_sections(
            self._section_map.sections,
            count=lambda start, end: self._counter.bound(self._text[start:end], self._max_tokens),
            max_tokens=self._max_tokens,
        )

    def cut(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Trimmed spans that fit, overlapping by whole sentences."""
        self._counter.forget()
        previous_start: int | None = None
        for piece_start, piece_end in self._join_tiny(self._split(start, end, self._max_tokens)):
            overlapped = piece_start
            if previous_start is not None and self._overlap_tokens:
                overlapped = self._reach_back(previous_start, piece_start, piece_end)
            yield overlapped, piece_end
            previous_start = piece_start

    def _split(self, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
        """Trimmed spans within `max_tokens`, aimed at `size` less the overlap where there are many."""
        start, end = self._trim(start, end)
        if start == end:
            return
        if end - start == 1 or self._fits(start, end, size):
            yield start, end
            return
        target = max(1, size - self._overlap_tokens)
        splitter = RecursiveCharacterTextSplitter(
            separators=_SEPARATORS,
            is_separator_regex=True,
            keep_separator="end",
            chunk_size=target,
            chunk_overlap=0,
            strip_whitespace=False,
            length_function=lambda piece: self._counter.bound(piece, self._max_tokens),
        )
        # Separators stay and nothing overlaps or is stripped, so pieces follow one another exactly.
        for piece in splitter.split_text(self._masked[start:end]):
            piece_start, piece_end = self._trim(start, start + len(piece))
            if piece_end - piece_start <= 1 or self._fits(piece_start, piece_end, self._max_tokens):
                if piece_end > piece_start:
                    yield piece_start, piece_end
            else:
                # Pieces may have fewer tokens apart than joined; aim lower.
                yield from self._split(piece_start, piece_end, max(1, size // 2))
            start += len(piece)

    def _join_tiny(self, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """`spans`, where a heading's line or a short tail joins its neighbour if both fit together."""
        joined: list[tuple[int, int]] = []
        for start, end in spans:
            if joined and (self._is_tiny(*joined[-1]) or self._is_tiny(start, end)):
                first = joined[-1][0]
                if self._fits(first, end, self._max_tokens):
                    joined[-1] = (first, end)
                    continue
            joined.append((start, end))
        return joined

    def _is_tiny(self, start: int, end: int) -> bool:
        return self._fits(start, end, self._max_tokens // 8)

    def _fits(self, start: int, end: int, size: int) -> bool:
        return self._counter.bound(self._text[start:end], self._max_tokens) <= size

    def _trim(self, start: int, end: int) -> tuple[int, int]:
        span = self._text[start:end]
        stripped = span.lstrip()
        start += len(span) - len(stripped)
        return start, start + len(stripped.rstrip())

    def _reach_back(self, previous_start: int, start: int, end: int) -> int:
        """The earliest sentence start from which the chunk may begin, else `start`."""
        earliest = max(
            previous_start + 1,
            self._section_map.at(start).start,
            start - self._overlap_tokens * _MAX_CHARACTERS_PER_TOKEN,
        )
        best = start
        for candidate in reversed(self._sentence_starts(earliest, start)):
            if self._counter.count(candidate, start) > self._overlap_tokens:
                break
            best = candidate
        return best if best == start or self._fits(best, end, self._max_tokens) else start

    def _sentence_starts(self, earliest: int, before: int) -> list[int]:
        boundaries = _SENTENCE_START.finditer(self._text, earliest - 1, before)
        return [match.end() for match in boundaries if earliest <= match.end() < before]
