"""TLS of the API servers that tests start: one certificate per process, and a client context that trusts it."""

from __future__ import annotations

import ssl
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from queue_manager.engine.clock import SystemClock
from queue_manager.local.loopback_certificate import provide


class Tls(NamedTuple):
    server: ssl.SSLContext
    client: ssl.SSLContext
    authority: str  # PEM


@cache
def tls() -> Tls:
    with tempfile.TemporaryDirectory() as folder:
        identity = provide(Path(folder) / "serving.pem", SystemClock().now())
        client = ssl.create_default_context(cadata=identity.authority)
        return Tls(identity.context(), client, identity.authority)
