"""Written answers are tied to the sentences that support them, and to no others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from core.ids import DocumentId
from generation.attribution import Attribution, attribute
from generation.citations import Quote
from inference.protocols import Embeddings
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors
from retrieval.support import BACKGROUND_SENTENCES
from tests.hashing_embedder import HashingEmbedder


def passage(text: str, *, document: str = "doc_a", start: int = 100, title: str = "") -> Passage:
    return Passage(
        document_id=DocumentId(document),
        document_name=f"{document}.txt",
        document_title=title,
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
    return [quote for statement in found.statements for quote in statement.quotes]


def supports(source: str, statement: str, question: str = "?") -> bool:
    return attribute(statement, question, [passage(source)]).is_supported


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


def test_a_mark_decides_between_equals_and_a_mark_of_nothing_is_ignored() -> None:
    twin = passage(ENGLISH.text, document="doc_b", start=0)
    question = "When was the licence signed?"
    (by_mark,) = quotes(attribute("The licence was signed in 1998 [2].", question, [ENGLISH, twin]))
    assert by_mark.document_id == "doc_b"
    (by_words,) = quotes(attribute("The licence was signed in 1998 [9].", question, [ENGLISH, twin]))
    assert by_words.document_id == "doc_a"


@pytest.mark.parametrize(
    ("answer", "documents"),
    [
        ("It offers six consoles. [2] The licence was signed in 1998. [1]", ["doc_b", "doc_a"]),
        ("[2] It offers six consoles. [1] The licence was signed in 1998.", ["doc_b", "doc_a"]),
        ("It offers six consoles【2】. The licence was signed in 1998 [1, 2].", ["doc_b", "doc_a"]),
    ],
)
def test_marks_belong_to_the_sentence_before_them_unless_the_answer_begins_with_one(
    answer: str, documents: list[str]
) -> None:
    twin = passage(ENGLISH.text, document="doc_b", start=0)
    found = attribute(answer, "?", [ENGLISH, twin])
    assert [quote.document_id for quote in quotes(found)] == documents
    assert [s.text for s in found.statements] == [
        "It offers six consoles.",
        "The licence was signed in 1998.",
    ]


def test_what_stands_nowhere_is_unsupported() -> None:
    found = attribute("Bananas grow on Mars.", "Where do bananas grow?", [ENGLISH, CHINESE])
    assert not found.is_supported


@pytest.mark.parametrize(
    ("source", "true", "false"),
    [
        (
            "The licence was signed in 1998.",
            "The licence was signed in 1998.",
            "The licence was signed in 1999.",
        ),
        (
            "The lake holds 1.2 million tonnes.",
            "The lake holds 1,200,000 tonnes.",
            "The lake holds 1.3 million tonnes.",
        ),
        ("Neptune has fourteen known moons.", "Neptune has 14 known moons.", "Neptune has 41 known moons."),
        ("关云长的刀重八十二斤。", "关云长的刀重82斤。", "关云长的刀重八十三斤。"),
        ("该公司于二〇〇八年上市。", "该公司于2008年上市。", "该公司于2018年上市。"),
        ("项目投资3.5万元。", "项目投资三万五千元。", "项目投资三万元。"),
        ("主镜的口径是二点四米。", "主镜的口径是2.4米。", "主镜的口径是四点二米。"),
        ("全镇有一点四万人。", "全镇有14000人。", "全镇有一点五万人。"),
    ],
)
def test_numbers_must_stand_in_the_source_however_they_are_written(
    source: str, true: str, false: str
) -> None:
    assert supports(source, true)
    assert not supports(source, false)


@pytest.mark.parametrize(
    ("source", "true", "false"),
    [
        ("Members cannot vote by post.", "Members cannot vote by post.", "Members can vote by post."),
        ("Members may vote by post.", "Members may vote by post.", "Members may not vote by post."),
        (
            "The probe failed to reach its orbit.",
            "The probe did not reach its orbit.",
            "The probe did reach its orbit.",
        ),
        ("合同未经双方签署。", "合同没有经双方签署。", "合同已经双方签署。"),
        ("员工可以携带宠物上班。", "员工可以携带宠物上班。", "员工不可以携带宠物上班。"),
        ("这不仅是河流，还是国界。", "这是河流，还是国界。", "这不是河流，也不是国界。"),
    ],
)
def test_a_source_never_supports_its_own_denial(source: str, true: str, false: str) -> None:
    assert supports(source, true)
    assert not supports(source, false)


@pytest.mark.parametrize(
    ("source", "true", "false"),
    [
        (
            "London hosted the 1998 games in July.",
            "London hosted the 1998 games.",
            "Paris hosted the 1998 games.",
        ),
        (
            "The prize went to Marie Curie in 1903.",
            "The prize went to Curie in 1903.",
            "The prize went to Bohr in 1903.",
        ),
        ("关云长造青龙偃月刀。", "关云长造青龙偃月刀。", "张飞造青龙偃月刀。"),
        ("北京举办了世界园艺博览会。", "世界园艺博览会由北京举办。", "上海举办了世界园艺博览会。"),
        ("本服务使用 PostgreSQL 保存数据。", "服务使用 PostgreSQL 保存数据。", "服务使用 MongoDB 保存数据。"),
    ],
)
def test_a_source_never_supports_another_name(source: str, true: str, false: str) -> None:
    question = "Was it Paris, 张飞, 上海 or MongoDB?"
    assert supports(source, true, question)
    assert not supports(source, false, question)


def test_a_pronoun_may_stand_for_a_name_that_its_context_has() -> None:
    source = passage("Triton is the largest moon of Neptune. It orbits backwards in under six days.")
    found = attribute("Triton orbits backwards in under six days.", "How does Triton orbit?", [source])
    assert [quote.text for quote in quotes(found)] == ["It orbits backwards in under six days."]
    assert not attribute("Io orbits backwards in under six days.", "?", [source]).is_supported


@pytest.mark.parametrize(
    ("source", "statement", "span"),
    [
        (
            "The bridge opened in May. Its two towers are eighty metres high. A toll is charged.",
            "The bridge opened in May with two towers eighty metres high.",
            "The bridge opened in May. Its two towers are eighty metres high.",
        ),
        (
            "大桥于五月通车。两座桥塔高八十米。过桥收费。",
            "大桥于五月通车，两座桥塔高八十米。",
            "大桥于五月通车。两座桥塔高八十米。",
        ),
    ],
)
def test_two_adjoining_sentences_may_support_one(source: str, statement: str, span: str) -> None:
    (quote,) = quotes(attribute(statement, "?", [passage(source)]))
    assert quote.text == span


def test_a_sentence_of_two_clauses_may_rest_on_two_documents() -> None:
    first = passage("Neptune has fourteen known moons.")
    second = passage("Saturn has seven main rings of ice.", document="doc_b")
    found = attribute(
        "Neptune has fourteen known moons, and Saturn has seven main rings.", "?", [first, second]
    )
    (statement,) = found.statements
    assert [quote.document_id for quote in statement.quotes] == ["doc_a", "doc_b"]
    half = attribute(
        "Neptune has fourteen known moons, and Saturn has nine main rings.", "?", [first, second]
    )
    assert not half.is_supported


@pytest.mark.parametrize(
    "answer", ["Yes. The licence was signed in 1998.", "Yes, the licence was signed in 1998."]
)
def test_a_bare_yes_is_of_one_piece_with_its_reason(answer: str) -> None:
    (statement,) = attribute(answer, "Was it signed?", [ENGLISH]).statements
    assert statement.text == answer
    assert statement.quotes


class TwoMeanings(HashingEmbedder):
    """Knows that some sentences mean the same, whatever their words; unrelated ones are unlike."""

    def __init__(self, *same: str) -> None:
        super().__init__()
        self._same = same

    def _embed(self, texts: Sequence[str]) -> Embeddings:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for i, text in enumerate(texts):
            known = any(text == each for each in self._same)
            vectors[
                i,
                0 if known else 1 + BACKGROUND_SENTENCES.index(text) if text in BACKGROUND_SENTENCES else 99,
            ] = 1
        return Embeddings(vectors, tuple(1 for _ in texts), 0.0)


@pytest.mark.parametrize(
    ("source", "true", "false"),
    [
        (
            "海王星有十四颗已知的卫星。",
            "Neptune has fourteen known moons.",
            "Neptune has twelve known moons.",
        ),
        ("Members cannot vote by post.", "会员不能通过邮寄投票。", "会员能够通过邮寄投票。"),
        ("The work was finished in March 1998.", "工程于1998年3月完工。", "工程于1999年3月完工。"),
        (
            "The firm dismissed a third of staff.",
            "The firm let a third of its staff go.",
            "The firm let no third of its staff go.",
        ),
    ],
)
def test_a_paraphrase_is_found_by_its_meaning_and_never_one_that_contradicts(
    source: str, true: str, false: str
) -> None:
    embedder = TwoMeanings(source, true, false)  # as a model that cannot tell true from false
    assert not attribute(true, "?", [passage(source)]).is_supported or true.isascii() == source.isascii()
    assert attribute(true, "?", [passage(source)], vectors=SentenceVectors(embedder)).is_supported
    assert not attribute(false, "?", [passage(source)], vectors=SentenceVectors(embedder)).is_supported
