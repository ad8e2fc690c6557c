from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from client import SignatureError, verify_webhook
from tenancy.webhooks.patience import held_until, next_attempt_at
from tenancy.webhooks.signature import new_secret, signature_headers

NOW = datetime(2026, 12, 1, 5, 0, tzinfo=UTC)
BODY = '{"type":"job.finished","data":{"name":"合同"}}'.encode()
DAY = timedelta(hours=24)


def headers_by(*secrets: str) -> dict[str, str]:
    return signature_headers(secrets, message_id="dlv_1", at=NOW, body=BODY)


def test_the_signature_is_that_of_the_published_convention() -> None:
    """The example of the specification of Standard Webhooks."""
    headers = signature_headers(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        at=datetime.fromtimestamp(1614265330, UTC),
        body=b'{"test": 2432232314}',
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_receiver_reads_what_was_signed() -> None:
    secret = new_secret()
    told = verify_webhook(secret, headers_by(secret), BODY, now=NOW.timestamp())
    assert told["data"] == {"name": "合同"}


def test_while_a_secret_is_replaced_both_verify() -> None:
    old, new = new_secret(), new_secret()
    for secret in (old, new):
        assert verify_webhook(secret, headers_by(new, old), BODY, now=NOW.timestamp())


@pytest.mark.parametrize("change", ["secret", "body", "id", "old", "ahead", "unsigned", "no base64"])
def test_what_is_not_right_is_refused(change: str) -> None:
    secret = new_secret()
    headers = {name.title(): value for name, value in headers_by(secret).items()}
    if change == "id":
        headers["Webhook-Id"] = "dlv_2"
    if change == "unsigned":
        del headers["Webhook-Signature"]
    moment = NOW.timestamp() + {"old": 301, "ahead": -301}.get(change, 0)
    given = {"secret": new_secret(), "no base64": "whsec_!"}.get(change, secret)
    with pytest.raises(SignatureError):
        verify_webhook(given, headers, BODY + b" " if change == "body" else BODY, now=moment)


def test_a_delivery_is_tried_about_ten_times_within_a_day() -> None:
    now, tries = NOW, [NOW]
    while due := next_attempt_at(len(tries), began_at=NOW, now=now, patience=DAY, jitter=1.0):
        tries.append(now := due)
    pauses = [round((later - earlier).total_seconds()) for earlier, later in pairwise(tries)]
    assert pauses == [5, 20, 80, 320, 1280, 5120, 20480, 21600, 21600]


def test_a_receiver_that_fails_is_left_alone_longer_and_longer() -> None:
    def seconds(failing_for: timedelta) -> float:
        return (held_until(NOW - failing_for, now=NOW) - NOW).total_seconds()

    assert seconds(timedelta(0)) == 3
    assert seconds(timedelta(minutes=10)) == 150
    assert seconds(timedelta(days=1)) == 300
