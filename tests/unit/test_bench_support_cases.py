from __future__ import annotations

from bench.support_cases import without_answer
from core.ids import ChunkId, DocumentId
from retrieval.passages import Passage


def passage(text: str) -> Passage:
    return Passage(
        document_id=DocumentId("doc_1"),
        document_name="doc_1.txt",
        document_title="",
        start=0,
        end=len(text),
        first_page=1,
        last_page=1,
        headings=(),
        text=text,
        score=1.0,
        chunk_ids=(ChunkId(1),),
        dense_score=None,
        lexical_score=None,
        dense_rank=None,
        lexical_rank=None,
        num_generator_tokens=50,
        has_gaps=False,
    )


def test_every_sentence_with_an_answer_is_taken_out_and_no_other() -> None:
    text = "该坦克于1979年服役。主炮口径为125毫米。口径125毫米的炮很大。乘员三人。"
    assert without_answer(passage(text), ["125 毫米"]).text == "该坦克于1979年服役。\n乘员三人。"
    assert without_answer(passage("The gun is 125 mm. It is old."), ["125 mm"]).text == "It is old."


def test_a_passage_without_the_answer_is_left_as_it_is() -> None:
    own = passage("乘员三人。 它很旧。")
    assert without_answer(own, ["125毫米"]) is own
