"""A receiver of notifications, which checks the signature of each request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from queue_manager.notifications import signing


class Receiver(HTTPServer):
    """Has the notices in `received`, and "not signed" for those that are not signed with its secret."""

    def __init__(self, secret: str, refusals: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.secret, self.refusals = secret, refusals
        self.received: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        timestamp = int(self.headers["webhook-timestamp"])
        signed = signing.headers(self.server.secret, self.headers["webhook-id"], timestamp, body)["webhook-signature"]
        received = self.server.received
        received.append(json.loads(body) if signed == self.headers["webhook-signature"] else "not signed")
        self.send_response(503 if len(received) <= self.server.refusals else 200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def receiving(secret: str, *, refusals: int = 0) -> Iterator[Receiver]:
    """Serve on loopback. `refusals`: how many requests are answered 503 before others succeed."""
    server = Receiver(secret, refusals)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
