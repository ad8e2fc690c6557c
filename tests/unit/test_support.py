from __future__ import annotations

import pytest

from core.ids import ChunkId, DocumentId
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors
from retrieval.support import BACKGROUND_SENTENCES, SupportEstimator, background_slice, is_han
from retrieval.support.answer_types import expected_type, names_answer
from retrieval.support.evidence import MAX_SENTENCES, Evidence, weigh_evidence
from retrieval.support.question_words import content_weights, is_question
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


def weigh(question: str, *texts: str, title: str = "") -> Evidence:
    found = weigh_evidence(
        question,
        [passage(text, title=title) for text in texts],
        vectors=None,
        query_vector=None,
        background=None,
    )
    assert found is not None
    return found


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


@pytest.mark.parametrize(("question", "answers"), [("How long is the Nile?", NILE), ("口径是多少？", TANK)])
def test_vectors_and_words_together_support_an_answer(question: str, answers: str) -> None:
    embedder = HashingEmbedder()
    support = SupportEstimator(embedder).estimate(
        question,
        [passage(answers)],
        vectors=SentenceVectors(embedder),
        query_vector=embedder.embed_queries([question]).vectors[0],
    )
    assert support.is_supported


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


def test_the_title_counts_where_the_sentence_leaves_its_subject_out() -> None:
    question = "What calibre has the gun of the T-72?"
    without, with_title = (
        weigh(question, "Its gun has a calibre of 125 mm."),
        weigh(question, "Its gun has a calibre of 125 mm.", title="T-72"),
    )
    assert with_title.window > without.window


def test_a_number_of_the_question_that_no_passage_has_is_noticed() -> None:
    assert weigh("Who won in 2019?", "Ann Lee won in 2019.").numbers_missing == 0.0
    found = weigh("Who won in 2019?", "Ann Lee won in 2018.")
    assert found.numbers_missing == 1.0
    assert "number" in " ".join(found.objections())


def test_words_of_the_question_that_are_nowhere_are_named() -> None:
    assert "zanzibar" in weigh("How large is Zanzibar?", NILE).missing_words


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When was it founded?", "time"),
        ("它是何时成立的？", "time"),
        ("How many bridges are there?", "number"),
        ("口径是多少？", "number"),
        ("Where does he live?", "place"),
        ("他住在哪里？", "place"),
        ("Who wrote it?", "person"),
        ("Describe the plan.", None),
        ("为什么离婚？", None),
    ],
)
def test_the_kind_of_answer_asked_for_is_told(question: str, kind: str | None) -> None:
    found = expected_type(question)
    assert (found.name if found else None) == kind


def test_what_the_question_itself_names_is_no_answer() -> None:
    names_time = names_answer("When did the club of 1912 move?")
    assert not names_time("The club of 1912 moved.")
    assert names_time("The club of 1912 moved in 1950.")
    assert names_answer("Why did it move?")("Nobody knows.")
    assert not names_answer("2021年的产量是多少？")("2021年的产量很高。")


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
