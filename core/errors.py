"""Every error Longleaf raises on purpose, as one tree.

    LongleafError
    ├── InvalidInput            the caller can mend it
    │   ├── EmptyInput
    │   ├── TooLarge
    │   ├── TooLong
    │   └── UnreadableDocument
    │       ├── EncryptedDocument
    │       ├── EmptyDocument
    │       └── UnsupportedFormat
    ├── NotAuthenticated
    │   ├── KeyExpired
    │   └── KeyRevoked
    ├── NotPermitted
    ├── NotFound
    ├── Conflict
    │   └── IdempotencyMismatch
    ├── BudgetExceeded
    │   └── BudgetHeld          what runs holds what is left: it passes
    ├── RateLimited
    ├── JobCancelled
    ├── DeadlineExceeded
    ├── LeaseLost
    ├── ModelUnavailable
    │   ├── EngineUnavailable
    │   ├── EngineOverloaded
    │   └── EngineIncapable
    ├── OutputInvalid           a model wrote what it must not
    ├── DeliveryFailed          a webhook's receiver did not take it
    ├── Misconfigured
    └── StoreCorrupt

Errors carry no HTTP status: `api/problems.py` holds the only such table. Every message says what
happened, to which object, and what to do. `code` is stable and machine-readable.
"""

from __future__ import annotations

from typing import ClassVar

from core.usage import ModelUse


class LongleafError(Exception):
    """Something Longleaf can explain.

    Args:
        detail: what happened, to which object.
        remedy: what the reader can do about it.
        context: ids and numbers, safe to show and to log (never document text).

    `uses`: what models had consumed for it by then, for the ledger.
    """

    code: ClassVar[str] = "internal_error"
    title: ClassVar[str] = "Something went wrong"

    def __init__(self, detail: str, *, remedy: str = "", **context: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy
        self.context = context
        self.uses: tuple[ModelUse, ...] = ()

    def __str__(self) -> str:
        return f"{self.detail} {self.remedy}".strip()


class InvalidInput(LongleafError):
    code = "invalid_input"
    title = "The request cannot be understood"


class EmptyInput(InvalidInput):
    code = "empty_input"
    title = "There is nothing to work on"


class TooLarge(InvalidInput):
    code = "too_large"
    title = "The upload is larger than allowed"


class TooLong(InvalidInput):
    code = "too_long"
    title = "The text does not fit the model's window"


class UnreadableDocument(InvalidInput):
    code = "unreadable_document"
    title = "The document cannot be read"


class EncryptedDocument(UnreadableDocument):
    code = "encrypted_document"
    title = "The document is encrypted"


class EmptyDocument(UnreadableDocument):
    code = "empty_document"
    title = "The document holds no text"


class UnsupportedFormat(UnreadableDocument):
    code = "unsupported_format"
    title = "The file format is not supported"


class NotAuthenticated(LongleafError):
    code = "not_authenticated"
    title = "A valid API key is needed"


class KeyExpired(NotAuthenticated):
    code = "key_expired"
    title = "The API key has expired"


class KeyRevoked(NotAuthenticated):
    code = "key_revoked"
    title = "The API key was revoked"


class NotPermitted(LongleafError):
    code = "not_permitted"
    title = "The API key lacks the scope"


class NotFound(LongleafError):
    code = "not_found"
    title = "No such object"


class Conflict(LongleafError):
    code = "conflict"
    title = "The object is not in a state that allows this"


class IdempotencyMismatch(Conflict):
    code = "idempotency_mismatch"
    title = "The idempotency key was used for another request"


class BudgetExceeded(LongleafError):
    """Its context has `limit`, `used`, `held`, `reset_at` and `retry_after_seconds`."""

    code = "budget_exceeded"
    title = "A budget is used up"


class BudgetHeld(BudgetExceeded):
    code = "budget_held"
    title = "What is left of a budget is held by what runs"


class RateLimited(LongleafError):
    """Its context has `policy`, `limit` and `retry_after_seconds`."""

    code = "rate_limited"
    title = "Too many requests"


class JobCancelled(LongleafError):
    code = "job_cancelled"
    title = "The job was cancelled"


class DeadlineExceeded(LongleafError):
    code = "deadline_exceeded"
    title = "The job was not done in time"


class LeaseLost(LongleafError):
    code = "lease_lost"
    title = "Another worker has taken the job up"


class ModelUnavailable(LongleafError):
    code = "model_unavailable"
    title = "A model is not available"


class EngineUnavailable(ModelUnavailable):
    code = "engine_unavailable"
    title = "The generation engine does not answer"


class EngineOverloaded(ModelUnavailable):
    code = "engine_overloaded"
    title = "The generation engine is full"


class EngineIncapable(ModelUnavailable):
    code = "engine_incapable"
    title = "The generation engine cannot do this"


class OutputInvalid(LongleafError):
    code = "output_invalid"
    title = "The model did not answer in the form asked for"


class DeliveryFailed(LongleafError):
    code = "delivery_failed"
    title = "The webhook could not be delivered"


class DatabaseUnavailable(LongleafError):
    code = "database_unavailable"
    title = "The database does not answer"


class Misconfigured(LongleafError):
    code = "misconfigured"
    title = "A setting is wrong"


class StoreCorrupt(LongleafError):
    code = "store_corrupt"
    title = "Stored data does not match its checksum"
