"""Stores why the agent ends a pod, before any process of the pod is signalled. `pod_worker` decides it.

Without the order an agent that restarts after a crash would take the exit codes of an evicted pod for its own failure.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from queue_manager.local.agent.pod_status import Termination


@dataclass(frozen=True, slots=True)
class StopOrder:
    """The reason to end a pod, and the grace period in seconds."""

    verdict: Termination
    grace: float


def write(path: Path, order: StopOrder) -> None:
    """Write the order atomically. Raises OSError, for example on a full disk."""
    path.parent.mkdir(exist_ok=True, mode=0o700)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(order))
    os.replace(new, path)


def read(path: Path) -> StopOrder | None:
    """The stored order; None if it is missing or damaged, as after a power failure."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=StopOrder)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
