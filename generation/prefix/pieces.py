"""What stands in a prompt as one passage: a chunk, or a document whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NewType

from core.ids import ChunkId, DocumentId
from retrieval.passages import Passage

PieceKey = NewType("PieceKey", str)
"""Stays the same as long as the text does: chunk ids derive from it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage with its token ids, which are the same wherever it stands.

    Pieces of one key are equal, whatever scores the passage got for a question.
    """

    key: PieceKey
    passage: Passage = field(compare=False)
    token_ids: tuple[int, ...] = field(compare=False)

    @property
    def document_id(self) -> DocumentId:
        return self.passage.document_id

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole document."""
        return is_whole(self.key)

    @property
    def place(self) -> tuple[str, int]:
        """Sorts pieces where nothing is shared: the same for every question."""
        return self.passage.document_id, self.passage.start

    def __len__(self) -> int:
        return len(self.token_ids)


def chunk_key(chunk_id: ChunkId) -> PieceKey:
    return PieceKey(f"chunk:{chunk_id}")


def whole_key(document_id: DocumentId) -> PieceKey:
    return PieceKey(f"whole:{document_id}")


def is_whole(key: PieceKey) -> bool:
    return key.startswith("whole:")


def chunk_ids_of(keys: Sequence[PieceKey]) -> list[ChunkId]:
    """Those of the keys that are chunks."""
    return [ChunkId(int(key.removeprefix("chunk:"))) for key in keys if key.startswith("chunk:")]


def num_tokens(pieces: Sequence[Piece]) -> int:
    return sum(map(len, pieces))
