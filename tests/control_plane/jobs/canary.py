"""Shows that a controller has processed everything up to now, however slow the controller and the machine are.

The canary has two Jobs of its own, changed together in rounds. The pod of the *pulse* Job becomes ready and unready in
turn; the *echo* Job has no pod, and the canary writes a wrong number into its status. The controller corrects both
statuses: the first shows how far its watch of pods has come, the second its watch of Jobs. A watch delivers in order,
and a work queue returns keys in the order in which they became due. So everything that happened before a round began
has been processed when the round is answered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from queue_manager.api.api_resources import JOBS, PODS
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH

if TYPE_CHECKING:
    from tests.control_plane.jobs.shared_server import SharedServer

POLL_SECONDS = 0.05
PAUSE_SECONDS = 0.25  # between two rounds
PULSE, ECHO = "pulse", "echo"
SILENCE_SECONDS = 300.0  # without an answer for so long, the controller does not work at all
WRONG = 7  # a number of active pods that the echo Job does not have


class Canary:
    """`answered`: loop time at which the last answered round began."""

    def __init__(self, shared: SharedServer, side: str) -> None:
        self.answered = 0.0
        self._shared = shared
        self._side = side
        self._namespace = f"canary-{uuid4().hex[:8]}"
        self._task = asyncio.create_task(self._run_rounds())

    def check(self) -> None:
        """Raise the error that ended the rounds."""
        if self._task.done():
            self._task.result()

    def cancel(self) -> None:
        self._task.cancel()

    async def _run_rounds(self) -> None:
        shared, namespace = self._shared, self._namespace
        await shared.create_namespace(namespace)
        for name, parallelism in ((PULSE, 1), (ECHO, 0)):
            body = shared.manifest(self._side, {"parallelism": parallelism}, {}, {}, {"app": "canary"})
            await shared.user.create(JOBS, namespace, {**body, "metadata": {"name": name}})
        while not shared.pods_in(namespace) or "startTime" not in self._status(ECHO):
            await asyncio.sleep(POLL_SECONDS)
        (pod,) = shared.pods_in(namespace)
        ready = False
        while True:
            ready = not ready
            await self._round(pod.metadata.name, ready)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _round(self, pod: str, ready: bool) -> None:
        shared, began = self._shared, asyncio.get_running_loop().time()
        wrong = {"status": {"active": WRONG}}
        echo = await shared.user.patch(JOBS, self._namespace, ECHO, wrong, subresource="status")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
        pulse = await shared.user.patch(
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
            and shared.pods.progress >= _revision(pulse)  # our own watch has come as far
            and shared.jobs.progress > _revision(echo)
        ):
            await asyncio.sleep(POLL_SECONDS)
            if asyncio.get_running_loop().time() - began > SILENCE_SECONDS:
                raise TimeoutError(
                    f"{self._side}: no answer for {SILENCE_SECONDS:.0f} s; {self._shared.last_log(self._side)}"
                )
        self.answered = began

    def _status(self, name: str) -> dict[str, Any]:
        job = self._shared.jobs.get(self._namespace, name)
        return {} if job is None else job.status


def _revision(tree: Any) -> int:
    return int(tree["metadata"]["resourceVersion"])
