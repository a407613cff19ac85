"""Listening sockets of the manager's servers."""

from __future__ import annotations

import socket

from queue_manager.configuration.addresses import Address
from queue_manager.engine.anonymous_connections import BACKLOG


def listen(address: Address) -> socket.socket:
    """A socket on the address, without a host on all addresses of both families. Raises OSError."""
    if address.host is None and socket.has_dualstack_ipv6():
        every = ("", address.port)
        return socket.create_server(every, family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    family, *_, where = socket.getaddrinfo(address.host or "0.0.0.0", address.port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(where[:2], family=family, backlog=BACKLOG)
