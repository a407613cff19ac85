"""What `Cluster` and its child process write to each other: one JSON line each way.

StartOrder       from the tests, on the standard input. The end of that input is the order to stop.
Ready | Failed   from the cluster, on the standard output, once
"""

from __future__ import annotations

import msgspec


class StartOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `Cluster`. `config`: the text of a configuration; "": the defaults."""

    nodes: int
    cpu: str
    memory: str
    config: str
    first_queue: bool
    data_dir: str | None
    grace_seconds: float

    def encode(self) -> bytes:
        """Return the order as a line of JSON."""
        return msgspec.json.encode(self) + b"\n"


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The cluster serves requests at this address."""

    url: str
    kubeconfig: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The cluster cannot start."""

    why: str


def decode_order(line: bytes) -> StartOrder:
    """Decode the order of the tests. Raises msgspec.DecodeError."""
    return msgspec.json.decode(line, type=StartOrder)


def decode_answer(line: bytes) -> Ready | Failed:
    """Decode the answer of the child process. Raises msgspec.DecodeError."""
    return msgspec.json.decode(line, type=Ready | Failed)
