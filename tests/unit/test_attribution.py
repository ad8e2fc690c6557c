"""Written answers are tied to the sentences that support them."""

from __future__ import annotations

from core.ids import DocumentId
from generation.answer_draft import compose_text
from generation.attribution import Attribution, attribute
from generation.citations import Citation, Quote
from retrieval.passages import Passage


def passage(text: str, *, document: str = "doc_a", start: int = 100) -> Passage:
    return Passage(
        document_id=DocumentId(document),
        document_name=f"{document}.txt",
        document_title="",
        start=start,
        end=start + len(text),
        first_page=1,
        last_page=1,
        headings=(),
        text=text,
        score=1.0,
        chunk_ids=(),
        dense_score=None,
        lexical_score=None,
        dense_rank=None,
        lexical_rank=None,
        num_generator_tokens=len(text),
        has_gaps=False,
    )


def quotes(found: Attribution) -> list[Quote]:
    return [statement.quote for statement in found.statements if statement.quote is not None]


ENGLISH = passage(
    "A default Debian system offers six switchable consoles. There are six of everything. "
    "The licence was signed in 1998."
)
CHINESE = passage("默认的系统有六个可切换的控制台。关云长的刀重八十二斤。", document="doc_z", start=7)


def test_a_sentence_is_tied_to_its_source_at_document_offsets() -> None:
    found = attribute("It offers six consoles.", "How many consoles are offered?", [ENGLISH])
    (quote,) = quotes(found)
    assert quote.text == "A default Debian system offers six switchable consoles."
    assert (quote.start, quote.end) == (100, 100 + len(quote.text))
    assert found.unsupported == ()


def test_a_bare_answer_is_tied_to_where_the_question_is_answered() -> None:
    (quote,) = quotes(attribute("six", "How many consoles does Debian offer?", [ENGLISH]))
    assert "consoles" in quote.text


def test_a_fragment_that_stands_anywhere_is_not_cited() -> None:
    found = attribute("The default", "Who signed the treaty of Westphalia?", [ENGLISH])
    assert quotes(found) == []


def test_chinese_is_tied_as_english_is() -> None:
    (quote,) = quotes(attribute("刀重八十二斤。", "关云长的刀多重？", [ENGLISH, CHINESE]))
    assert quote.text == "关云长的刀重八十二斤。"
    assert quote.document_id == "doc_z"


def test_a_number_that_the_source_lacks_is_not_supported() -> None:
    found = attribute("The licence was signed in 1999.", "When was it signed?", [ENGLISH])
    assert quotes(found) == []
    assert found.unsupported == ("The licence was signed in 1999.",)


def test_a_mark_decides_between_equals_and_a_mark_of_nothing_is_ignored() -> None:
    twin = passage(ENGLISH.text, document="doc_b", start=0)
    question = "When was the licence signed?"
    (by_mark,) = quotes(attribute("The licence was signed in 1998 [2].", question, [ENGLISH, twin]))
    assert by_mark.document_id == "doc_b"
    (by_words,) = quotes(attribute("The licence was signed in 1998 [9].", question, [ENGLISH, twin]))
    assert by_words.document_id == "doc_a"


def test_what_stands_nowhere_is_unsupported() -> None:
    found = attribute("Bananas grow on Mars.", "Where do bananas grow?", [ENGLISH, CHINESE])
    assert quotes(found) == []
    assert found.unsupported == ("Bananas grow on Mars.",)


def test_marks_stand_after_supported_sentences_and_never_name_a_citation_that_is_not_there() -> None:
    found = attribute(
        "It offers six consoles [1]. Bananas are blue. The licence was signed in 1998.", "?", [ENGLISH]
    )
    consoles, licence = quotes(found)
    kept = Citation(1, licence.document_id, "", licence.start, licence.end, 1, 1, licence.text)
    assert consoles != licence
    assert compose_text(found.statements, [kept]) == (
        "It offers six consoles. Bananas are blue. The licence was signed in 1998. [1]"
    )
