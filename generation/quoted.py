"""Answers in mode `quoted`: verbatim quotes first, then what the generator makes of them.

The generator is asked (`generation/instructions.py`) to write

    > [2] A sentence, word for word as the passage has it.
    > [1] Another.
    Answer: What follows from them. [2]

with `答案：` in Chinese. A quote counts only where it stands in a passage; what is shown of it are the
passage's own characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from generation.answer_draft import Statement
from generation.attribution import attribute, marks_of, strip_marks
from generation.citations import Quote
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors

MIN_QUOTED_CHARACTERS = 4
"""White space aside; what is shorter stands anywhere."""

_ANSWER_LABEL = re.compile(
    r"^[ \t]*[*#]*[ \t]*(?:answer|答案|回答)[ \t]*[:：][ \t*]*", re.IGNORECASE | re.MULTILINE
)
_QUOTE_LINE = re.compile(r"[ \t]*[>＞][> \t]*(?P<quote>.*)")
_MARKS_AROUND = "\"'“”‘’「」『』 \t"
_END_MARKS = ".。…!?！？,，;；"
_ALIKE = str.maketrans(
    {
        "“": '"',
        "”": '"',
        "「": '"',
        "」": '"',
        "‘": "'",
        "’": "'",
        "—": "-",
        "–": "-",
        "‐": "-",
        "。": ".",
        "、": ",",
    }
)


@dataclass(frozen=True, slots=True)
class QuotedAnswer:
    """`quotes` stand in the passages, in the order written; `num_dropped` did not."""

    quotes: tuple[Quote, ...]
    num_dropped: int
    answer: str


def parse_quoted(text: str, passages: Sequence[Passage]) -> QuotedAnswer:
    """Quotes and answer in what the generator wrote.

    Quotes may differ from the passage in white space, in the width and shape of punctuation, in
    case, and in their last mark. Lines that begin with `>` are quotes wherever they stand; before
    the answer's label every other line is one too. Without label or quotes all of it is the answer.

    Args:
        passages: in the order the prompt numbered them.
    """
    label = _ANSWER_LABEL.search(text)
    before, after = (text[: label.start()], text[label.end() :]) if label else ("", text)
    claimed = [strip for line in before.splitlines() if (strip := _unmarked(line))]
    answer: list[str] = []
    for line in after.splitlines():
        if _QUOTE_LINE.fullmatch(line):
            claimed.append(_unmarked(line))
        else:
            answer.append(line)
    folded = [_fold(passage.text) for passage in passages]
    found = [_locate(line, passages, folded) for line in claimed]
    quotes = tuple({quote.span: quote for quote in found if quote is not None}.values())
    return QuotedAnswer(quotes, sum(quote is None for quote in found), "\n".join(answer).strip())


def quoted_statements(
    parsed: QuotedAnswer,
    question: str,
    passages: Sequence[Passage],
    *,
    vectors: SentenceVectors | None = None,
) -> tuple[Statement, ...]:
    """The quotes, each a line in quotation marks, and below them the answer's attributed sentences."""
    quoted = [Statement(f"“{' '.join(q.text.split())}”", (q,), "\n") for q in parsed.quotes]
    if quoted:
        quoted[-1] = Statement(quoted[-1].text, quoted[-1].quotes, "\n\n")
    written = attribute(parsed.answer, question, passages, vectors=vectors).statements
    return (
        *quoted,
        *(
            Statement(s.text, tuple(dict.fromkeys(_within(q, parsed.quotes) for q in s.quotes)), s.separator)
            for s in written
        ),
    )


def _within(found: Quote, quotes: Sequence[Quote]) -> Quote:
    """The quote shown above that holds what was found, so that both have one number."""
    for quote in quotes:
        if quote.document_id == found.document_id and quote.start <= found.start and found.end <= quote.end:
            return quote
    return found


def _unmarked(line: str) -> str:
    match = _QUOTE_LINE.fullmatch(line)
    return (match["quote"] if match else line).strip()


@dataclass(frozen=True, slots=True)
class _Folded:
    """A text as it is compared, and for each of its characters the offset in the original."""

    text: str
    offsets: tuple[int, ...]


def _fold(text: str) -> _Folded:
    characters: list[str] = []
    offsets: list[int] = []
    for i, character in enumerate(text):
        for plain in unicodedata.normalize("NFKC", character).translate(_ALIKE).casefold():
            if not plain.isspace():
                characters.append(plain)
                offsets.append(i)
    return _Folded("".join(characters), tuple(offsets))


def _locate(line: str, passages: Sequence[Passage], folded: Sequence[_Folded]) -> Quote | None:
    """Where the line stands: in the passage its mark names, else in the first that has it."""
    marks = marks_of(line)
    wanted = _fold(strip_marks(line).strip(_MARKS_AROUND).rstrip(_END_MARKS)).text
    if len(wanted) < MIN_QUOTED_CHARACTERS:
        return None
    order = sorted(range(len(passages)), key=lambda i: i + 1 not in marks)
    for i in order:
        span = _find(wanted, folded[i], passages[i].text)
        if span is not None:
            passage, (start, end) = passages[i], span
            return Quote(
                document_id=passage.document_id,
                document_name=passage.document_name,
                start=passage.start + start,
                end=passage.start + end,
                text=passage.text[start:end],
            )
    return None


def _find(wanted: str, folded: _Folded, text: str) -> tuple[int, int] | None:
    """Characters of `text` that are `wanted`, whole words only, with the marks that end them."""
    at = folded.text.find(wanted)
    while at >= 0:
        start, end = folded.offsets[at], folded.offsets[at + len(wanted) - 1] + 1
        if not _cuts_word(text, start) and not _cuts_word(text, end):
            while end < len(text) and text[end] in _END_MARKS + "”’」』\"'":
                end += 1
            return start, end
        at = folded.text.find(wanted, at + 1)
    return None


def _cuts_word(text: str, at: int) -> bool:
    around = text[at - 1 : at + 1] if 0 < at < len(text) else ""
    return len(around) == 2 and all(c.isalnum() and not "\u2e80" <= c <= "\u9fff" for c in around)
