"""How a controller shows that it has heard everything up to now, however slow it and the machine are.

It has two Jobs of its own, changed together in rounds. The *pulse* has a pod that becomes ready and unready in turn;
the *echo* has none, and somebody writes a wrong number into its status. The controller puts both right: one shows that
its watch of pods has come this far, the other that of Jobs. A watch tells all that happened before, and a queue
hands keys out in the order in which they became due: so whatever came before a round began, and was heard at the
latest then, has been taken up when the round is answered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from queue_manager.api.resources import JOBS, PODS
from queue_manager.engine.transport import STRATEGIC_PATCH

if TYPE_CHECKING:
    from tests.control_plane.jobs.arena import Arena

BEAT = 0.05  # seconds between two looks
PAUSE = 0.25  # seconds between two rounds
PULSE, ECHO = "pulse", "echo"
SILENCE = 300.0  # seconds after which a controller is given up: it does not work at all
WRONG = 7  # pods that the echo does not have


class Canary:
    """`answered`: loop time at which the last round began that was answered to."""

    def __init__(self, arena: Arena, side: str) -> None:
        self.answered = 0.0
        self._arena = arena
        self._side = side
        self._namespace = f"canary-{uuid4().hex[:8]}"
        self._task = asyncio.create_task(self._sing())

    def check(self) -> None:
        """Raises what ended the singing."""
        if self._task.done():
            self._task.result()

    def cancel(self) -> None:
        self._task.cancel()

    async def _sing(self) -> None:
        arena, namespace = self._arena, self._namespace
        await arena.create_namespace(namespace)
        for name, parallelism in ((PULSE, 1), (ECHO, 0)):
            body = arena.manifest(self._side, {"parallelism": parallelism}, {}, {}, {"app": "canary"})
            await arena.user.create(JOBS, namespace, {**body, "metadata": {"name": name}})
        while not arena.pods_in(namespace) or "startTime" not in self._status(ECHO):
            await asyncio.sleep(BEAT)
        (pod,) = arena.pods_in(namespace)
        ready = False
        while True:
            ready = not ready
            await self._round(pod.metadata.name, ready)
            await asyncio.sleep(PAUSE)

    async def _round(self, pod: str, ready: bool) -> None:
        arena, began = self._arena, asyncio.get_running_loop().time()
        wrong = {"status": {"active": WRONG}}
        echo = await arena.user.patch(JOBS, self._namespace, ECHO, wrong, subresource="status")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
        pulse = await arena.user.patch(
            PODS,
            self._namespace,
            pod,
            {"status": status},
            subresource="status",
            content_type=STRATEGIC_PATCH,
        )
        while not (
            self._status(PULSE).get("ready") == int(ready)
            and self._status(ECHO).get("active", 0) == 0
            and arena.pods.progress >= _revision(pulse)  # we have heard as much ourselves
            and arena.jobs.progress > _revision(echo)
        ):
            await asyncio.sleep(BEAT)
            if asyncio.get_running_loop().time() - began > SILENCE:
                raise TimeoutError(f"{self._side}: no answer for {SILENCE:.0f} s; {self._arena.trouble(self._side)}")
        self.answered = began

    def _status(self, name: str) -> dict[str, Any]:
        job = self._arena.jobs.get(self._namespace, name)
        return {} if job is None else job.status


def _revision(tree: Any) -> int:
    return int(tree["metadata"]["resourceVersion"])
