"""The coarse level: which documents a question is about, told by their chunks together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from core.ids import ChunkId, DocumentId

NUM_CHUNKS = 12


def document_standings(
    deviations: Mapping[ChunkId, float], documents: Mapping[ChunkId, DocumentId]
) -> dict[DocumentId, float]:
    """How near each document comes as a whole: the mean of its twelve best chunks.

    Args:
        deviations: of the candidates, from the dense side.
        documents: the one that each candidate is of.

    A document with fewer candidates than that is filled up with the least of all, so that of
    documents of one chunk each the order stays as it is. Vectors of written outlines (title, headings, first
    sentences) and of the mean of a document's chunks were measured too: they order documents no better than
    this, which needs no index of its own.
    """
    least = min(deviations.values(), default=0.0)
    of_document: defaultdict[DocumentId, list[float]] = defaultdict(list)
    for chunk_id, deviation in deviations.items():
        of_document[documents[chunk_id]].append(deviation - least)
    return {
        document_id: least + sum(sorted(own, reverse=True)[:NUM_CHUNKS]) / NUM_CHUNKS
        for document_id, own in of_document.items()
    }
