"""Interface through which the API server reads logs of containers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from job_controller.json_tree import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """core/v1 PodLogOptions. None means no limit. At most one of the two start times is given."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: datetime | None = None
    limit_bytes: int | None = None


class ContainerLogs(Protocol):
    """Gives access to the output of containers."""

    def open(self, pod: Json, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The log of a container of the pod, in pieces. Raises StatusError 400 immediately if there is no log yet."""
        ...
