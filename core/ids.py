"""Typed identifiers. Each says by its prefix what it names; new ones sort by time of birth."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import NewType

TenantId = NewType("TenantId", str)
KeyId = NewType("KeyId", str)
CollectionId = NewType("CollectionId", str)
DocumentId = NewType("DocumentId", str)
UploadedFileId = NewType("UploadedFileId", str)
JobId = NewType("JobId", str)
AnswerId = NewType("AnswerId", str)
ConversationId = NewType("ConversationId", str)
EvaluationId = NewType("EvaluationId", str)
ExtractionId = NewType("ExtractionId", str)
BatchId = NewType("BatchId", str)
ReportId = NewType("ReportId", str)
ScheduleId = NewType("ScheduleId", str)
ScheduleRunId = NewType("ScheduleRunId", str)
WebhookId = NewType("WebhookId", str)
DeliveryId = NewType("DeliveryId", str)
SummaryId = NewType("SummaryId", str)
BudgetId = NewType("BudgetId", str)
SegmentId = NewType("SegmentId", str)
ChunkId = NewType("ChunkId", int)
"""A positive 63-bit integer, because FAISS knows its vectors by int64."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32: no i, l, o, u


def _base32(value: int, length: int) -> str:
    digits = []
    for _ in range(length):
        value, digit = divmod(value, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def new_id(prefix: str) -> str:
    """A fresh `prefix_` identifier: 48 bits of milliseconds, then 80 random bits (ULID order)."""
    milliseconds = time.time_ns() // 1_000_000
    return f"{prefix}_{_base32(milliseconds, 10)}{_base32(secrets.randbits(80), 16)}"


def derive_chunk_id(document_id: DocumentId, position: int, text: str) -> ChunkId:
    """The same chunk of the same document always gets the same id, so a retried ingest overwrites."""
    digest = hashlib.sha256(f"{document_id}\0{position}\0{text}".encode()).digest()
    return ChunkId(int.from_bytes(digest[:8], "big") >> 1 or 1)


def content_hash(data: bytes | str) -> str:
    """Hex SHA-256 of bytes, or of text as UTF-8."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()
