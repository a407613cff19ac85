"""That the node ends a pod of its own accord, and why: on disk before any process of the pod is asked to end.

Whoever reads only exit codes after a crash of the agent would take an evicted pod for one that failed by itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from queue_manager.local.agent.status import Termination


@dataclass(frozen=True, slots=True)
class Order:
    """To end a pod, within so many seconds."""

    verdict: Termination
    grace: float


def write(path: Path, order: Order) -> None:
    """All of it or nothing. OSError if there is no room."""
    path.parent.mkdir(exist_ok=True, mode=0o700)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(order))
    os.replace(new, path)


def read(path: Path) -> Order | None:
    """What an earlier agent wrote. A machine that lost power may have kept the name of a file only."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Order)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
