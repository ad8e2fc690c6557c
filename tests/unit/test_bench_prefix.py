"""Workloads, layouts and simulation of `bench prefix`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.prefix_simulation import (
    Library,
    PlannedLayout,
    SimulatedQuestion,
    any_order_bound,
    in_retrieval_order,
    in_stable_order,
    position_independent_bound,
    simulate,
)
from bench.prefix_systems import PEER_LAYOUTS, peer_prompt
from bench.prefix_workloads import burst, hot, multi_turn, overlapping, read_dragonball, zipf
from core.ids import DocumentId
from generation.prefix.pieces import Piece
from generation.prefix.static_context import Limits
from inference.resident_prefixes import CacheGeometry
from tests.pipeline_fixtures import WordTokenizer
from tests.prefix_pieces import piece

OPENING = tuple(range(16))
P = tuple(piece(f"p{n}", "p", start=n * 100) for n in range(8))
WHOLE = piece("whole", "p", size=800, key="whole:p")
LIBRARY = Library({DocumentId("p"): WHOLE}, {p.key: p for p in (*P, WHOLE)})


def found(*pieces: Piece) -> SimulatedQuestion:
    return SimulatedQuestion(pieces, pieces)


def computed(stream: Sequence[SimulatedQuestion], *, planned: bool) -> int:
    limits = Limits(rent_share=0.2, cached_token_share=0.1, max_static_tokens=1000, room_tokens=2000)
    layout = PlannedLayout(LIBRARY, limits, opening=OPENING) if planned else in_retrieval_order
    counted = simulate(stream, layout, geometry=CacheGeometry(16), opening=OPENING, closing_tokens=20)
    return counted.computed_tokens


def test_a_hot_document_is_computed_once() -> None:
    stream = [found(*(P[(n * 3 + k) % 8] for k in range(4))) for n in range(30)]
    assert computed(stream, planned=True) < 800 + 30 * 40
    assert computed(stream, planned=True) < 0.4 * computed(stream, planned=False)


def test_computed_tokens_lie_above_what_any_placement_needs() -> None:
    stream = [found(P[n % 8], P[(n * 5 + 1) % 8]) for n in range(12)]
    least = position_independent_bound(stream, closing_tokens=20)
    assert least == 8 * 100 + 12 * 20
    assert computed(stream, planned=True) >= least
    assert any_order_bound(stream, closing_tokens=20, block_tokens=16) > least


def test_a_stable_order_shares_what_a_ranking_does_not() -> None:
    stream = [found(P[0], P[1]), found(P[1], P[0])]
    counted = [
        simulate(
            stream, layout, geometry=CacheGeometry(16), opening=OPENING, closing_tokens=20
        ).computed_tokens
        for layout in (in_retrieval_order, in_stable_order)
    ]
    assert counted[1] < counted[0] - 190


def test_peers_prompts_hold_all_passages_and_the_question() -> None:
    tokenizer = WordTokenizer()
    passages = [P[0].passage, P[1].passage]
    for name, layout in PEER_LAYOUTS.items():
        text = tokenizer.decode(peer_prompt(tokenizer, layout("How long?", passages)))
        assert text.index("p0") < text.index("p1"), name
        assert "How long?" in text
        assert (text.index("How long?") < text.index("p0")) == (name == "langchain")


def test_workloads_are_drawn_from_the_data_and_repeat(tmp_path: Path) -> None:
    folder = tmp_path / "qa-dragonball"
    folder.mkdir()
    documents = [
        {"doc_id": n, "title": f"T{n}", "text": "x" * (9000 if n % 2 else 3000), "lang": "en"}
        for n in range(4)
    ]
    questions = [
        {"question": f"Q{n}.{k}?", "answer": "A", "answerable": k != 5, "doc_ids": [n]}
        for n in range(4)
        for k in range(6 + n)
    ]
    (folder / "docs.jsonl").write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
    data = read_dragonball(tmp_path)
    assert sorted(ask.text for ask in zipf(data).asks) == sorted(row["question"] for row in questions)
    assert zipf(data) == zipf(data)
    assert {ask.document for ask in hot(data, "report-2.txt", num_questions=3).asks} == {"report-2.txt"}
    assert all(ask.text != "Q2.5?" for ask in hot(data, "report-2.txt", num_questions=9).asks)
    assert [len(group) for group in multi_turn(data, num_conversations=2, num_turns=3).groups] == [3, 3]
    assert [len(group) for group in burst(data, ["report-1.txt", "report-2.txt"], num_clients=4).groups] == [
        4,
        4,
    ]
    assert len(overlapping(data, num_reports=2, num_questions=8).asks) == 8
