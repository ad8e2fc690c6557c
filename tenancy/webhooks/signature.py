"""Signatures by the convention of Standard Webhooks, so that its libraries can check them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime

_PREFIX = "whsec_"
_SECRET_BYTES = 32


def new_secret() -> str:
    """`whsec_` and 256 random bits in base64."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signature_headers(
    signing_secrets: Sequence[str], *, message_id: str, at: datetime, body: bytes
) -> dict[str, str]:
    """What proves where a body comes from; a signature by each secret, for one that is being replaced."""
    timestamp = int(at.timestamp())
    content = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_sign(secret, content) for secret in signing_secrets),
    }


def _sign(secret: str, content: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
