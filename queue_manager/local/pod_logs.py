"""What the API server asks of who has the logs of containers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from job_controller.json_tree import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """core/v1 PodLogOptions. None: without this limit. Of the two times to begin at, at most one is given."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: datetime | None = None
    limit_bytes: int | None = None


class LogSource(Protocol):
    """Where the output of containers is."""

    def open(self, pod: Json, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The log of a container, which the pod has, in pieces. Raises StatusError 400, at once, if it has none yet."""
        ...
