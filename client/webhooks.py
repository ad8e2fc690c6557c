"""Checking that a webhook comes from the server: the receiver's part."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any, cast

from client.problems import ClientError

_PREFIX = "whsec_"


class SignatureError(ClientError):
    """The webhook is not from who has the secret, or not from now."""


def verify_webhook(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance_seconds: float = 300.0,
    now: float | None = None,
) -> dict[str, Any]:
    """What the webhook tells: `type`, `timestamp` and `data`.

    Delivery is at least once: remember the header `webhook-id` to do nothing twice.

    Args:
        secret: `whsec_…`, as it was shown when the webhook was made.
        headers: of the request; the case of their names does not matter.
        body: of the request, as it came: parsed and written again it is another one.
        tolerance_seconds: how old, or how far ahead, its timestamp may be; against replays.
        now: seconds since 1970; by default the present.

    Raises:
        SignatureError: it is unsigned, signed by another secret, changed, or old.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, timestamp = lower["webhook-id"], lower["webhook-timestamp"]
        given, moment = lower["webhook-signature"].split(), int(timestamp)
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (KeyError, ValueError, binascii.Error) as error:
        raise SignatureError(
            "The webhook lacks its signature, or the secret is none: see docs/webhooks.md."
        ) from error
    if abs((time.time() if now is None else now) - moment) > tolerance_seconds:
        raise SignatureError(f"The webhook was signed more than {tolerance_seconds:g} s from now.")
    digest = hmac.digest(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    right = ("v1," + base64.b64encode(digest).decode()).encode()
    if not any(hmac.compare_digest(right, each.encode()) for each in given):
        raise SignatureError("The webhook's signature is not of this secret and body.")
    return cast(dict[str, Any], json.loads(body))
