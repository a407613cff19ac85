"""What the controllers of this package need from their host, as Protocols.

Reads are synchronous and served by a cache that already contains the responses to the controller's own writes. Writes
may raise any exception. If it has an integer attribute `status`, that is the HTTP status code; if it has a mapping
`body`, that is the Status object of the response (perform.py reads both).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, Literal, Protocol

from job_controller.model import Job, Key, Object, Pod


class Clock(Protocol):
    """The source of the current time."""

    def now(self) -> datetime:
        """The current time, timezone-aware, in UTC."""
        ...


class Events(Protocol):
    """Recorder of Events."""

    def event(self, regarding: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record an Event about an object. Returns immediately; delivery is asynchronous."""
        ...


class Queue(Protocol):
    """The work queue of a controller."""

    def add(self, key: Key, *, new: bool = False, urgent: bool = False) -> None:
        """Add the key.

        `new`: the object was never synced; its key is served after all others, until an `urgent` addition promotes it.
        """
        ...

    def add_after(self, key: Key, seconds: float) -> None:
        """Add the key after so many seconds. Of several pending additions of a key the earliest applies."""
        ...


class JobClient(Protocol):
    """Jobs and pods: cached reads, live writes.

    A write to an object that does not exist raises an error with status 404, and removes the object from the cache.
    """

    def job(self, key: Key) -> Job | None:
        """The Job as the cache has it, None if absent."""
        ...

    def jobs(self, namespace: str) -> Iterable[Job]:
        """All Jobs of a namespace."""
        ...

    def pod(self, key: Key) -> Pod | None:
        """The pod as the cache has it, None if absent."""
        ...

    def pods_of(self, job_uid: str) -> Iterable[Pod]:
        """The pods whose controller reference has this UID."""
        ...

    def orphans(self, namespace: str) -> Iterable[Pod]:
        """The pods of a namespace without a controller reference."""
        ...

    async def read_job(self, key: Key) -> Job | None:
        """The Job as the API server has it now, bypassing the cache; None if absent."""
        ...

    async def create_pod(self, namespace: str, manifest: Mapping[str, Any]) -> Pod:
        """Create the pod and return it as stored."""
        ...

    async def patch_pod(self, key: Key, patch: Mapping[str, Any]) -> Pod:
        """Apply a strategic merge patch and return the pod as stored."""
        ...

    async def delete_pod(self, key: Key, uid: str, resource_version: str = "") -> None:
        """Delete the pod with this UID; with a resource version only that version. Raises 409 otherwise."""
        ...

    async def update_job_status(self, job: Job, status: Mapping[str, Any]) -> Job:
        """Merge these fields into the status under the resourceVersion of `job`. Raises 409 if the Job has changed."""
        ...

    async def delete_job(self, key: Key, uid: str) -> None:
        """Delete the Job with this UID with foreground propagation."""
        ...


class PodPermits(Protocol):
    """Which Jobs may have new pods now. A queue implements this; without a queue, AlwaysPermitted does."""

    def may_create_pods(self, job: Job) -> bool:
        """Whether pods may be created for this Job now. Called at every sync and again before every creation."""
        ...

    def creating(self, job: Job) -> AbstractContextManager[None]:
        """A context that spans one create request, from before it is sent until it succeeded or failed.

        Until then the pod is in no cache, but it may exist.
        """
        ...

    def subscribe(self, changed: Callable[[Key], None]) -> None:
        """Register `changed`, to be called with the key of each Job whose permit may have changed."""
        ...


class AlwaysPermitted:
    """PodPermits without a queue: every Job may have pods at any time."""

    def may_create_pods(self, job: Job) -> bool:
        """True."""
        return True

    def creating(self, job: Job) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return nullcontext()

    def subscribe(self, changed: Callable[[Key], None]) -> None:
        """Does nothing: the permit never changes."""


class Metrics(Protocol):
    """The registry of metrics."""

    def inc(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Increment a counter."""
        ...

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Add an observation to a histogram."""
        ...
