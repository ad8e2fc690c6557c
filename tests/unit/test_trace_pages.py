"""A trace as a page and in the terminal."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from api.schemas.traces import Trace
from api.trace_page import render_trace, shaded_tokens
from cli.trace_view import print_trace
from storage.models import Answer
from storage.trace_redaction import redact
from tests.trace_samples import ATTENTION, full_trace, light_trace

PASSAGES = [
    {
        "document_id": "doc_1",
        "document_name": "<i>三国</i>.txt",
        "start": 0,
        "end": 30,
        "first_page": 3,
        "headings": [],
    }
]


def page(trace: dict[str, Any]) -> str:
    answer = Answer(id="ans_1", question="重多少<b>斤</b>？", text="八十二斤。 [1]", passages=PASSAGES)
    return render_trace(Trace.model_validate(trace), answer)


def test_all_foreign_text_is_escaped_and_nothing_is_loaded() -> None:
    html = page(full_trace(attention=ATTENTION))
    assert "&lt;script&gt;alert(1)" in html
    assert "<script" not in html
    assert "<i>三国" not in html
    assert "<b>斤" not in html
    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
    assert "http" not in html.replace("http-equiv", "")


def test_tokens_that_share_a_character_write_it_once() -> None:
    trace = Trace.model_validate(full_trace())
    tokens = shaded_tokens(trace.generations[0])
    assert "".join(token.text for token in tokens) == "八十二斤。"
    assert tokens[0].shade > tokens[3].shade
    assert "token 100" in tokens[0].hint


def test_heat_maps_show_citations_and_attention_with_the_document_s_name() -> None:
    html = page(full_trace(attention=ATTENTION))
    assert html.count("1 · &lt;i&gt;三国&lt;/i&gt;.txt, p. 3") >= 2
    assert "[1]" in html
    assert "mean over all layers and heads" in html
    assert "<svg" in html


@pytest.mark.parametrize("make", [light_trace, lambda: redact(full_trace(attention=ATTENTION))])
def test_a_light_or_redacted_trace_gives_a_page_without_text(make: Any) -> None:
    trace = make()
    if trace["detail"] == "full":
        trace["redacted_at"] = "2026-12-01T00:00:00Z"
    html = page(trace)
    assert "关云长" not in html
    assert "60" in html


def test_a_trace_without_a_model_shows_its_sentences() -> None:
    trace = full_trace() | {"generations": [], "answer_generation": None, "engine": None}
    trace["sentences"] = [
        {"passage": "doc_1:0-30", "start": 0, "end": 5, "score": 1.5, "overlap": 1.0, "text": "八十二斤。"},
        {"passage": "doc_1:0-30", "start": 6, "end": 9, "score": 0.5, "overlap": 0.2},
    ]
    assert "Sentences chosen" in page(trace)


@pytest.mark.parametrize(
    "make", [light_trace, lambda: full_trace(attention=ATTENTION), lambda: redact(full_trace())]
)
def test_the_terminal_shows_every_kind_of_trace(make: Any) -> None:
    answer: Any = {
        "mode": "abstractive",
        "outcome": "answered",
        "status": "succeeded",
        "text": "八十二斤。 [1]",
        "passages": PASSAGES,
    }
    out = StringIO()
    print_trace(make() | {"redacted_at": None}, answer, Console(file=out, width=160))
    assert "60 prompt tokens, 32 cached" in out.getvalue()
    assert "KV space 25% full" in out.getvalue()
    assert "[1]" in out.getvalue()
