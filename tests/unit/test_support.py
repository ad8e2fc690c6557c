from __future__ import annotations

import pytest

from core.ids import ChunkId, DocumentId
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors
from retrieval.support import BACKGROUND_SENTENCES, SupportEstimator, background_slice, is_han
from retrieval.support.answer_types import AnswerFinder, asked_types
from retrieval.support.evidence import MAX_SENTENCES, Evidence, weigh_sentences
from retrieval.support.facts import facts_asked
from retrieval.support.quantities import unit_fit
from retrieval.support.question_words import content_weights, is_question
from retrieval.support.years import year_conflicts
from retrieval.term_weights import TermWeights
from tests.hashing_embedder import HashingEmbedder

NILE = "The Nile is a river in Africa. The Nile is 6,650 kilometres long. Fish live in it."
BREAD = "Knead the dough for ten minutes. Let it rest in a warm place. Then bake it."
TANK = "该坦克于1979年开始服役。主炮口径为125毫米。乘员共三人。"
TEA = "把水烧开，再放入茶叶。泡三分钟即可饮用。"


def passage(text: str, *, title: str = "", score: float = 1.0) -> Passage:
    return Passage(
        document_id=DocumentId("doc_1"),
        document_name="doc_1.txt",
        document_title=title,
        start=0,
        end=len(text),
        first_page=1,
        last_page=1,
        headings=(),
        text=text,
        score=score,
        chunk_ids=(ChunkId(1),),
        dense_score=0.9,
        lexical_score=5.0,
        dense_rank=1,
        lexical_rank=1,
        num_generator_tokens=50,
        has_gaps=False,
    )


def weigh(question: str, *texts: str, title: str = "") -> list[Evidence]:
    return weigh_sentences(
        question,
        [passage(text, title=title) for text in texts],
        vectors=None,
        query_vector=None,
        background=None,
    )


@pytest.mark.parametrize(
    ("question", "answers", "does_not"),
    [("How long is the Nile?", NILE, BREAD), ("主炮口径是多少？", TANK, TEA), ("口径是多少？", TANK, TEA)],
)
def test_words_alone_tell_an_answer_from_another_subject(question: str, answers: str, does_not: str) -> None:
    estimator = SupportEstimator()
    supported = estimator.estimate(question, [passage(answers)])
    refused = estimator.estimate(question, [passage(does_not)])
    assert supported.is_supported
    assert supported.reasons == ()
    assert not refused.is_supported
    assert refused.reasons
    assert 0.0 <= refused.value < supported.value <= 1.0


@pytest.mark.parametrize(
    ("question", "answers", "does_not"), [("How long is the Nile?", NILE, BREAD), ("口径是多少？", TANK, TEA)]
)
def test_vectors_and_words_together_tell_an_answer_from_another_subject(
    question: str, answers: str, does_not: str
) -> None:
    embedder = HashingEmbedder()

    def value(text: str) -> float:
        support = SupportEstimator(embedder).estimate(
            question,
            [passage(text)],
            vectors=SentenceVectors(embedder),
            query_vector=embedder.embed_queries([question]).vectors[0],
        )
        return support.value

    assert value(answers) > value(does_not)


@pytest.mark.parametrize("texts", [(), ("  \n ",)])
def test_nothing_to_read_supports_nothing(texts: tuple[str, ...]) -> None:
    support = SupportEstimator().estimate("Why?", [passage(text) for text in texts])
    assert (support.value, support.is_supported) == (0.0, False)


def test_a_threshold_of_the_caller_replaces_the_calibrated_one() -> None:
    assert SupportEstimator(min_support=0.0).estimate("How long is the Nile?", [passage(BREAD)]).is_supported
    assert (
        not SupportEstimator(min_support=1.0).estimate("How long is the Nile?", [passage(NILE)]).is_supported
    )


def test_words_alone_refuse_nothing_across_scripts() -> None:
    assert SupportEstimator().estimate("How large is the calibre?", [passage(TANK)]).is_supported
    assert SupportEstimator().estimate("尼罗河有多长？", [passage(NILE)]).is_supported


def test_only_stop_words_are_judged_without_fault() -> None:
    for question in ("What is it?", "是什么？", "?!", "的" * 50_000):
        assert 0.0 <= SupportEstimator().estimate(question, [passage(NILE), passage(TANK)]).value <= 1.0


def test_sentences_already_embedded_are_not_embedded_again_and_their_number_is_bounded() -> None:
    embedder = HashingEmbedder()
    vectors, estimator = SentenceVectors(embedder), SupportEstimator(embedder)
    text = " ".join(f"Sentence number {i} is about the Nile." for i in range(100))
    query = embedder.embed_queries(["Nile"]).vectors[0]
    first = estimator.estimate("Nile", [passage(text)], vectors=vectors, query_vector=query)
    assert len(embedder.passages_embedded) == MAX_SENTENCES + len(BACKGROUND_SENTENCES)
    again = estimator.estimate("Nile", [passage(text)], vectors=vectors, query_vector=query)
    assert len(embedder.passages_embedded) == MAX_SENTENCES + len(BACKGROUND_SENTENCES)
    assert again == first


def test_two_facts_are_supported_as_far_as_the_worse_off_of_them() -> None:
    question, one = "香港和澳门的人口分别是多少？", "香港的人口是750万人。"
    both = SupportEstimator().estimate(question, [passage(one), passage("澳门的人口是68万人。")])
    half = SupportEstimator().estimate(question, [passage(one), passage("把水烧开，再放入茶叶。")])
    assert both.value > half.value


def test_two_facts_are_embedded_each() -> None:
    embedder = HashingEmbedder()
    support = SupportEstimator(embedder).estimate(
        "甲坦克和乙坦克的主炮口径分别是多少？",
        [passage(TANK)],
        vectors=SentenceVectors(embedder),
        query_vector=embedder.embed_queries(["坦克"]).vectors[0],
    )
    assert 0.0 <= support.value <= 1.0


def test_the_title_counts_where_the_sentence_leaves_its_subject_out() -> None:
    question, text = "What calibre has the gun of the T-72?", "Its gun has a calibre of 125 mm."
    (without,), (with_title,) = weigh(question, text), weigh(question, text, title="T-72")
    assert with_title.window > without.window


def test_a_sentence_about_another_year_is_told() -> None:
    (same,), (other,) = (
        weigh("Who won in 2019?", "Ann won in 2019."),
        weigh("Who won in 2019?", "Ann won in 2018."),
    )
    assert (same.year_conflict, other.year_conflict) == (0.0, 1.0)
    assert "another year" in " ".join(other.objections())
    assert SupportEstimator().estimate("2021年产量是多少？", [passage("2021年产量为5万吨。")]).value > (
        SupportEstimator().estimate("2021年产量是多少？", [passage("2020年产量为5万吨。")]).value
    )


@pytest.mark.parametrize(
    ("question", "heading", "sentences", "conflicts"),
    [
        (
            "谁赢了2019年的比赛？",
            "",
            ["比赛开始。", "2018年甲赢了。", "他很高兴。", "2019年乙赢了。"],
            [0.5, 1, 1, 0],
        ),
        ("Who won in 2019?", "Results 2019", ["Ann won.", "In 2018 Bob won."], [0, 1]),
        ("Who won?", "", ["In 2018 Bob won."], [0]),
        ("产品2019号", "", ["12019年"], [0.5]),
    ],
)
def test_a_sentence_without_a_year_is_about_the_last_one(
    question: str, heading: str, sentences: list[str], conflicts: list[float]
) -> None:
    assert list(year_conflicts(question, heading, sentences)) == conflicts


def test_words_of_the_question_that_are_nowhere_are_named() -> None:
    assert "zanzibar" in weigh("How large is Zanzibar?", NILE)[0].missing_words


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("When was it founded?", ("time",)),
        ("它是何时成立的？", ("time",)),
        ("How many bridges are there?", ("number",)),
        ("口径是多少？", ("number",)),
        ("2022年特斯拉交付量", ("number",)),
        ("Where does he live?", ("place",)),
        ("他住在哪里？", ("place",)),
        ("坠毁的时间和地点", ("time", "place")),
        ("Who wrote it?", ("person",)),
        ("《人世间》的编剧是谁", ("person",)),
        ("Describe the plan.", ()),
        ("为什么离婚？", ()),
    ],
)
def test_the_kind_of_answer_asked_for_is_told(question: str, kinds: tuple[str, ...]) -> None:
    assert asked_types(question) == kinds


@pytest.mark.parametrize(
    ("question", "sentence", "worth"),
    [
        ("When did the club of 1912 move?", "The club of 1912 moved.", -1.0),
        ("When did the club of 1912 move?", "The club of 1912 moved in 1950.", 1.0),
        ("Why did it move?", "Nobody knows.", 0.0),
        ("2021年的产量是多少？", "2021年的产量很高。", -1.0),
        ("2021年的产量是多少？", "2021年的产量达５万吨。", 1.0),
        ("2021年的产量是多少？", "2021年的产量增长8%。", -0.5),
        ("有几个国家参加？", "一个国家没有参加，共有45个国家参加。", 1.0),
        ("《人世间》的编剧是谁", "《人世间》的编剧由王海鸰担任。", 1.0),
        ("《人世间》的编剧是谁", "《人世间》的编剧停止工作了。", -1.0),
        ("Who wrote Emma?", "Emma was written by Jane Austen.", 1.0),
        ("Who wrote Emma?", "it was written long ago.", -1.0),
        ("班列的起点在哪里？", "班列从南宁开出。", 1.0),
    ],
)
def test_what_could_answer_is_found_and_what_the_question_says_is_not(
    question: str, sentence: str, worth: float
) -> None:
    assert AnswerFinder.of(question).match(sentence) == worth


@pytest.mark.parametrize(
    ("question", "number", "fit"),
    [
        ("票房是多少", "1.2亿元", "right"),
        ("票房是多少", "342万人", "right"),
        ("票房是多少", "3天", "wrong"),
        ("有多少人遇难", "93人", "right"),
        ("加息几次", "四次", "right"),
        ("加息几次", "25个", "wrong"),
        ("是多少", "5", "unknown"),
        ("How tall is it?", "12 metres", "right"),
        ("How many balls?", "four", "unknown"),
    ],
)
def test_a_number_is_held_against_the_unit_asked_for(question: str, number: str, fit: str) -> None:
    assert unit_fit(question, number) == fit


@pytest.mark.parametrize(
    ("question", "facts"),
    [
        ("2021年香港和澳门的GDP增长率", ("2021年香港的GDP增长率", "2021年澳门的GDP增长率")),
        (
            "油田2021年和2022年的产量分别是多少？",
            ("油田2021年的产量分别是多少？", "油田2022年的产量分别是多少？"),
        ),
        ("《老人和海》的作者是谁？", None),
        ("中国和美国之间的距离是多少？", None),
        ("他和谁结婚了？", None),
        ("When and where was she born?", None),
        ("和", None),
    ],
)
def test_two_things_joined_in_one_question_are_two_facts(
    question: str, facts: tuple[str, ...] | None
) -> None:
    assert facts_asked(question) == (facts or (question,))


def test_question_words_do_not_count_unless_there_are_no_others() -> None:
    weights = TermWeights.of("口径是多少？", [])
    assert set(content_weights(weights).weights) == {"口径"}
    only = TermWeights.of("是多少？", [])
    assert content_weights(only) == only


@pytest.mark.parametrize("text", ["Who was it?", "谁知道他叫什么？", "请问怎么走"])
def test_a_sentence_that_asks_is_not_one_that_answers(text: str) -> None:
    assert is_question(text)
    assert not is_question("She asked who it was.")


def test_background_is_in_the_language_of_the_text() -> None:
    assert is_han("这是 a test 中文句子")
    assert not is_han("mostly English 中")
    assert BACKGROUND_SENTENCES[background_slice("中文")][0] == "由于会议室被占用，会议推迟到下周举行。"
