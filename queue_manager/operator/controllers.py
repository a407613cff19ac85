"""The chosen controllers on one runtime, and their life from the first list to the last write."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

from queue_manager.configuration import KueueConfig
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.clock_jumps import follow_clock
from queue_manager.engine.job_cluster import run_job_controller
from queue_manager.engine.reflector import SILENCE
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.throttle import throttled
from queue_manager.jobs.queue_manager import add_queue_controllers
from queue_manager.operator.absence import PathsAreServed
from queue_manager.operator.permissions import ALL, JOB_CONTROLLER, QUEUE
from queue_manager.operator.preflight import CannotStart
from queue_manager.operator.transport import ClusterTransport


class Controllers:
    """`run` as a task, `stop` to end it. The Job controller manages only Jobs that name it, unless configured."""

    def __init__(
        self, transport: ClusterTransport, config: KueueConfig, chosen: Iterable[str] = ALL, *, silence: float = SILENCE
    ) -> None:
        """`silence`: seconds without a word after which a watch is taken for dead."""
        self.ready = asyncio.Event()
        limited = throttled(PathsAreServed(transport), config.client_connection.limit)
        self.runtime = Runtime(limited, SystemClock(), random.SystemRandom(), silence=silence)
        self._sync_timeout = config.controller.cache_sync_timeout.total_seconds()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[object] | None = None
        self.runtime.task(transport.follow)
        follow_clock(self.runtime)
        chosen = list(chosen)
        if JOB_CONTROLLER in chosen:
            run_job_controller(self.runtime, config.job_controller.options(manage="ManagedBy"))
        self._queue = add_queue_controllers(self.runtime, config) if QUEUE in chosen else None

    def reconfigure(self, config: KueueConfig) -> None:
        """Take over a new configuration, in which nothing has changed that needs a restart."""
        if self._queue is not None:
            self._queue.reconfigure(config)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    async def run(self) -> None:
        """List, then work until `stop`. Raises CannotStart if listing takes too long, or what a part died of."""
        if self._stop.is_set():
            return
        self._task = asyncio.current_task()
        try:
            async with asyncio.timeout(self._sync_timeout or None) as waiting, self.runtime:
                waiting.reschedule(None)
                self.ready.set()
                await self._stop.wait()
        except TimeoutError:
            names = ", ".join(self.runtime.unsynced())
            raise CannotStart(f"could not list {names} within {self._sync_timeout:.0f} s") from None
        except asyncio.CancelledError:
            if not self._stop.is_set():
                raise

    def stop(self) -> None:
        """Have `run` end: within 4.5 s what is under way is finished and the rest let go."""
        self._stop.set()
        if self._task is not None and not self.runtime.working:
            self._task.cancel()  # it is still listing
