"""A work queue of keys (client-go's workqueue): each key is queued at most once, and at most one worker has it.

A key is in some of these places:

    queued      Known keys are served first in, first out. *New* keys (never worked on) are served after them, and only
                by some of the workers: 500 new Jobs do not delay the sync that notices the end of a running one. A new
                key that becomes urgent is treated as a known key.
    processing  A worker has it. If the key is added meanwhile, it is queued again when the worker is done, so that no
                change is missed and no key starves the others.
    delayed     A timer adds it later; of several delays of one key the earliest counts. A delayed key can be queued and
                processed meanwhile: one whose deadline is an hour away may be synced many times before.

A key whose worker raises is added again after a delay that doubles with each failure in a row.

The worker runs as work that follows from the changes for which the key was added (`cause_ids`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from queue_manager.engine import tracing
from queue_manager.engine.cause_ids import CURRENT, CauseId
from queue_manager.engine.kept_loop import KeptLoop
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.transport_protocol import ApiError

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_DELAY_SECONDS = 1.0  # after the first failure
MAX_DELAY_SECONDS = 60.0
NEW_KEY_INTERVAL = 8  # every so many keys a new key is served even while known keys are queued
WORKERS_PER_NEW_KEY = 4  # one worker in so many may process new keys; the others stay free for known keys


class WorkQueue(Generic[K]):
    """A work queue on the running event loop. Its metrics have the names of client-go's (`workqueue_...`)."""

    def __init__(
        self,
        name: str = "",
        *,
        first_delay: float = FIRST_DELAY_SECONDS,
        metrics: MetricRegistry | None = None,
        traced: bool = True,
    ) -> None:
        """`first_delay`: seconds after the first failure. `traced`: syncs are logged at level debug, and are spans."""
        self.name = name
        self._traced = traced
        self._first_delay = first_delay
        self._metrics = metrics
        self._labels = {"name": name}
        self._known_keys: deque[K] = deque()
        self._new_keys: OrderedDict[K, None] = OrderedDict()
        self._taken = 0
        self._max_new_processing = 1  # how many new keys may be processed at once
        self._new_processing = 0
        self._queued_since: dict[K, float] = {}  # loop time of the addition; 0 before the loop runs
        self._processing_since: dict[K, float] = {}  # loop time of the start
        self._added_again: set[K] = set()  # added while processing
        self._causes: dict[K, CauseId] = {}  # of queued keys, and of those added while processing
        # Due time and timer. For less than half a millisecond uvloop returns a handle without its time.
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        self._failures: dict[K, int] = {}
        self._idle: deque[asyncio.Future[None]] = deque()  # idle workers, the longest idle first
        self._closed = False
        self._loop = KeptLoop()
        if metrics is not None:
            for counter in ("adds", "retries"):  # rate() needs the 0 before the first increment
                metrics.inc(f"workqueue_{counter}_total", self._labels, 0)
            metrics.before_exposition(self._measure)

    # --- adding ---

    def add(self, key: K, *, new: bool = False, urgent: bool = False) -> None:
        """Queue the key unless it is queued. `new`: it was never worked on, known keys go first.

        `urgent`: if the key is queued as a new key, it moves to the end of the known keys.
        """
        if self._closed:
            return
        if (cause := CURRENT.get()) is not None:
            self._note_cause(key, cause)
        if key in self._added_again:
            return
        if key in self._queued_since:
            if urgent and key in self._new_keys:
                del self._new_keys[key]
                self._append_known(key)
            return
        self._count("workqueue_adds_total")
        if key in self._processing_since:
            self._added_again.add(key)
        else:
            self._enqueue(key, new=new)

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key after `seconds`. Of several pending delays of one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        if self._closed:
            return
        loop = self._loop.get()
        due = loop.time() + seconds
        pending = self._timers.get(key)
        if pending is not None:
            earlier, timer = pending
            if earlier <= due:
                return
            timer.cancel()
        self._timers[key] = due, loop.call_at(due, self._due, key)

    def flush_delayed(self) -> None:
        """Add all delayed keys now: each sync computes anew how long it has to wait."""
        for _, timer in self._timers.values():
            timer.cancel()
        delayed = list(self._timers)
        self._timers.clear()
        for key in delayed:
            self.add(key)

    def add_rate_limited(self, key: K) -> None:
        """Add the key after a delay that doubles with each call until `forget`, from 1 s to 60 s by default."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._count("workqueue_retries_total")
        self.add_after(key, min(MAX_DELAY_SECONDS, self._first_delay * 2.0 ** min(failures, 32)))

    def forget(self, key: K) -> None:
        """Reset the failures of the key: its next delay is the first one."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How many times in a row the key has failed."""
        return self._failures.get(key, 0)

    def __len__(self) -> int:
        """Queued keys; those being processed or delayed do not count."""
        return len(self._known_keys) + len(self._new_keys)

    # --- working ---

    async def run(self, worker: Callable[[K], Awaitable[object]], concurrency: int = 1) -> None:
        """Process keys with `concurrency` workers until `finish` or `close`; return when every worker is done."""
        self._max_new_processing = max(1, concurrency // WORKERS_PER_NEW_KEY)
        async with asyncio.TaskGroup() as workers:
            for number in range(concurrency):
                workers.create_task(self._work(worker), name=f"{self.name}-{number}")

    def finish(self) -> None:
        """Accept no more keys; `run` returns when the queued ones are processed."""
        self._closed = True
        self._notify_all_idle()

    def close(self) -> None:
        """Accept no more keys and drop the queued ones; `run` returns when the current ones are processed."""
        self._closed = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._known_keys.clear()
        self._new_keys.clear()
        self._queued_since.clear()
        self._added_again.clear()
        self._causes.clear()
        self._notify_all_idle()

    def _notify_all_idle(self) -> None:
        for future in self._idle:
            if not future.done():
                future.set_result(None)

    async def _work(self, worker: Callable[[K], Awaitable[object]]) -> None:
        """One worker: process keys until the queue is closed and empty."""
        loop = self._loop.get()
        while await self._wait_for_key():
            key, is_new = self._take()
            self._observe("workqueue_queue_duration_seconds", loop.time() - self._queued_since.pop(key))
            started = self._processing_since[key] = loop.time()
            CURRENT.set(self._causes.pop(key, None))
            try:
                await self._process(worker, key)
            except Exception as error:
                self._failed(key, error)
            else:
                self.forget(key)
            finally:
                del self._processing_since[key]
                self._observe("workqueue_work_duration_seconds", loop.time() - started)
                if is_new:
                    self._new_processing -= 1
                    self._notify_all_idle() if self._closed else self._notify_idle()
                if key in self._added_again:
                    self._added_again.discard(key)
                    self._enqueue(key)
            if self._traced and log.isEnabledFor(logging.DEBUG):
                log.debug("synced", extra={"queue": self.name, "key": _text(key), "seconds": loop.time() - started})
            CURRENT.set(None)
            # With more keys queued, a sync that never waits would keep every other task from running.
            await asyncio.sleep(0)

    async def _process(self, worker: Callable[[K], Awaitable[object]], key: K) -> None:
        if tracing.tracer is None or not self._traced:
            await worker(key)
        else:
            with tracing.tracer.sync(self.name, _text(key)):
                await worker(key)

    def _note_cause(self, key: K, cause: CauseId) -> None:
        known = self._causes.get(key)
        if known is None:
            self._causes[key] = cause
        elif known is not cause:
            self._causes[key] = known.joined(cause)

    def _take(self) -> tuple[K, bool]:
        """The next key, and whether it is new. Every NEW_KEY_INTERVAL-th key is a new one if there is one."""
        self._taken += 1
        is_new_turn = not self._known_keys or self._taken % NEW_KEY_INTERVAL == 0
        if is_new_turn and self._may_take_new():
            self._new_processing += 1
            return self._new_keys.popitem(last=False)[0], True
        return self._known_keys.popleft(), False

    def _may_take_new(self) -> bool:
        return bool(self._new_keys) and self._new_processing < self._max_new_processing

    async def _wait_for_key(self) -> bool:
        """Wait until this worker may take a key; False when the queue is closed and empty."""
        while not self._known_keys and not self._may_take_new() and not (self._closed and not len(self)):
            future: asyncio.Future[None] = self._loop.get().create_future()
            self._idle.append(future)
            try:
                await future
            finally:
                if future in self._idle:
                    self._idle.remove(future)
        return len(self) > 0

    def _enqueue(self, key: K, *, new: bool = False) -> None:
        self._queued_since[key] = self._time()
        if new:
            self._new_keys[key] = None
            self._notify_idle()
        else:
            self._append_known(key)

    def _append_known(self, key: K) -> None:
        self._known_keys.append(key)
        self._notify_idle()

    def _notify_idle(self) -> None:
        while self._idle:
            future = self._idle.popleft()
            if not future.done():
                future.set_result(None)
                return

    def _due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    def _failed(self, key: K, error: Exception) -> None:
        self.add_rate_limited(key)
        extra = {"queue": self.name, "key": _text(key), "failures": self.failures(key), "error": str(error)}
        if isinstance(error, ApiError | OSError):
            # Expected: conflicts, an unreachable server. The text is enough, no traceback.
            log.warning("sync failed, will be repeated", extra=extra)
        else:
            log.exception("sync failed, will be repeated", extra=extra)

    def _time(self) -> float:
        """The loop's time; 0 before the loop runs, for keys that are added earlier."""
        try:
            return self._loop.time()
        except RuntimeError:
            return 0.0

    def _measure(self) -> None:
        """Set the gauges, before each exposition."""
        now = self._time()
        ages = [now - started for started in self._processing_since.values()]
        for name, value in (
            ("depth", len(self)),
            ("unfinished_work_seconds", sum(ages)),
            ("longest_running_processor_seconds", max(ages, default=0.0)),
        ):
            if self._metrics is not None:
                self._metrics.set(f"workqueue_{name}", self._labels, value)

    def _count(self, metric: str) -> None:
        if self._metrics is not None:
            self._metrics.inc(metric, self._labels)

    def _observe(self, metric: str, seconds: float) -> None:
        if self._metrics is not None:
            self._metrics.observe(metric, self._labels, seconds)


def _text(key: object) -> str:
    """A key for people: namespace/name, or the parts of a larger key."""
    return "/".join(filter(None, map(_text, key))) if isinstance(key, tuple) else str(key)
