"""Signatures of webhook requests, as Standard Webhooks (github.com/standard-webhooks) defines them. Pure.

    webhook-id: <id of the event>
    webhook-timestamp: <seconds since 1970 of this attempt>
    webhook-signature: v1,<base64 of HMAC-SHA256(secret, "<id>.<timestamp>.<body>")>

A receiver compares the signature, refuses timestamps that are old, and ignores ids that it has seen. A secret that
begins with `whsec_` is base64 behind that; any other is taken as it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

PREFIX = "whsec_"


def headers(secret: str, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers. Raises ValueError for an empty secret, and for one that is not base64 after `whsec_`."""
    signed = f"{id}.{timestamp}.".encode() + body
    digest = hmac.new(key(secret), signed, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": id, "webhook-timestamp": str(timestamp), "webhook-signature": signature}


def key(secret: str) -> bytes:
    """The bytes of a secret. Raises ValueError, whose text does not contain the secret."""
    if not secret:
        raise ValueError("the secret is empty")
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"the secret is not base64 behind {PREFIX}") from None
