"""What the Job controller needs of the world. The engine of the queue manager provides it; tests may too.

Reads are synchronous and come from a cache that already holds the answers to the controller's own writes.
Writes raise any exception they like. Of one with an integer attribute `status` that is the HTTP status code, and
`body`, if it is a mapping, the Status object behind it (perform.py reads both).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, Literal, Protocol

from job_controller.model import Job, Key, Object, Pod


class Clock(Protocol):
    def now(self) -> datetime:
        """The current time, timezone-aware, in UTC."""
        ...


class Events(Protocol):
    def event(self, regarding: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record an Event about an object; returns at once, delivery happens behind."""
        ...


class Queue(Protocol):
    def add(self, key: Key, *, new: bool = False, urgent: bool = False) -> None:
        """Add to the line; what is `new`, never worked on before, behind what is under way, until it is `urgent`."""
        ...

    def add_after(self, key: Key, seconds: float) -> None:
        """Add later. Of several pending additions of one key the earliest counts."""
        ...


class Cluster(Protocol):
    """Jobs and pods: cached reads, live writes.

    A write to an object that is not there raises an error of status 404, and from then on reads do not show
    that object either.
    """

    def job(self, key: Key) -> Job | None: ...

    def jobs(self, namespace: str) -> Iterable[Job]: ...

    def pod(self, key: Key) -> Pod | None: ...

    def pods_of(self, job_uid: str) -> Iterable[Pod]:
        """Pods whose controller reference has this UID."""
        ...

    def orphans(self, namespace: str) -> Iterable[Pod]:
        """Pods without a controller reference."""
        ...

    async def read_job(self, key: Key) -> Job | None:
        """The Job as the API server has it now, past the cache."""
        ...

    async def create_pod(self, namespace: str, manifest: Mapping[str, Any]) -> Pod: ...

    async def patch_pod(self, key: Key, patch: Mapping[str, Any]) -> Pod:
        """Strategic merge patch."""
        ...

    async def delete_pod(self, key: Key, uid: str, resource_version: str = "") -> None:
        """Delete the pod with this UID, and if given only in this very version: 409 otherwise."""
        ...

    async def update_job_status(self, job: Job, status: Mapping[str, Any]) -> Job:
        """Change fields of status (a merge patch) under the resourceVersion of `job`; 409 when it has moved on."""
        ...

    async def delete_job(self, key: Key, uid: str) -> None:
        """Foreground deletion, only of the Job with this UID."""
        ...


class PodPermits(Protocol):
    """Which Jobs may have new pods now. A queue implements this; without a queue, `AlwaysPermitted` does."""

    def may_create_pods(self, job: Job) -> bool:
        """Whether pods may be created for this Job now. Asked at every sync and again before every creation."""
        ...

    def creating(self, job: Job) -> AbstractContextManager[None]:
        """Spans one create request, from before it is sent until it is answered or has failed.

        Until a create request is answered no cache shows its pod, and the pod may exist all the same.
        """
        ...

    def subscribe(self, changed: Callable[[Key], None]) -> None:
        """Call `changed` with the key of each Job for which `may_create_pods` may have another answer now."""
        ...


class AlwaysPermitted:
    """Implements `PodPermits` where no queue decides: every Job may have pods at any time."""

    def may_create_pods(self, job: Job) -> bool:
        return True

    def creating(self, job: Job) -> AbstractContextManager[None]:
        return nullcontext()

    def subscribe(self, changed: Callable[[Key], None]) -> None:
        """The answer never changes."""


class Metrics(Protocol):
    def inc(self, name: str, labels: Mapping[str, str], by: float = 1) -> None: ...

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None: ...
