"""One KV block in one file: a header that says whose bytes follow, and a checksum over them.

    0  magic, format version   8  length of the payload   16  key, 20 bytes
    36 CRC-32 of the payload   40 CRC-32 of the header so far   44 zeros   64 payload

Numbers are little-endian. A file appears by rename, so it is whole or absent as long as the machine
does not lose power; what comes of that, or of a failing disk, the checksum tells.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path

from inference.kv_store.block_keys import KEY_BYTES

HEADER_BYTES = 64
_MAGIC = b"LLKV"
_VERSION = 1
_FIELDS = struct.Struct(f"<4sIQ{KEY_BYTES}sI")
_CHECKSUM = struct.Struct("<I")


class DamagedBlock(Exception):
    """A file that is not the block it is named after: cut, changed, or somebody else's."""


def block_buffer(payload_bytes: int) -> bytearray:
    """Room for a block's file; the payload belongs after the first `HEADER_BYTES`."""
    return bytearray(HEADER_BYTES + payload_bytes)


def write_block(path: Path, key: str, buffer: bytearray) -> None:
    """Put the block there under its name; `buffer` is from `block_buffer`, its payload filled in.

    Raises:
        OSError: the disk is full, or not to be written to; nothing is left behind.
    """
    payload = memoryview(buffer)[HEADER_BYTES:]
    fields = _FIELDS.pack(_MAGIC, _VERSION, len(payload), bytes.fromhex(key), zlib.crc32(payload))
    buffer[: _FIELDS.size + _CHECKSUM.size] = fields + _CHECKSUM.pack(zlib.crc32(fields))
    path.parent.mkdir(parents=True, exist_ok=True)
    # Several engines may write the same block at once; each has a file of its own until the rename.
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb", buffering=0) as file:
            written = file.write(buffer)
            if written != len(buffer):
                raise OSError(f"only {written} of {len(buffer)} bytes were written")
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def read_block(path: Path, key: str, buffer: bytearray) -> memoryview:
    """The payload of the block, checked; a view into `buffer`, which is exactly as long as the file.

    Raises:
        DamagedBlock: the file is not what its name says.
        OSError: it is not there, or cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        length = file.readinto(buffer)
        if length != len(buffer) or file.read(1):
            raise DamagedBlock(f"{path.name}: not of {len(buffer)} bytes")
    fields = bytes(buffer[: _FIELDS.size])
    (header_checksum,) = _CHECKSUM.unpack_from(buffer, _FIELDS.size)
    if zlib.crc32(fields) != header_checksum:
        raise DamagedBlock(f"{path.name}: no header of ours, or a changed one")
    magic, version, payload_bytes, stored_key, checksum = _FIELDS.unpack(fields)
    payload = memoryview(buffer)[HEADER_BYTES:]
    if (magic, version, payload_bytes, stored_key) != (_MAGIC, _VERSION, len(payload), bytes.fromhex(key)):
        raise DamagedBlock(f"{path.name}: another block, or of another version")
    if zlib.crc32(payload) != checksum:
        raise DamagedBlock(f"{path.name}: the checksum does not fit")
    return payload
