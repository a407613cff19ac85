"""The only writer of the status of Workloads.

Several controllers change the same Workload at nearly the same time: the scheduler reserves quota while `jobs` reports
pods. Each passes a transition. All transitions pending for one Workload are applied to its newest state, one after
another, and sent as one conditional patch. So our own writers never conflict with each other, a transition always
decides on current facts, and Events are recorded only after the write. BEHAVIOUR.md#q39-status-writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from job_controller.model import Key
from queue_manager.api.resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport import ApiError
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.transitions import Transition

MAX_ATTEMPTS = 5  # before a conflict is raised to the caller


class Gone(Exception):
    """The Workload does not exist any more, or another one has its name."""


class _PendingWrite(NamedTuple):
    uid: str
    transition: Transition
    component: str
    done: asyncio.Future[Workload]


class WorkloadWriter:
    """`write` applies a transition. `listeners` are called with (before, after) of each write."""

    def __init__(self, runtime: Runtime, cache: Cache[Workload]) -> None:
        self._runtime = runtime
        self._cache = cache
        self.listeners: list[Callable[[Workload, Workload], None]] = []
        self._queued: dict[Key, list[_PendingWrite]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    async def write(self, workload: Workload, transition: Transition, component: str) -> Workload:
        """Apply a transition to the newest state of a Workload and return the state after the write.

        Raises Gone, ApiError if the API server rejects the write, or OSError if it cannot be reached.
        """
        key = workload.metadata.key
        done: asyncio.Future[Workload] = asyncio.get_running_loop().create_future()
        self._queued.setdefault(key, []).append(_PendingWrite(workload.metadata.uid, transition, component, done))
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._drain(key), name=f"write {key}")
        return await asyncio.shield(done)

    async def _drain(self, key: Key) -> None:
        try:
            for _ in range(2):  # let controllers that react to the same change add their transitions
                await asyncio.sleep(0)
            while writes := self._queued.pop(key, None):
                try:
                    await self._write(key, writes)
                except Exception as error:
                    _fail(writes, error)  # each caller logs and decides about a retry
                except asyncio.CancelledError:
                    _fail(writes, ConnectionAbortedError("the writer was stopped"))
                    raise
        finally:
            del self._tasks[key]

    async def _write(self, key: Key, writes: list[_PendingWrite]) -> None:
        for attempt in range(MAX_ATTEMPTS):
            current = self._cache.get(key.namespace, key.name) if attempt == 0 else await self._read(key)
            writes = _for(current, writes)
            if not writes or current is None:
                return
            drafts, latest = [], current
            for write in writes:
                draft = Draft(latest, self._runtime.clock.now())
                write.transition(draft)
                drafts.append((write, draft))
                latest = draft.workload
            total = Draft(current, self._runtime.clock.now())
            total.status = latest.status
            if total.changed:
                try:
                    latest = await self._runtime.client.patch(
                        WORKLOADS, key.namespace, key.name, total.patch(), subresource="status", type=Workload
                    )
                    for listener in self.listeners:
                        listener(current, latest)
                except ApiError as error:
                    if error.is_conflict and attempt < MAX_ATTEMPTS - 1:
                        continue
                    raise Gone(str(key)) if error.is_not_found else error from error
            for write, draft in drafts:
                for event in draft.events:
                    self._runtime.recorder(write.component).event(latest, *event)
                if not write.done.done():
                    write.done.set_result(latest)
            return

    async def _read(self, key: Key) -> Workload:
        try:
            return await self._runtime.client.get(WORKLOADS, key.namespace, key.name, type=Workload)
        except ApiError as error:
            raise Gone(str(key)) if error.is_not_found else error from error


def _for(current: Workload | None, writes: list[_PendingWrite]) -> list[_PendingWrite]:
    """The writes about this very Workload; the others fail with Gone."""
    uid = current.metadata.uid if current is not None else ""
    _fail([write for write in writes if write.uid != uid], Gone("the Workload is gone"))
    return [write for write in writes if write.uid == uid]


def _fail(writes: list[_PendingWrite], error: BaseException) -> None:
    for write in writes:
        if not write.done.done():
            write.done.set_exception(error)
            write.done.exception()  # retrieved, in case the caller was cancelled
