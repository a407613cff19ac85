"""Why a cluster does not answer, in plain words."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

REFUSED = "connection refused"
TIMED_OUT = "timed out"


def plain_reason(error: BaseException) -> str:
    """Return `connection refused`, `timed out` or the like, for an error or what caused it; else its own text."""
    chain = list(_causes(error))
    for one in chain:
        if isinstance(one, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {one.verify_message}"
        if isinstance(one, socket.gaierror):
            return "no address is known for this name"
        if isinstance(one, ConnectionRefusedError):
            return REFUSED
        if isinstance(one, TimeoutError):
            return TIMED_OUT
    if "Connect call failed" in str(error):  # of several addresses: asyncio joins their errors
        return REFUSED
    number = next((one.errno for one in chain if isinstance(one, OSError) and one.errno), None)
    return os.strerror(number).lower() if number is not None and number > 0 else str(error) or TIMED_OUT


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes; some aiohttp errors have their cause only in an attribute."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        inner = getattr(seen, "os_error", None) or getattr(seen, "certificate_error", None)
        if isinstance(inner, BaseException) and inner is not seen.__cause__:
            yield inner
        seen = seen.__cause__
