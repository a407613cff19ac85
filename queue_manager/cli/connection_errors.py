"""Why a cluster does not answer, in plain words."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

from queue_manager.engine.http_connections import NotConnected

REFUSED = "connection refused"
TIMED_OUT = "timed out"
_CONNECT_FAILED = "Connect call failed"  # of several addresses: asyncio joins their errors
_BEFORE_SENDING = (NotConnected, ssl.SSLCertVerificationError, socket.gaierror, ConnectionRefusedError)


def may_have_arrived(error: BaseException) -> bool:
    """Whether the server may have executed the request; not if the connection was refused, say."""
    return not any(isinstance(one, _BEFORE_SENDING) for one in _causes(error)) and _CONNECT_FAILED not in str(error)


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
    if _CONNECT_FAILED in str(error):
        return REFUSED
    number = next((one.errno for one in chain if isinstance(one, OSError) and one.errno), None)
    return (
        os.strerror(number).lower() if number is not None and number > 0 else str(chain[-1]) or str(error) or TIMED_OUT
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes; some errors of aiohttp and urllib3 have theirs in an attribute or argument."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        inside = [getattr(seen, "os_error", None), getattr(seen, "certificate_error", None), *seen.args]
        inner = next((one for one in inside if isinstance(one, BaseException)), None)
        if inner is not None and inner is not seen.__cause__:
            yield inner
        seen = seen.__cause__
