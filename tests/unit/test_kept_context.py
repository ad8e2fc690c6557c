"""What of a prompt the engine is asked to keep."""

from __future__ import annotations

from core.ids import DocumentId
from generation.kept_context import kept_text
from generation.material import Excerpt
from generation.prompt import Prompt
from generation.segments import Segment
from retrieval.passages import Passage


def excerpt(document_id: str, *, is_static: bool) -> Excerpt:
    passage = Passage(
        document_id=DocumentId(document_id),
        document_name="年报.pdf",
        document_title="",
        start=0,
        end=4,
        first_page=1,
        last_page=1,
        headings=(),
        text="text",
        score=0.0,
        chunk_ids=(),
        dense_score=None,
        lexical_score=None,
        dense_rank=None,
        lexical_rank=None,
        num_generator_tokens=4,
        has_gaps=False,
    )
    return Excerpt(passage, "text", is_whole=True, is_static=is_static)


def prompt(*excerpts: Excerpt) -> Prompt:
    passages = [Segment("passage", (1, 2, 3, 4), (excerpt.id,)) for excerpt in excerpts]
    segments = (Segment("system", (9, 9, 9)), *passages, Segment("question", (5, 5)))
    return Prompt(
        token_ids=tuple(token for segment in segments for token in segment.token_ids),
        segments=segments,
        included=(),
        dropped=(),
        num_dropped_turns=0,
    )


def test_the_prompt_is_kept_up_to_the_end_of_the_static_document() -> None:
    static = excerpt("doc_1", is_static=True)
    kept = kept_text(prompt(static), [static])
    assert kept is not None
    assert (kept.num_tokens, kept.label) == (7, "doc_1")


def test_nothing_is_kept_of_other_documents_nor_of_a_prompt_that_lost_it() -> None:
    static, other = excerpt("doc_1", is_static=True), excerpt("doc_2", is_static=False)
    assert kept_text(prompt(other), [other]) is None
    assert kept_text(prompt(other, static), [other, static]) is None
    assert kept_text(prompt(), [static]) is None
