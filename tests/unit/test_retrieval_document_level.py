from __future__ import annotations

import pytest

from core.ids import ChunkId, DocumentId
from retrieval.document_level import NUM_CHUNKS, document_standings


def standings(*documents: tuple[str, list[float]]) -> dict[str, float]:
    deviations, owners = {}, {}
    for name, values in documents:
        for value in values:
            chunk_id = ChunkId(len(deviations) + 1)
            deviations[chunk_id], owners[chunk_id] = value, DocumentId(name)
    return {str(key): value for key, value in document_standings(deviations, owners).items()}


def test_of_two_documents_with_the_same_best_chunk_the_one_with_more_good_ones_stands_higher() -> None:
    found = standings(("alone", [3.0, -1.0]), ("whole", [3.0, 2.0, 2.0]))
    assert found["whole"] > found["alone"]


def test_documents_of_one_chunk_stand_as_their_chunks_do() -> None:
    found = standings(("a", [2.0]), ("b", [1.0]), ("c", [-1.0]))
    assert found["a"] > found["b"] > found["c"] == -1.0


def test_a_long_document_gains_nothing_by_length_alone() -> None:
    short = standings(("doc", [1.0] * NUM_CHUNKS), ("other", [0.0]))
    long = standings(("doc", [1.0] * 50), ("other", [0.0]))
    assert long["doc"] == pytest.approx(short["doc"]) == pytest.approx(1.0)


def test_nothing_found_has_no_standing() -> None:
    assert standings() == {}
