"""One FAISS file: written once, then only mapped and read.

Layout: what `faiss.write_index` makes (an `IndexIDMap` over fp16 vectors); whose each vector is
(`_pack_documents`); a footer of 24 bytes: magic, CRC-32 of all before it, length of the part about
documents, length of all before the footer. FAISS reads from the front and sees none of the rest.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from core.errors import InvalidInput, StoreCorrupt
from core.ids import DocumentId, new_id

_faiss: Any = faiss  # its own stubs lack half of what it has

SegmentKind = Literal["flat", "hnsw"]

HNSW_MIN_VECTORS = 100_000  # a flat fp16 scan takes 5 ms there; HNSW takes half a minute to build
_HNSW_NEIGHBOURS = 32
_HNSW_EF_CONSTRUCTION = 80
_FOOTER = struct.Struct("<8sIIQ")  # magic, CRC-32, length of the documents' part, length of all
_MAGIC = b"LONGLEAF"
_BLOCK_BYTES = 1 << 20
_REPAIR = "Run `longleaf doctor --repair` to rebuild it from the database."


@dataclass(frozen=True, slots=True)
class MappedSegment:
    """A verified file, mapped read-only. Never add to it: FAISS aborts the process."""

    index: Any  # faiss.IndexIDMap
    kind: SegmentKind
    documents: dict[DocumentId, int]
    """Each document with vectors here, numbered from 0 in order."""
    owners: NDArray[np.int32]
    """(num_vectors,): the number of each vector's document."""

    @property
    def ids(self) -> NDArray[np.int64]:
        """Chunk ids in the order written, (num_vectors,)."""
        return cast("NDArray[np.int64]", _faiss.vector_to_array(self.index.id_map))

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Vectors in the order written, (num_vectors, dimension), decoded from fp16."""
        inner = _faiss.downcast_index(self.index.index)
        return cast("NDArray[np.float32]", inner.reconstruct_n(0, self.index.ntotal))

    def search(
        self,
        query: NDArray[np.float32],
        limit: int,
        *,
        allowed: Collection[DocumentId] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and inner products of the nearest to `query` (dimension,), best first.

        Args:
            allowed: only these documents' vectors are looked at, each of them; None: all are.
        """
        row = np.ascontiguousarray(query[None, :], dtype=np.float32)
        if allowed is not None:
            chosen = self._chosen(allowed)
            if not chosen.all():
                return self._scan(row, chosen, limit)
        limit = min(limit, self.index.ntotal)
        parameters = None
        if self.kind == "hnsw":
            parameters = _faiss.SearchParametersHNSW(efSearch=max(128, 2 * limit))
        scores, ids = self.index.search(row, limit, params=parameters)
        found = ids[0] >= 0  # HNSW pads with -1 what it did not reach
        return ids[0][found], scores[0][found]

    def _chosen(self, allowed: Collection[DocumentId]) -> NDArray[np.bool_]:
        """Which vectors are of `allowed`, (num_vectors,)."""
        numbers = [self.documents[each] for each in allowed if each in self.documents]
        wanted = np.zeros(len(self.documents), dtype=np.bool_)
        wanted[numbers] = True
        return wanted[self.owners]

    def _scan(
        self, row: NDArray[np.float32], chosen: NDArray[np.bool_], limit: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The nearest among the `chosen`, all of which are compared.

        Also where there is a graph: walking it past what the filter hides finds 95 % of the ten
        nearest if half of the vectors are chosen and 58 % if one in two hundred is, while a scan
        costs 5 ms per 100,000 that are.
        """
        limit = min(limit, int(chosen.sum()))
        if not limit:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        inner = _faiss.downcast_index(self.index.index)
        flat = _faiss.downcast_index(inner.storage) if self.kind == "hnsw" else inner
        # By position and not by id: a bit a vector, where ids would be looked up in a hash table.
        selector = _faiss.IDSelectorBitmap(np.packbits(chosen, bitorder="little"))
        scores, positions = flat.search(row, limit, params=_faiss.SearchParameters(sel=selector))
        return self.ids[positions[0]], scores[0]


def segment_kind(num_vectors: int, *, hnsw_min_vectors: int = HNSW_MIN_VECTORS) -> SegmentKind:
    """Exact scan for small segments, a graph for large ones."""
    return "hnsw" if num_vectors >= hnsw_min_vectors else "flat"


def write_segment(
    path: Path,
    ids: NDArray[np.int64],
    vectors: NDArray[np.float32],
    documents: Sequence[DocumentId],
    *,
    kind: SegmentKind | None = None,
) -> SegmentKind:
    """Write a segment file that is there completely, on disk, or not at all.

    Args:
        ids: (num_vectors,), positive.
        vectors: (num_vectors, dimension), L2-normalized; stored as fp16, which keeps the order.
        documents: the one that each vector is of.

    Raises:
        InvalidInput: no vectors, or as many ids or documents as vectors there are not.
    """
    if vectors.ndim != 2 or not len(vectors) or not len(ids) == len(documents) == len(vectors):
        raise InvalidInput(
            f"{len(ids)} ids and {len(documents)} documents do not name {vectors.shape} vectors.",
            remedy="Pass one of each.",
        )
    kind = kind or segment_kind(len(vectors))
    index = _faiss.IndexIDMap(_empty_index(kind, vectors.shape[1]))
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    if not index.is_trained:
        index.train(rows)
    index.add_with_ids(rows, np.ascontiguousarray(ids, dtype=np.int64))
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = _pack_documents(documents)
    with _replacing(path) as temporary:
        _faiss.write_index(index, str(temporary))
        with temporary.open("ab") as file:
            file.write(packed)
        length, checksum = temporary.stat().st_size, _checksum(temporary)
        with temporary.open("ab") as file:
            file.write(_FOOTER.pack(_MAGIC, checksum, len(packed), length))
    return kind


def open_segment(path: Path, *, num_vectors: int) -> MappedSegment:
    """Check a file against its footer and its row, then map it; pages are shared by processes.

    Raises:
        StoreCorrupt: missing, cut short, altered, of another size than its row says, or written
            before segments knew their documents.
    """
    try:
        packed = _verify(path)
        # IO_FLAG_MMAP silently does not map these types; IO_FLAG_MMAP_IFC does.
        index = _faiss.read_index(str(path), _faiss.IO_FLAG_MMAP_IFC | _faiss.IO_FLAG_READ_ONLY)
    except (OSError, RuntimeError) as error:
        raise _corrupt(path, "cannot be read") from error
    if index.ntotal != num_vectors:
        raise _corrupt(path, f"holds {index.ntotal} vectors instead of {num_vectors}")
    inner = _faiss.downcast_index(index.index)
    documents, owners = _unpack_documents(packed, num_vectors)
    kind: SegmentKind = "hnsw" if isinstance(inner, _faiss.IndexHNSW) else "flat"
    return MappedSegment(index, kind, documents, owners)


def _pack_documents(documents: Sequence[DocumentId]) -> bytes:
    """A number for each vector (int32, little-endian), then the ids that they number, a line each."""
    numbers = {each: i for i, each in enumerate(dict.fromkeys(documents))}
    owners = np.array([numbers[each] for each in documents], dtype="<i4")
    return owners.tobytes() + "\n".join(numbers).encode()


def _unpack_documents(packed: bytes, num_vectors: int) -> tuple[dict[DocumentId, int], NDArray[np.int32]]:
    owners = np.frombuffer(packed, dtype="<i4", count=num_vectors)
    names = packed[owners.nbytes :].decode().split("\n")
    return {DocumentId(name): i for i, name in enumerate(names)}, owners


def _empty_index(kind: SegmentKind, dimension: int) -> Any:
    half = _faiss.ScalarQuantizer.QT_fp16
    if kind == "flat":
        return _faiss.IndexScalarQuantizer(dimension, half, _faiss.METRIC_INNER_PRODUCT)
    index = _faiss.IndexHNSWSQ(dimension, half, _HNSW_NEIGHBOURS, _faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _HNSW_EF_CONSTRUCTION
    return index


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A path to write to; renamed to `path` once it is on disk, removed if writing fails."""
    temporary = path.with_name(new_id("partial"))
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _verify(path: Path) -> bytes:
    """Check the file against its footer; its part about documents."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _FOOTER.size))
        footer = file.read(_FOOTER.size)
        if len(footer) < _FOOTER.size:
            raise _corrupt(path, "is cut short")
        magic, checksum, packed_length, length = _FOOTER.unpack(footer)
        if magic != _MAGIC or length != size - _FOOTER.size:
            raise _corrupt(path, "is cut short")
        if checksum != _checksum(path, length):
            raise _corrupt(path, "does not match its checksum")
        if not packed_length:
            raise _corrupt(path, "is of an earlier version, which could not filter by document")
        file.seek(length - packed_length)
        return file.read(packed_length)


def _checksum(path: Path, length: int | None = None) -> int:
    left, checksum = path.stat().st_size if length is None else length, 0
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, _BLOCK_BYTES))):
            checksum = zlib.crc32(block, checksum)
            left -= len(block)
    return checksum


def _corrupt(path: Path, what: str) -> StoreCorrupt:
    return StoreCorrupt(f"Index segment {path.stem} {what}.", remedy=_REPAIR, segment_id=path.stem)
