"""Reports readiness and the end of a service to the process that started it, as sd_notify(3) does.

The starter names a datagram socket in the environment variable NOTIFY_SOCKET: `sluice up --detach` does, and systemd
for a unit with Type=notify. Without the variable nothing is sent.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping, MutableMapping

VARIABLE = "NOTIFY_SOCKET"
READY = "READY=1"
STOPPING = "STOPPING=1"


def take_starter(environment: MutableMapping[str, str]) -> dict[str, str]:
    """Remove NOTIFY_SOCKET from the environment, so that no child process inherits it; return it for `notify`."""
    address = environment.pop(VARIABLE, None)
    return {} if address is None else {VARIABLE: address}


def notify(state: str, environment: Mapping[str, str]) -> None:
    """Send a state; a starter that no longer listens is not an error."""
    address = environment.get(VARIABLE, "")
    if not address:
        return
    if address.startswith("@"):  # the abstract namespace of Linux
        address = f"\0{address[1:]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        with contextlib.suppress(OSError):
            sender.sendto(state.encode(), address)
