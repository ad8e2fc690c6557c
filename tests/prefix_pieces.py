"""Pieces of documents for tests of prefix planning."""

from __future__ import annotations

from zlib import crc32

from core.ids import ChunkId, DocumentId
from generation.prefix.pieces import Piece, PieceKey
from retrieval.passages import Passage


def piece(name: str, document: str = "doc", *, start: int = 0, size: int = 100, key: str = "") -> Piece:
    """A piece whose token ids are its own; `name` is its key unless one is given."""
    passage = Passage(
        document_id=DocumentId(document),
        document_name=document,
        document_title="",
        start=start,
        end=start + size,
        first_page=1,
        last_page=1,
        headings=(),
        text=name,
        score=1.0,
        chunk_ids=(ChunkId(1),),
        dense_score=None,
        lexical_score=None,
        dense_rank=None,
        lexical_rank=None,
        num_generator_tokens=size,
        has_gaps=False,
    )
    first = crc32(name.encode()) * 10_000
    return Piece(PieceKey(key or name), passage, tuple(range(first, first + size)))


def names(pieces: tuple[Piece, ...]) -> str:
    return " ".join(piece.key for piece in pieces)
