"""The only writer of the status of Workloads.

Several controllers change the same Workload at nearly the same time: the scheduler reserves quota while `jobs` reports
pods. Each passes a transition. All transitions pending for one Workload are applied to its newest state, one after
another, and sent as one conditional patch. So our own writers never conflict with each other, a transition always
decides on current facts, and Events are recorded only after the write. A patch leaves alone what others have written;
an update (PUT) of the typed status would spell their times anew and drop fields that this version does not know, and
saves the API server only about 4 % of its CPU under load.

In which order Workloads are written, and how many at a time, is decided by `write_queue`.
BEHAVIOUR.md#q39-status-writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from job_controller.model import Key
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.cause_ids import CURRENT, CauseId, join
from queue_manager.engine.kept_loop import KeptLoop
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.transitions import Transition
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.lifecycle.write_causes import Cause, main_cause
from queue_manager.scheduler.write_queue import WriteQueue

MAX_ATTEMPTS = 5  # before a conflict is raised to the caller
WRITES = "sluice_workload_status_writes_total"


class Gone(Exception):
    """The Workload does not exist any more, or another one has its name."""


class _PendingWrite(NamedTuple):
    uid: str
    transition: Transition
    component: str
    cause: Cause
    written: Callable[[Workload], None]
    failed: Callable[[Exception], None]
    follows: CauseId | None  # the change from which the transition follows
    slot: str = ""  # of an explanation: a newer one of the same slot replaces it
    never: bool = False  # it says that the Workload can never start as it is


class WorkloadWriter:
    """Applies transitions. `listeners` are called with (before, after) of each write."""

    def __init__(self, runtime: Runtime, settings: WorkloadSettings, cache: Cache[Workload]) -> None:
        self._runtime = runtime
        self._cache = cache
        self.listeners: list[Callable[[Workload, Workload], None]] = []
        self._queue = WriteQueue(settings.pending_reason_period)
        self._pending: dict[Key, list[_PendingWrite]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._explanation_added = asyncio.Event()
        self._loop = KeptLoop()
        runtime.add_urgent_writes(lambda: self._queue.urgent)
        runtime.support(self._pace_explanations)

    def reconfigure(self, settings: WorkloadSettings) -> None:
        """Apply changed settings."""
        self._queue.period = settings.pending_reason_period
        self._explanation_added.set()

    @property
    def is_busy(self) -> bool:
        """Whether so many urgent writes wait for the API server that an explanation would delay them."""
        return self._queue.is_busy

    # --- adding ---

    async def write(self, workload: Workload, transition: Transition, component: str, cause: Cause) -> Workload:
        """Apply a transition to the newest state of a Workload and return the state after the write.

        Raises Gone, ApiError if the API server rejects the write, or OSError if it cannot be reached.
        """
        done: asyncio.Future[Workload] = self._loop.get().create_future()

        def written(latest: Workload) -> None:
            if not done.done():
                done.set_result(latest)

        def failed(error: Exception) -> None:
            if not done.done():
                done.set_exception(error)
                done.exception()  # retrieved, in case the caller was cancelled

        write = _PendingWrite(workload.metadata.uid, transition, component, cause, written, failed, CURRENT.get())
        self._add(workload.metadata.key, write)
        return await asyncio.shield(done)

    def explain(
        self,
        workload: Workload,
        transition: Transition,
        component: str,
        cause: Cause,
        *,
        slot: str,
        failed: Callable[[Exception], None],
        never: bool = False,
    ) -> None:
        """Have a transition applied when no urgent write is queued, or together with one.

        It replaces an earlier one of the same `slot` that is still queued. `failed` is called with what `write` raises.
        `never`: it says that the Workload can never start as it is.
        """
        key = workload.metadata.key
        self._remove(key, slot)
        uid = workload.metadata.uid
        self._add(key, _PendingWrite(uid, transition, component, cause, _ignore, failed, CURRENT.get(), slot, never))
        self._explanation_added.set()

    def withdraw(self, key: Key, slot: str) -> None:
        """Drop the queued explanation of this slot, if any, because it no longer holds."""
        self._remove(key, slot)
        if key not in self._pending:
            self._queue.discard(key)

    def _add(self, key: Key, write: _PendingWrite) -> None:
        self._pending.setdefault(key, []).append(write)
        never = any(each.never for each in self._pending[key])
        self._queue.add(key, self._loop.time(), explains=write.cause.explains, never=never)
        self._start_writes()

    def _put_back(self, key: Key, write: _PendingWrite) -> None:
        """Queue an explanation again, unless a newer one has replaced it."""
        if all(each.slot != write.slot for each in self._pending.get(key, ())):
            self._add(key, write)

    def _remove(self, key: Key, slot: str) -> None:
        kept = [write for write in self._pending.get(key, ()) if write.slot != slot]
        if kept:
            self._pending[key] = kept
        else:
            self._pending.pop(key, None)

    # --- order ---

    async def _pace_explanations(self) -> None:
        """Start the queued explanations at their pace."""
        try:
            while True:
                self._explanation_added.clear()
                self._start_writes()
                wake_at = self._queue.wake_at(self._loop.time())
                pause = None if wake_at is None else max(0.0, wake_at - self._loop.time())
                try:
                    async with asyncio.timeout(pause):
                        await self._explanation_added.wait()
                except TimeoutError:
                    pass
        finally:
            for task in self._tasks:
                task.cancel()

    def _start_writes(self) -> None:
        while (key := self._queue.take(self._loop.time())) is not None:
            task = asyncio.create_task(self._write_pending(key), name=f"write {key}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _write_pending(self, key: Key) -> None:
        try:
            for _ in range(2):  # let controllers that react to the same change add their transitions
                await asyncio.sleep(0)
            # Explanations come last: what the others write can make them untrue, and then they have no Event either.
            writes = sorted(self._pending.pop(key, []), key=lambda write: (bool(write.slot), write.cause.explains))
            self._queue.begin(key)
            CURRENT.set(join(write.follows for write in sorted(writes, key=lambda write: write.cause.place)))
            try:
                await self._write(key, writes)
            except Exception as error:
                _fail(writes, error)  # each caller logs and decides about a retry
            except asyncio.CancelledError:
                _fail(writes, ConnectionAbortedError("the writer was stopped"))
                raise
        finally:
            self._queue.done(key, self._loop.time())
            self._start_writes()
            if len(self._queue):
                self._explanation_added.set()

    # --- one write ---

    async def _write(self, key: Key, writes: list[_PendingWrite]) -> None:
        for attempt in range(MAX_ATTEMPTS):
            current = self._cache.get(key.namespace, key.name) if attempt == 0 else await self._read(key)
            writes = _for(current, writes)
            if not writes or current is None:
                return
            drafts = self._apply(key, current, writes)
            latest = drafts[-1][1].workload if drafts else current
            total = Draft(current, self._runtime.clock.now())
            total.status = latest.status
            if total.changed:
                try:
                    latest = await self._patch(key, total)
                except ApiError as error:
                    if error.is_conflict and attempt < MAX_ATTEMPTS - 1:
                        continue
                    raise Gone(str(key)) if error.is_not_found else error from error
                self._count([write.cause for write, draft in drafts if draft.changed])
                for listener in self.listeners:
                    listener(current, latest)
            for write, draft in drafts:
                CURRENT.set(write.follows)
                for event in draft.events:
                    self._runtime.recorder(write.component).event(latest, *event)
                write.written(latest)
            return

    def _apply(self, key: Key, current: Workload, writes: list[_PendingWrite]) -> list[tuple[_PendingWrite, Draft]]:
        """Apply the transitions one after another, explanations last.

        If the urgent ones change nothing, there is no write that explanations could share, and these are queued again.
        """
        drafts: list[tuple[_PendingWrite, Draft]] = []
        nothing_to_share = any(not write.cause.explains for write in writes)  # until an urgent one changes something
        for write in writes:
            if nothing_to_share and write.cause.explains:
                self._put_back(key, write)
                continue
            draft = Draft(drafts[-1][1].workload if drafts else current, self._runtime.clock.now())
            write.transition(draft)
            drafts.append((write, draft))
            nothing_to_share = nothing_to_share and not draft.changed
        return drafts

    async def _patch(self, key: Key, draft: Draft) -> Workload:
        client = self._runtime.client
        return await client.patch(
            WORKLOADS, key.namespace, key.name, draft.patch(), subresource="status", type=Workload
        )

    def _count(self, causes: list[Cause]) -> None:
        if causes:
            self._runtime.metrics.inc(WRITES, {"cause": main_cause(causes).value})

    async def _read(self, key: Key) -> Workload:
        try:
            return await self._runtime.client.get(WORKLOADS, key.namespace, key.name, type=Workload)
        except ApiError as error:
            raise Gone(str(key)) if error.is_not_found else error from error


def _for(current: Workload | None, writes: list[_PendingWrite]) -> list[_PendingWrite]:
    """Return the writes for the Workload with the UID of `current`; writes for another UID fail with Gone."""
    uid = current.metadata.uid if current is not None else ""
    _fail([write for write in writes if write.uid != uid], Gone("the Workload is gone"))
    return [write for write in writes if write.uid == uid]


def _ignore(latest: Workload) -> None:
    """Does nothing: no caller waits for the write of an explanation."""


def _fail(writes: list[_PendingWrite], error: Exception) -> None:
    for write in writes:
        write.failed(error)
