import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.chunking import ChunkDraft, chunk_document
from ingest.parsed import Heading, ParsedPage, join_pages

TOKEN = re.compile(r"[a-zA-Z]{1,6}|\d{1,3}|\S")


class WordTokenizer:
    """Six letters, three digits or one other character are a token."""

    def encode(self, text: str) -> list[int]:
        return [hash(token) for token in TOKEN.findall(text)]

    def decode(self, token_ids: object) -> str:
        raise NotImplementedError

    def count(self, text: str) -> int:
        return len(TOKEN.findall(text))

    def token_starts(self, text: str) -> list[int]:
        return [match.start() for match in TOKEN.finditer(text)]


class GreedyTokenizer(WordTokenizer):
    """Counts more for a whole than for its parts, as no sane tokenizer does."""

    def count(self, text: str) -> int:
        return len(text.strip()) ** 2 // 8


def chunk(
    text: str,
    headings: tuple[Heading, ...] = (),
    page_starts: tuple[int, ...] = (0,),
    *,
    max_tokens: int = 40,
    overlap_tokens: int = 0,
    tokenizer: WordTokenizer | None = None,
) -> list[ChunkDraft]:
    return chunk_document(
        text,
        headings,
        page_starts,
        embedder_tokenizer=tokenizer or WordTokenizer(),
        generator_tokenizer=WordTokenizer(),
        max_tokens=max_tokens,
        overlap_tokens=overlap_tokens,
    )


def check_invariants(text: str, chunks: list[ChunkDraft], max_tokens: int) -> None:
    covered = bytearray(len(text))
    for position, found in enumerate(chunks):
        assert found.position == position
        assert text[found.start : found.end] == found.text == found.text.strip()
        assert found.text
        assert found.num_tokens == WordTokenizer().count(found.text) <= max_tokens
        covered[found.start : found.end] = b"\x01" * (found.end - found.start)
    assert all(covered[i] or text[i].isspace() for i in range(len(text)))
    assert all(one.start < other.start and one.end < other.end for one, other in pairwise(chunks))


PIECES = st.sampled_from(
    [
        "话说天下大势，",
        "分久必合。",
        "”",
        "A sentence. ",
        "word ",
        "\n",
        "\n\n",
        "　",
        "12.5% ",
        "……",
        "x" * 30,
        "é",
        "😀",
    ]
)
TEXTS = st.lists(PIECES, max_size=120).map("".join)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.lists(st.tuples(st.integers(0, 600), st.integers(1, 3)), max_size=6), st.integers(0, 12))
def test_everything_is_covered_verbatim_within_bounds(
    text: str, marks: list[tuple[int, int]], overlap_tokens: int
) -> None:
    headings = tuple(Heading(start, level, f"h{start}") for start, level in marks)
    chunks = chunk(text, headings, max_tokens=24, overlap_tokens=overlap_tokens)
    check_invariants(text, chunks, 24)
    assert chunks == chunk(text, headings, max_tokens=24, overlap_tokens=overlap_tokens)


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=400))
def test_any_text_can_be_chunked(text: str) -> None:
    check_invariants(text, chunk(text, max_tokens=16, overlap_tokens=4), 16)


def test_a_tokenizer_that_adds_up_badly_still_stays_within_bounds() -> None:
    text = "word after word. " * 40
    assert all(found.num_tokens <= 16 for found in chunk(text, max_tokens=16, tokenizer=GreedyTokenizer()))


def test_short_text_is_one_chunk() -> None:
    (only,) = chunk("  The limit is 140 euros.\n")
    assert (only.start, only.end, only.text) == (2, 25, "The limit is 140 euros.")


def test_white_space_gives_no_chunks() -> None:
    assert chunk(" \n\t\n") == []
    assert chunk("") == []


@pytest.mark.parametrize(
    "sentence",
    ["The nightly hotel limit is 140 euros in every city. ", "员工出差住宿标准为每晚四百元，超出部分自理。"],
)
def test_cuts_fall_between_sentences(sentence: str) -> None:
    chunks = chunk(sentence * 20)
    assert len(chunks) > 4
    assert all(found.text.startswith(sentence[:8]) and found.text[-1] in ".。" for found in chunks)


def test_a_closing_quote_stays_with_its_sentence() -> None:
    chunks = chunk("玄德曰：“备欲投军，恨力不能也，如之奈何？”" * 10, max_tokens=24)
    assert all(found.text.endswith("？”") for found in chunks)


def test_lines_broken_in_mid_sentence_do_not_end_chunks() -> None:
    text = "The limit for hotels\nin all cities is\n140 euros a night.\n" * 10
    assert all(found.text.endswith("night.") for found in chunk(text))


def test_text_without_any_break_is_cut_anyway() -> None:
    chunks = chunk("大" * 1000)
    check_invariants("大" * 1000, chunks, 40)
    assert min(found.num_tokens for found in chunks) >= 20


def test_overlap_is_whole_sentences_and_bounded() -> None:
    text = "".join(f"第{i}条规定每晚四百元。" for i in range(30))
    chunks = chunk(text, overlap_tokens=12)
    overlaps = [text[other.start : one.end] for one, other in pairwise(chunks) if other.start < one.end]
    assert overlaps
    assert all(overlap.startswith("第") and overlap.endswith("。") for overlap in overlaps)
    assert all(WordTokenizer().count(overlap) <= 12 for overlap in overlaps)
    check_invariants(text, chunks, 40)


MANUAL = "# One\n\nFirst text here is long enough to stand alone, they say, and more. \n\n## Deep\n\nSecond. \n\n# Two\n\n"
MANUAL += "Third text is also long enough to stand alone on its own feet. \n"


def headings_of(text: str) -> tuple[Heading, ...]:
    return tuple(
        Heading(match.start(), len(match.group(1)), match.group(2))
        for match in re.finditer(r"^(#+) (.*)$", text, re.MULTILINE)
    )


def test_chunks_do_not_straddle_outermost_headings() -> None:
    chunks = chunk(MANUAL, headings_of(MANUAL), max_tokens=60)
    assert [found.headings for found in chunks] == [("One",), ("Two",)]
    assert chunks[1].text.startswith("# Two")


def test_a_chunk_knows_the_headings_it_stands_under() -> None:
    text = MANUAL.replace("Second. ", "Second sentence of this part. " * 10)
    chunks = chunk(text, headings_of(text), max_tokens=40)
    assert ("One", "Deep") in [found.headings for found in chunks]
    assert all(found.headings == ("One", "Deep") for found in chunks if found.text.startswith("Second"))


def test_a_bare_heading_goes_with_what_follows_it() -> None:
    text = "# Part\n\n## Chapter\n\n" + "A sentence of the chapter. " * 20
    chunks = chunk(text, headings_of(text))
    assert chunks[0].text.startswith("# Part\n\n## Chapter\n\nA sentence")
    assert {found.headings for found in chunks} == {("Part", "Chapter")}


def test_tiny_last_sections_join_their_neighbour() -> None:
    text = "# Body\n\n" + "word " * 20 + "\n\n# End\n\nBye.\n"
    assert len(chunk(text, headings_of(text))) == 1


def test_pages_are_those_the_chunk_touches() -> None:
    joined = join_pages(
        [
            ParsedPage(1, "First page has a sentence. It goes\n"),
            ParsedPage(2, "\n"),
            ParsedPage(3, "on here.\n"),
        ]
    )
    (only,) = chunk(joined.text, page_starts=joined.page_starts)
    assert (only.first_page, only.last_page) == (1, 3)
    last = chunk(joined.text, page_starts=joined.page_starts, max_tokens=8)[-1]
    assert (last.first_page, last.last_page) == (3, 3)
