"""Work queue of keys: each key waits at most once, and at most one worker has it.

A key is in some of these places:

    waiting     First come, first served, with two exceptions. Newcomers (keys that were never worked on) wait behind
                the others, and only some of the workers take them: five hundred new Jobs do not keep the end of an
                old one from being seen. A newcomer that becomes urgent waits like the others from then on.
    processing  A worker has it. If the key is added meanwhile, it waits again when the worker is done, so that no
                change is missed and no key starves the others.
    delayed     A timer will add it; of several delays of one key the earliest counts. Delays are independent of the
                other two: a key whose deadline is an hour away may be worked on many times before.

A key whose worker fails is added again after a delay that doubles with each failure in a row.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.transport import ApiError

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_DELAY_SECONDS = 1.0  # seconds
MAX_DELAY_SECONDS = 60.0  # seconds
NEW_KEY_INTERVAL = 8  # one key in so many is a newcomer even while others wait
WORKERS_PER_NEW_KEY = 4  # one hand in so many may be busy with newcomers: what is under way finds the others free


class WorkQueue(Generic[K]):
    """A work queue on the running event loop. Metrics carry the names of client-go's."""

    def __init__(
        self,
        name: str = "",
        *,
        first_delay: float = FIRST_DELAY_SECONDS,
        metrics: MetricRegistry | None = None,
    ) -> None:
        self.name = name
        self._first_delay = first_delay
        self._metrics = metrics
        self._labels = {"name": name}
        self._known_keys: deque[K] = deque()
        self._new_keys: OrderedDict[K, None] = OrderedDict()
        self._taken = 0
        self._max_new_processing = 1  # how many newcomers may be worked on at once
        self._new_processing = 0
        self._queued_since: dict[K, float] = {}  # -> loop time of the addition; 0 before the loop runs
        self._processing_since: dict[K, float] = {}  # -> loop time of its beginning
        self._added_again: set[K] = set()  # added while processing
        # When, and the timer. For less than half a millisecond uvloop gives a handle that does not know its time.
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        self._failures: dict[K, int] = {}
        self._idle: deque[asyncio.Future[None]] = deque()  # workers with nothing to do, longest first
        self._closed = False
        if metrics is not None:
            for counter in ("adds", "retries"):  # a rate is computed from the first of them on only if 0 was told
                metrics.inc(f"workqueue_{counter}_total", self._labels, 0)
            metrics.before_exposition(self._measure)

    # --- adding ---

    def add(self, key: K, *, new: bool = False, urgent: bool = False) -> None:
        """Have the key worked on, soon and after all that are in line already. `new`: it was never worked on, and
        waits behind those that were. `urgent`: it waits no longer as a new key, if it did."""
        if self._closed or key in self._added_again:
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
        """Add the key later. Of several pending additions of one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        pending = self._timers.get(key)
        if pending is not None:
            earlier, timer = pending
            if earlier <= due:
                return
            timer.cancel()
        self._timers[key] = due, loop.call_at(due, self._due, key)

    def flush_delayed(self) -> None:
        """Add all that is delayed now: each will find out how long it still has to wait."""
        for _, timer in self._timers.values():
            timer.cancel()
        delayed = list(self._timers)
        self._timers.clear()
        for key in delayed:
            self.add(key)

    def add_rate_limited(self, key: K) -> None:
        """Add the key after a delay that doubles with each call, until it is forgotten."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._count("workqueue_retries_total")
        self.add_after(key, min(MAX_DELAY_SECONDS, self._first_delay * 2.0 ** min(failures, 32)))

    def forget(self, key: K) -> None:
        """The next failure of this key is its first."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often the key failed in a row."""
        return self._failures.get(key, 0)

    def __len__(self) -> int:
        """Keys in line; those being processed or delayed are not counted."""
        return len(self._known_keys) + len(self._new_keys)

    # --- working ---

    async def run(self, worker: Callable[[K], Awaitable[object]], concurrency: int = 1) -> None:
        """Work with so many hands until `close`, then return when all are empty."""
        self._max_new_processing = max(1, concurrency // WORKERS_PER_NEW_KEY)
        async with asyncio.TaskGroup() as workers:
            for number in range(concurrency):
                workers.create_task(self._work(worker), name=f"{self.name}-{number}")

    def finish(self) -> None:
        """Take no more keys; `run` returns when those in line are done."""
        self._closed = True
        self._notify_all_idle()

    def close(self) -> None:
        """Take no more keys and let go of those not begun; `run` returns when the rest is done."""
        self._closed = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._known_keys.clear()
        self._new_keys.clear()
        self._queued_since.clear()
        self._added_again.clear()
        self._notify_all_idle()

    def _notify_all_idle(self) -> None:
        for future in self._idle:
            if not future.done():
                future.set_result(None)

    async def _work(self, worker: Callable[[K], Awaitable[object]]) -> None:
        loop = asyncio.get_running_loop()
        while await self._wait_for_key():
            key, is_new = self._take()
            self._observe("workqueue_queue_duration_seconds", loop.time() - self._queued_since.pop(key))
            began = self._processing_since[key] = loop.time()
            try:
                await worker(key)
            except Exception as error:
                self._failed(key, error)
            else:
                self.forget(key)
            finally:
                del self._processing_since[key]
                self._observe("workqueue_work_duration_seconds", loop.time() - began)
                if is_new:
                    self._new_processing -= 1
                    self._notify_all_idle() if self._closed else self._notify_idle()  # another worker may take the next new key
                if key in self._added_again:
                    self._added_again.discard(key)
                    self._enqueue(key)
            # A worker that had nothing to wait for, with more in line, would let nobody else come to run.
            await asyncio.sleep(0)

    def _take(self) -> tuple[K, bool]:
        """The next key, and whether it is a newcomer."""
        self._taken += 1
        turn = not self._known_keys or self._taken % NEW_KEY_INTERVAL == 0
        if turn and self._may_take_new():
            self._new_processing += 1
            return self._new_keys.popitem(last=False)[0], True
        return self._known_keys.popleft(), False

    def _may_take_new(self) -> bool:
        return bool(self._new_keys) and self._new_processing < self._max_new_processing

    async def _wait_for_key(self) -> bool:
        """Wait for a key that may be worked on; false when the queue is closed and empty."""
        while not self._known_keys and not self._may_take_new() and not (self._closed and not len(self)):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            try:
                await future
            finally:
                if future in self._idle:
                    self._idle.remove(future)
        return len(self) > 0

    def _enqueue(self, key: K, *, new: bool = False) -> None:
        self._queued_since[key] = _loop_time()
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
        extra = {"queue": self.name, "key": str(key), "failures": self.failures(key), "error": str(error)}
        if isinstance(error, ApiError | OSError):
            # Part of life: conflicts, a server that is away. What it was is in the text.
            log.warning("sync failed, will be repeated", extra=extra)
        else:
            log.exception("sync failed, will be repeated", extra=extra)

    def _measure(self) -> None:
        """What is so at this moment."""
        now = _loop_time()
        ages = [now - began for began in self._processing_since.values()]
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


def _loop_time() -> float:
    """Keys may be added before the loop runs; such have waited since its beginning, as far as we know."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0
