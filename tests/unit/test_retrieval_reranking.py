from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from core.ids import ChunkId, DocumentId
from inference.protocols import RerankScores
from retrieval.fusion import FusedChunk
from retrieval.reranking import ModelReranker, SentenceReranker
from retrieval.sentence_vectors import SentenceVectors
from storage.chunks import LiveChunk
from tests.hashing_embedder import HashingEmbedder


class CountingReranker:
    """Likes long passages, in numbers below zero, as some cross-encoders give."""

    name, revision = "counting", "1"

    def __init__(self) -> None:
        self.read: list[str] = []

    def rerank(self, question: str, passages: Sequence[str]) -> RerankScores:
        self.read += passages
        scores = np.array([len(passage) - 1000.0 for passage in passages], dtype=np.float32)
        return RerankScores(scores, num_tokens=7 * len(passages), seconds=0.5)


def live_chunk(number: int, text: str, title: str = "") -> LiveChunk:
    return LiveChunk(
        id=ChunkId(number),
        document_id=DocumentId(f"doc_{number}"),
        document_name="a.txt",
        document_title=title,
        position=0,
        start=0,
        end=len(text),
        first_page=1,
        last_page=1,
        headings=(),
        text=text,
        num_generator_tokens=10,
    )


def fused(*texts: str, step: float = 0.1) -> tuple[list[FusedChunk], dict[ChunkId, LiveChunk]]:
    """Chunks in this order, hardly apart."""
    live = {ChunkId(i): live_chunk(i, text) for i, text in enumerate(texts, start=1)}
    ranking = [
        FusedChunk(chunk_id, step * (len(texts) - i), fused_rank=i + 1) for i, chunk_id in enumerate(live)
    ]
    return ranking, live


def sentence_rerank(
    question: str, texts: Sequence[str], *, lexical_weight: float = 1.0, num_reranked: int = 30
) -> tuple[list[int], HashingEmbedder]:
    embedder = HashingEmbedder()
    ranking, live = fused(*texts)
    reranked = SentenceReranker(num_reranked=num_reranked).rerank(
        question,
        ranking,
        live,
        query_vector=embedder.embed_queries([question]).vectors[0],
        vectors=SentenceVectors(embedder),
        lexical_weight=lexical_weight,
    )
    assert [c.score for c in reranked.ranking] == sorted((c.score for c in reranked.ranking), reverse=True)
    assert sum(use.num_tokens for use in reranked.uses) > 0
    return [int(chunk.chunk_id) for chunk in reranked.ranking], embedder


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        (
            "When was the old bridge closed to traffic?",
            (
                "The harbour has three piers. Ferries leave every hour.",
                "Cattle graze on the meadow. The old bridge was closed to traffic in May. Birds return in spring.",
            ),
        ),
        (
            "那座旧桥什么时候禁止通行？",
            ("港口有三个码头。渡船每小时一班。", "草地上有牛群。那座旧桥五月起禁止通行。春天有鸟飞回。"),
        ),
    ],
)
def test_the_chunk_with_the_sentence_that_answers_comes_first(question: str, texts: tuple[str, str]) -> None:
    order, _ = sentence_rerank(question, texts)
    assert order == [2, 1]


def test_words_in_the_order_of_the_question_count() -> None:
    order, _ = sentence_rerank(
        "pressure relief valve", ("valve of relief and pressure", "the pressure relief valve")
    )
    assert order == [2, 1]


def test_few_sentences_are_embedded_however_long_the_chunks() -> None:
    text = " ".join(f"Sentence number {i} is about the river." for i in range(40))
    _, embedder = sentence_rerank("How long is the river?", [f"{text} Chapter {i}." for i in range(30)])
    assert len(embedder.passages_embedded) <= 30


def test_what_is_not_reranked_stays_behind_in_its_order() -> None:
    texts = ["nothing here", "nor here", "the red key opens it", "the red key opens the door"]
    order, _ = sentence_rerank("What does the red key open?", texts, num_reranked=2)
    assert order[2:] == [3, 4]


def test_words_do_not_count_where_they_cannot_be_trusted() -> None:
    texts = ["无关的内容在这里", "pressure relief valve"]
    embedder = HashingEmbedder()
    ranking, live = fused(*texts, step=5.0)
    blind = SentenceReranker(num_reranked=30).rerank(
        "pressure relief valve",
        ranking,
        live,
        query_vector=np.zeros(embedder.dimension, dtype=np.float32),
        vectors=SentenceVectors(embedder),
        lexical_weight=0.0,
    )
    assert [chunk.score for chunk in blind.ranking] == [chunk.score for chunk in ranking]


def test_sentences_known_already_cost_nothing_again() -> None:
    embedder = HashingEmbedder()
    vectors = SentenceVectors(embedder)
    ranking, live = fused("The river is long.", "The road is short.")
    query = embedder.embed_queries(["How long is the river?"]).vectors[0]
    arguments: dict[str, Any] = {"query_vector": query, "vectors": vectors, "lexical_weight": 1.0}
    reranker = SentenceReranker(num_reranked=30)
    first = reranker.rerank("How long is the river?", ranking, live, **arguments)
    again = reranker.rerank("How long is the river?", ranking, live, **arguments)
    assert len(first.uses) == 1
    assert again.uses == ()
    assert again.ranking == first.ranking


def test_a_cross_encoder_orders_the_first_and_reports_what_it_read() -> None:
    model = CountingReranker()
    ranking, live = fused(
        "short", "a longer text", "the longest text of all", "a very long text that is not read"
    )
    reranked = ModelReranker(model, num_reranked=3).rerank(
        "?",
        ranking,
        live,
        query_vector=np.zeros(1, dtype=np.float32),
        vectors=SentenceVectors(HashingEmbedder()),
        lexical_weight=1.0,
    )
    assert [int(chunk.chunk_id) for chunk in reranked.ranking] == [3, 2, 1, 4]
    assert [chunk.score for chunk in reranked.ranking] == [chunk.score for chunk in ranking]
    assert [chunk.fused_rank for chunk in reranked.ranking] == [3, 2, 1, 4]
    (use,) = reranked.uses
    assert (use.model, use.num_tokens, use.seconds) == ("counting", 21, 0.5)


def test_nothing_found_is_reranked_to_nothing() -> None:
    nothing: dict[str, Any] = {"query_vector": np.zeros(1, dtype=np.float32), "lexical_weight": 1.0}
    vectors = SentenceVectors(HashingEmbedder())
    for reranker in (ModelReranker(CountingReranker(), num_reranked=3), SentenceReranker(num_reranked=3)):
        found = reranker.rerank("?", [], {}, vectors=vectors, **nothing)
        assert (found.ranking, found.uses) == ([], ())


def test_chunks_without_a_sentence_keep_their_place() -> None:
    embedder = HashingEmbedder()
    ranking, live = fused("。", " ")
    reranked = SentenceReranker(num_reranked=30).rerank(
        "?",
        ranking,
        live,
        query_vector=np.zeros(embedder.dimension, dtype=np.float32),
        vectors=SentenceVectors(embedder),
        lexical_weight=1.0,
    )
    assert [int(chunk.chunk_id) for chunk in reranked.ranking] == [1, 2]
    assert all(np.isfinite(chunk.score) for chunk in reranked.ranking)
