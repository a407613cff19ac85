"""One pod on this node, from its binding to its end.

Theory. `sync` reads the pod and its processes, takes the next step and reports it; it never waits for a process. It is
called again when the pod changes, when a process ends, or at the time that it requested. The life of a pod:

    starting/running --all containers done--------------------------------------> ended
        |  deleted, past its deadline, failed by another client, done but for sidecars, evicted, node shutdown
        v
    stopping: SIGTERM to every process group, SIGKILL when the grace period is over --no process left--> ended

An ended pod gets its terminal status in one write. If it is being deleted, it is then removed from the API (grace 0).
State that must survive the agent is in files (pod_files.py) or in the API; a new worker finds the processes again
(pod_processes.py).

A node shutdown does not end the pod: its status is kept, and the next agent starts the interrupted containers again, in
the same pod and whatever its restartPolicy. The interruption does not count against the backoffLimit of the pod's Job.
A kubelet would report the pod as Failed, which a Job with backoffLimit 0 does not survive.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import msgspec

from job_controller.model import ObjectMeta
from job_controller.pod_phases import TERMINAL
from job_controller.times import WaitStart, later, wait_start
from queue_manager.local.agent import environment as env
from queue_manager.local.agent import stop_order_file
from queue_manager.local.agent.container_starts import (
    Container,
    containers_of,
    plan,
    waiting_since_crash,
)
from queue_manager.local.agent.pod_files import RunFiles
from queue_manager.local.agent.pod_processes import PodProcesses
from queue_manager.local.agent.pod_status import (
    DEADLINE_EXCEEDED,
    NODE_SHUTDOWN,
    NODE_SHUTDOWN_REASON,
    SHUTDOWN,
    PodFacts,
    Termination,
    pod_status,
    status_patch,
)
from queue_manager.local.agent.pod_worker_dependencies import NodePod, WorkerDependencies, awaits_confirmation
from queue_manager.local.agent.stop_order_file import StopOrder

log = logging.getLogger(__name__)

DEFAULT_GRACE_SECONDS = 30
# Minimum grace period in seconds, also for a pod that is gone from the API or was deleted with grace 0.
MIN_GRACE_SECONDS = 1
TIMESTAMP_PRECISION = 1  # seconds that a stored time may be too early


@dataclass(slots=True)
class Stop:
    """The stop of a pod that is under way. `kill_at`: event loop time of the SIGKILL."""

    verdict: Termination | None
    kill_at: float


class PodWorker:
    """Runs one pod. `request_sync` requests another sync after the given number of seconds."""

    def __init__(self, pod: NodePod, tools: WorkerDependencies, request_sync: Callable[[float], None]) -> None:
        self.pod = pod
        self.uid = pod.metadata.uid
        self.tree = pod.tree()
        self.containers = containers_of(self.tree["spec"])
        self.ended = False
        self._found_deletion = pod.metadata.deletion_timestamp
        self._layout, self._host, self._reports = tools.layout, tools.host, tools.reports
        self._now, self._request_sync = tools.now, request_sync
        changed = partial(request_sync, 0)
        self.processes = PodProcesses(pod, self.tree, self.containers, tools, changed, self._report_unhealthy)
        self._stop: Stop | None = None
        self._recorded_order = stop_order_file.read(tools.layout.stop_order(self.uid))  # possibly by an earlier agent
        self._order = self._recorded_order  # to stop the pod, given by the node
        self._resumed = False  # after an interruption, and not reported yet
        self._reported: set[tuple[str, str, int]] = set()
        since = pod.status.get("startTime")
        self._start_time = datetime.fromisoformat(since) if since else self._now()
        self._deadline_start: WaitStart | None = None
        for container in self.containers:
            self.processes.recover(container, pod.status, self._start_time)

    @property
    def running(self) -> bool:
        """Whether a container of the pod runs."""
        return any(c.running for c in self.containers)

    @property
    def would_resume(self) -> bool:
        """Whether a shutdown of the node now would interrupt this pod, which otherwise would run on."""
        going = self.pod.metadata.deletion_timestamp is not None or self.pod.is_over
        return self.running and self._stop is None and not going

    # --- one step ---

    async def sync(self, pod: NodePod | None, shutdown: float | None = None) -> None:
        """Take the next step and write what changed. `pod` is None if it is gone from the API.

        `shutdown`: the node shuts down, and pods get at most this many seconds to end; None otherwise.
        """
        if pod is not None:
            self.pod = pod
            self.tree["metadata"], self.tree["status"] = msgspec.to_builtins(pod.metadata), pod.status
        self.processes.collect_exits()
        self._observe_clock()
        self._check_for_stop(pod, shutdown)
        if shutdown is None and self._is_interrupted and not self.running:
            self._resume()
            self._check_for_stop(pod, shutdown)
        if self._stop is None:
            await self._start_due_containers()
        if self._stop is not None:
            self._continue_stop(self._stop)
        self.ended = self._stop is not None and not self.running
        if pod is not None and not self._is_interrupted:
            await self._report(pod)
            self._forget_interruption()

    def end(self, verdict: Termination, grace: float | None = None) -> None:
        """Request that the next sync stops this pod, within `grace` seconds, by default its own grace period."""
        self._order = StopOrder(verdict, self._grace if grace is None else grace)

    async def _report(self, pod: NodePod) -> None:
        view = self._view()
        changed = status_patch(pod.status, pod_status(view))
        if changed:
            used = self.processes.usage_annotations() if changed.get("phase") in TERMINAL else {}
            await self._reports.patch_status(pod, changed, used)
        if self.ended and awaits_confirmation(pod):
            await self._reports.delete(pod)

    def _view(self) -> PodFacts:
        verdict = self._stop.verdict if self._stop else None
        now = self._now()
        unready = self.processes.unready
        return PodFacts(self.tree, self.containers, self._host.ip, now, self._start_time, self.ended, verdict, unready)

    # --- starting ---

    async def _start_due_containers(self) -> None:
        now = self._now()
        due = plan(self.containers, self._restart_policy, now)
        for container in due.start:
            await self._start(container)
        if due.start:  # a failed start has a retry time, which the plan now contains
            due = plan(self.containers, self._restart_policy, now)
        self._report_crash_loops(now)
        if due.finished:
            self._begin_stop(None, self._grace)
        elif due.wake is not None:
            self._request_sync((due.wake - now).total_seconds())

    async def _start(self, container: Container) -> None:
        try:
            await self._spawn(container)
        except env.StartError as error:
            self.processes.record_failed_start(container, str(error))
            number = container.current.number if container.current else 0
            self._record_once(container.name, "Warning", "Failed", f"Error: {error}", number)
        except env.ConfigError as error:
            self._refuse(container, "CreateContainerConfigError", str(error))
        except OSError as error:
            self._refuse(container, "CreateContainerError", str(error))

    async def _spawn(self, container: Container) -> None:
        if not container.spec.get("command"):
            self._refuse_image(container)
            return
        await self.processes.start(container)

    def _report_unhealthy(self, message: str) -> None:
        if self._stop is None:
            self._reports.event(self.pod, "Warning", "Unhealthy", message)

    def _refuse(self, container: Container, reason: str, message: str, *, retry: bool = True) -> None:
        container.refused(reason, message, self._now(), retry=retry)
        self._record_once(container.name, "Warning", "Failed", f"Error: {message}")

    def _refuse_image(self, container: Container) -> None:
        """Refuse a container without a command for good, with the reason of an image that cannot be pulled."""
        image = container.spec.get("image") or ""
        why = (
            f'container "{container.name}" has no command: no image is pulled here ("{image}"), '
            "this cluster runs `command` as a local process"
        )
        if container.refusal is None:
            self._refuse(container, "ErrImagePull", why)
        else:
            message = f'Back-off pulling image "{image}": ErrImagePull: {why}'
            container.refused("ImagePullBackOff", message, self._now(), retry=False)

    # --- stopping ---

    def _check_for_stop(self, pod: NodePod | None, shutdown: float | None) -> None:
        if self._order is not None:
            order, self._order = self._order, None
            self._begin_stop(order.verdict, order.grace)
        if pod is None:
            self._begin_stop(None, MIN_GRACE_SECONDS)
        elif pod.metadata.deletion_timestamp is not None:
            self._begin_stop(None, self._deletion_grace(pod.metadata, pod.metadata.deletion_timestamp))
        elif pod.is_over:  # another client set the terminal phase: end the containers that still run
            self._begin_stop(None, self._grace)
        elif shutdown is None and self._stop is None and (left := self._seconds_until_deadline()) is not None:
            if left > 0:
                self._request_sync(left)
            elif not self._is_over:
                self._record_once("", "Normal", DEADLINE_EXCEEDED.reason, DEADLINE_EXCEEDED.message)
                self._begin_stop(DEADLINE_EXCEEDED, self._grace)
        if shutdown is not None:  # shortens a stop for another reason, too
            self._begin_stop(SHUTDOWN, min(self._grace, shutdown))

    def _deletion_grace(self, meta: ObjectMeta, end: datetime) -> float:
        """The seconds that a deleted pod has left: only the rest if an earlier agent may have begun to stop it."""
        grace = meta.deletion_grace_period_seconds
        seconds = self._grace if grace is None else grace
        if end != self._found_deletion:
            return seconds
        return min(seconds, (later(end, TIMESTAMP_PRECISION) - self._now()).total_seconds())

    @property
    def _is_over(self) -> bool:
        """Whether all containers finished by themselves, so that a deadline or shutdown does not change the result."""
        return plan(self.containers, self._restart_policy, self._now()).finished

    def _begin_stop(self, verdict: Termination | None, grace: float) -> None:
        """Stop the pod. Of several reasons the first counts, of several grace periods the one that ends first."""
        kill_at = asyncio.get_running_loop().time() + max(grace, MIN_GRACE_SECONDS)
        if self._stop is not None:
            self._stop.kill_at = min(self._stop.kill_at, kill_at)
            return
        if verdict is not None and self._recorded_order is None and not self._is_over:
            self._record_order(StopOrder(verdict, grace))
        self._stop = Stop(self._recorded_order.verdict if self._recorded_order else None, kill_at)
        for container in self.containers:
            if container.running:
                self._record_once(container.name, "Normal", "Killing", f"Stopping container {container.name}")
            if not container.sidecar:
                self.processes.signal(container, signal.SIGTERM)

    def _record_order(self, order: StopOrder) -> None:
        """Record the reason to stop the pod, which from now on decides its status whatever the exit codes are."""
        self._recorded_order = order
        try:
            stop_order_file.write(self._layout.stop_order(self.uid), order)
        except OSError:
            meta = self.pod.metadata
            log.exception("cannot store why the pod ends", extra={"key": str(meta.key), "uid": meta.uid})

    def _continue_stop(self, stop: Stop) -> None:
        """Signal sidecars when the other containers have ended; kill what still runs after the grace period."""
        left = stop.kill_at - asyncio.get_running_loop().time()
        if left <= 0:
            for container in self.containers:
                self.processes.signal(container, signal.SIGTERM)  # a sidecar may not have got its SIGTERM yet
                self.processes.signal(container, signal.SIGKILL)
        elif self.running:
            self._request_sync(left)
            if not any(c.running and not c.sidecar for c in self.containers):
                for container in self.containers:
                    self._signal_once(container, signal.SIGTERM)

    def _signal_once(self, container: Container, number: signal.Signals) -> None:
        mark = (container.name, number.name, 0)
        if mark not in self._reported:
            self._reported.add(mark)
            self.processes.signal(container, number)

    # --- interruption by a shutdown of the node ---

    @property
    def _is_interrupted(self) -> bool:
        """Whether the pod was stopped only because its node shut down."""
        stop = self._stop
        kept = self.pod.metadata.deletion_timestamp is None and not self.pod.is_over
        return kept and stop is not None and stop.verdict == SHUTDOWN

    def _resume(self) -> None:
        """Undo the interruption: containers that the shutdown ended start again without counting a restart."""
        for container in self.containers:
            if container.current is not None and self._was_interrupted(self.processes.run_files(container)):
                container.interrupted(NODE_SHUTDOWN_REASON, NODE_SHUTDOWN)
                message = f"Container {container.name} was ended by a shutdown of its node and starts again"
                self._reports.event(self.pod, "Normal", NODE_SHUTDOWN_REASON, message)
        self._stop = self._recorded_order = None
        self._resumed = True
        self._reported.clear()

    def _was_interrupted(self, run: RunFiles) -> bool:
        interrupted = run.was_interrupted()
        if interrupted:
            run.reset()
        return interrupted

    def _forget_interruption(self) -> None:
        """Remove the order once the API shows the containers as running; the next agent needs it until then."""
        if self._resumed:
            self._layout.stop_order(self.uid).unlink(missing_ok=True)
            self._resumed = False

    # --- clock ---

    def _observe_clock(self) -> None:
        """Shorten backoffs and the deadline if the clock was set back, so that none lasts longer than configured."""
        now = self._now()
        self._deadline_start = wait_start(self._start_time, self._deadline_start, now)
        for container in self.containers:
            container.observe(now)

    # --- facts ---

    @property
    def _restart_policy(self) -> str:
        return str(self.tree["spec"].get("restartPolicy") or "Always")

    @property
    def _grace(self) -> int:
        grace = self.tree["spec"].get("terminationGracePeriodSeconds")
        return DEFAULT_GRACE_SECONDS if grace is None else int(grace)

    def _seconds_until_deadline(self) -> float | None:
        seconds, start = self.tree["spec"].get("activeDeadlineSeconds"), self._deadline_start
        if seconds is None or start is None:
            return None
        return (later(start.effective, int(seconds)) - self._now()).total_seconds()

    # --- events ---

    def _report_crash_loops(self, now: datetime) -> None:
        for container in self.containers:
            if container.current and waiting_since_crash(container, self._restart_policy, now):
                meta = self.pod.metadata
                pod = f"{meta.name}_{meta.namespace}({meta.uid})"
                message = f"Back-off restarting failed container {container.name} in pod {pod}"
                self._record_once(container.name, "Warning", "BackOff", message, container.current.number)

    def _record_once(self, container: str, type: str, reason: str, message: str, number: int = 0) -> None:
        """Record an Event, once for each start of a container."""
        if (container, reason, number) not in self._reported:
            self._reported.add((container, reason, number))
            self._reports.event(self.pod, type, reason, message)
