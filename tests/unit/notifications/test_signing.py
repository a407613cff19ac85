"""Signatures of webhook requests."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from queue_manager.notifications.signing import headers, key


def test_the_signature_covers_id_timestamp_and_body() -> None:
    """The example of the Standard Webhooks specification."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    signed = headers(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert (signed["webhook-id"], signed["webhook-timestamp"]) == ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330")


def test_a_secret_without_the_prefix_is_used_as_it_is() -> None:
    expected = base64.b64encode(hmac.new(b"plain", b"i.1.b", hashlib.sha256).digest()).decode()
    assert headers("plain", "i", 1, b"b")["webhook-signature"] == f"v1,{expected}"


@pytest.mark.parametrize("secret", ["", "whsec_?hidden?"])
def test_an_unusable_secret_is_refused_without_showing_it(secret: str) -> None:
    with pytest.raises(ValueError, match="the secret is") as raised:
        key(secret)
    assert "hidden" not in str(raised.value)
