"""Addresses of servers: ":port", "host:port", "[ipv6]:port"; "0" or empty for no server."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from queue_manager.configuration.quoted_text import quoted

OFF = ("0", "")
ALLOWED = 'must be ":port", "host:port", or "0" for none'


class Address(NamedTuple):
    """Where a server listens."""

    host: str | None  # None: all interfaces
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the server. A name other than localhost counts as reachable by others."""
        try:
            return ipaddress.ip_address(self.host or "").is_loopback
        except ValueError:
            return self.host == "localhost"


def parse(text: str) -> Address:
    """The address. Raises ValueError if the text is not an address; OFF is not one."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{quoted(text)} is not an address; {ALLOWED}")
    return Address(host.strip("[]") or None, int(port))
