from __future__ import annotations

import pytest

from core.ids import ChunkId, DocumentId
from retrieval.extraction import EmbeddingExtractor
from retrieval.passages import Passage
from retrieval.support import BACKGROUND_SENTENCES, background_slice, estimate_support, is_han
from retrieval.term_weights import TermWeights, terms_of
from tests.hashing_embedder import HashingEmbedder

ENGLISH = "The river is long. The Nile is 6,650 kilometres long. Fish live in it."
CHINESE = "桃园三结义。关羽造青龙偃月刀，重八十二斤。张飞造丈八点钢矛。"


def passage(text: str, *, start: int = 100, score: float = 1.0, name: str = "doc_1") -> Passage:
    return Passage(
        document_id=DocumentId(name),
        document_name=f"{name}.txt",
        document_title="",
        start=start,
        end=start + len(text),
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


@pytest.mark.parametrize(
    ("question", "answer"),
    [("How long is the Nile?", "6,650 kilometres"), ("青龙偃月刀重多少斤？", "八十二斤")],
)
def test_the_sentence_that_answers_comes_first_in_either_language(question: str, answer: str) -> None:
    extraction = EmbeddingExtractor(HashingEmbedder()).extract(
        question, [passage(ENGLISH), passage(CHINESE, name="doc_2")]
    )
    assert answer in extraction.sentences[0].text
    assert len(extraction.sentences) == 2


def test_sentences_are_verbatim_spans_of_their_document() -> None:
    source = "x" * 100 + ENGLISH
    for sentence in EmbeddingExtractor(HashingEmbedder()).extract("Nile", [passage(ENGLISH)]).sentences:
        assert source[sentence.start : sentence.end] == sentence.text
        assert sentence.document_id == "doc_1"


def test_nothing_to_read_gives_no_sentence_and_no_support() -> None:
    embedder = HashingEmbedder()
    extraction = EmbeddingExtractor(embedder).extract("Why?", [passage("  \n ")])
    assert (extraction.sentences, extraction.support, extraction.num_embedded_tokens) == ((), 0.0, 0)
    assert EmbeddingExtractor(embedder).extract("Why?", []).sentences == ()
    assert embedder.passages_embedded == []


def test_cost_is_bounded_and_reported() -> None:
    embedder = HashingEmbedder()
    extractor = EmbeddingExtractor(embedder, max_sentences=5)
    text = " ".join(f"Sentence number {i} is here." for i in range(40)) + " The Nile is long."
    extraction = extractor.extract("How long is the Nile?", [passage(text)], num_sentences=1)
    assert len(embedder.passages_embedded) == 5 + len(BACKGROUND_SENTENCES)
    assert extraction.sentences[0].text == "The Nile is long."
    assert extraction.tokens_in == len(text)
    assert extraction.tokens_kept == len("The Nile is long.")
    assert extraction.num_embedded_tokens > 0


def test_background_is_embedded_once_at_nobodys_cost_and_a_given_question_not_at_all() -> None:
    embedder = HashingEmbedder()
    extractor = EmbeddingExtractor(embedder)
    vector = embedder.embed_queries(["Nile"]).vectors[0]
    embedder.queries_embedded.clear()
    first = extractor.extract("Nile", [passage(ENGLISH)], query_vector=vector)
    second = extractor.extract("Nile", [passage(ENGLISH)], query_vector=vector)
    assert embedder.queries_embedded == []
    assert embedder.passages_embedded.count(BACKGROUND_SENTENCES[0]) == 1
    assert second.num_embedded_tokens == first.num_embedded_tokens
    assert second.sentences == first.sentences


def test_a_better_passage_lifts_its_sentences() -> None:
    passages = [passage(ENGLISH, score=1.5), passage(ENGLISH, score=0.3, name="doc_2")]
    extraction = EmbeddingExtractor(HashingEmbedder()).extract("How long is the Nile?", passages)
    assert extraction.sentences[0].document_id == "doc_1"


@pytest.mark.parametrize("known", ["How long is the Nile?", "青龙偃月刀重多少斤？"])
def test_an_answered_question_has_more_support_than_a_foreign_one(known: str) -> None:
    extractor = EmbeddingExtractor(HashingEmbedder())
    passages = [passage(ENGLISH), passage(CHINESE, name="doc_2")]
    foreign = extractor.extract("Which enzyme unwinds mitochondrial DNA?", passages)
    assert extractor.extract(known, passages).support > 4 * foreign.support


def test_support_grows_with_similarity_and_overlap() -> None:
    low = estimate_support(similarity=0.80, background=0.75, overlap=0.1)
    assert 0.0 < low < estimate_support(similarity=0.90, background=0.75, overlap=0.1)
    assert low < estimate_support(similarity=0.80, background=0.75, overlap=0.9) < 1.0
    assert estimate_support(similarity=0.9, background=0.75, overlap=None) > 0.5
    assert 0.0 <= estimate_support(similarity=1.0, background=1.0, overlap=0.0) <= 1.0


def test_rare_terms_weigh_more_and_a_question_without_terms_overlaps_nothing() -> None:
    texts = [terms_of("the river"), terms_of("the sea"), terms_of("the zeppelin")]
    weights = TermWeights.of("the zeppelin", texts)
    assert weights.overlap(terms_of("zeppelin")) > 0.7
    assert weights.overlap(terms_of("the")) < 0.3
    assert weights.overlap(terms_of("the zeppelin")) == pytest.approx(1.0)
    assert TermWeights.of("？", texts).overlap({"the"}) == 0.0


def test_languages_are_told_apart_by_script() -> None:
    assert is_han("使用 GPU 训练模型")
    assert not is_han("The word 道 means way")
    assert not is_han("123 ?")
    assert all(is_han(sentence) for sentence in BACKGROUND_SENTENCES[background_slice("中文")])
    assert not any(is_han(sentence) for sentence in BACKGROUND_SENTENCES[background_slice("English")])
