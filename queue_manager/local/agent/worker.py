"""One pod on this node, from its binding to its end.

Theory. `sync` reads the pod and its processes, takes the next step and reports it; it never waits for a process. It is
called again when the pod changes, when a process ends, or at the time that it requested. The life of a pod:

    starting/running --all containers done--------------------------------------> ended
        |  deleted, past its deadline, failed by another client, done but for sidecars, evicted, node shutdown
        v
    stopping: SIGTERM to every process group, SIGKILL when the grace period is over --no process left--> ended

An ended pod gets its terminal status in one write. If it is being deleted, it is then removed from the API (grace 0).
State that must survive the agent is in files (layout.py) or in the API; a new worker finds the processes again.

A node shutdown does not end the pod: its status is kept, and the next agent starts the interrupted containers again, in
the same pod and whatever its restartPolicy. The interruption does not count against the backoffLimit of the pod's Job.
A kubelet would report the pod as Failed, which a Job with backoffLimit 0 does not survive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Protocol

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Object
from job_controller.times import WaitStart, later, wait_start
from queue_manager.local.agent import environment as env
from queue_manager.local.agent import stop_orders, supervisor
from queue_manager.local.agent.cgroups import Cgroups, was_oom_killed
from queue_manager.local.agent.containers import (
    CRASH_BACKOFF,
    CRASH_BACKOFF_CAP,
    STATUS_UNKNOWN,
    Container,
    ContainerRun,
    Exit,
    containers_of,
    plan,
    waiting_since_crash,
)
from queue_manager.local.agent.layout import Layout, RunFiles
from queue_manager.local.agent.limits import OOM_KILLED, limits_of
from queue_manager.local.agent.readiness import ProbeContext, Readiness, is_probed
from queue_manager.local.agent.status import (
    DEADLINE_EXCEEDED,
    NODE_SHUTDOWN,
    NODE_SHUTDOWN_REASON,
    SHUTDOWN,
    TERMINAL,
    VANISHED,
    PodFacts,
    Termination,
    pod_status,
    status_patch,
)
from queue_manager.local.agent.stop_orders import StopOrder

log = logging.getLogger(__name__)

DEFAULT_GRACE_SECONDS = 30
# Minimum grace period in seconds, also for a pod that is gone from the API or was deleted with grace 0.
MIN_GRACE_SECONDS = 1


class NodePod(Object):
    """A pod as the agent reads it; its spec stays undecoded until it is needed."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    def tree(self) -> Json:
        """The pod as JSON."""
        metadata = msgspec.to_builtins(self.metadata)
        return {"metadata": metadata, "spec": msgspec.json.decode(self.spec), "status": self.status}

    @property
    def is_over(self) -> bool:
        return self.status.get("phase") in TERMINAL


def awaits_confirmation(pod: NodePod) -> bool:
    """Whether the pod is being deleted and the API server waits for the node to confirm that nothing runs."""
    return pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds != 0


class WorkerReports(Protocol):
    """Receives what a worker writes to the API: statuses, deletions and Events."""

    async def patch_status(self, pod: NodePod, status: Json) -> None: ...

    async def delete(self, pod: NodePod) -> None: ...

    def event(self, pod: NodePod, type: str, reason: str, message: str) -> None: ...


@dataclass(slots=True)
class Stop:
    """The pod is being stopped. `kill_at`: event loop time of the SIGKILL."""

    verdict: Termination | None
    kill_at: float


class LogIndex(Protocol):
    """Receives the logs that grow."""

    def add(self, run: RunFiles) -> None: ...

    def remove(self, run: RunFiles) -> None: ...


@dataclass(frozen=True, slots=True)
class WorkerDependencies:
    """Dependencies shared by all workers of a node."""

    layout: Layout
    host: env.Host
    source: env.Source
    reports: WorkerReports
    logs: LogIndex
    now: Callable[[], datetime]
    cgroups: Cgroups | None = None  # of containers; None where the agent may create none


class PodWorker:
    """Runs one pod. `request_sync` requests another sync after the given number of seconds."""

    def __init__(self, pod: NodePod, tools: WorkerDependencies, request_sync: Callable[[float], None]) -> None:
        self.pod = pod
        self.uid = pod.metadata.uid
        self.tree = pod.tree()
        self.containers = containers_of(self.tree["spec"])
        self.ended = False
        self._layout, self._host, self._reports = tools.layout, tools.host, tools.reports
        self._tools, self._now, self._request_sync = tools, tools.now, request_sync
        self._processes: dict[str, supervisor.Process] = {}
        self._probes: dict[str, Readiness] = {}
        self._stop: Stop | None = None
        self._recorded_order = stop_orders.read(tools.layout.stop_order(self.uid))  # possibly by an earlier agent
        self._order = self._recorded_order  # to stop the pod, given by the node
        self._resumed = False  # after an interruption, and not reported yet
        self._reported: set[tuple[str, str, int]] = set()
        since = pod.status.get("startTime")
        self._start_time = datetime.fromisoformat(since) if since else self._now()
        self._deadline_start: WaitStart | None = None
        for container in self.containers:
            self._recover(container)

    @property
    def running(self) -> bool:
        return any(c.running for c in self.containers)

    # --- one step ---

    async def sync(self, pod: NodePod | None, shutdown: float | None = None) -> None:
        """Take the next step and write what changed. `pod` is None if it is gone from the API.

        `shutdown`: the node shuts down, and pods get at most this many seconds to end; None otherwise.
        """
        if pod is not None:
            self.pod = pod
            self.tree["metadata"], self.tree["status"] = msgspec.to_builtins(pod.metadata), pod.status
        self._collect_exits()
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

    def sessions(self) -> dict[int, str]:
        """The running containers by the process session each of them was started in."""
        return {process.pid: name for name, process in self._processes.items()}

    def sampled_limits(self) -> dict[str, int]:
        """limits.memory in bytes of the running containers without a cgroup, by container name."""
        found = {}
        for container in self.containers:
            limit = limits_of(container.spec).memory
            if limit is not None and container.name in self._processes and not self._run(container).cgroup.exists():
                found[container.name] = limit
        return found

    def kill_for_memory(self, name: str) -> None:
        """Kill a container that uses more memory than its limit."""
        container = next(c for c in self.containers if c.name == name)
        with contextlib.suppress(OSError):  # on a full disk it is killed as well, with the reason Error
            self._run(container).oom.touch()
        self._signal(container, signal.SIGKILL)

    def release(self) -> None:
        """Stop watching the processes; they keep running and a later worker finds them."""
        for probe in self._probes.values():
            probe.stop()
        for process in self._processes.values():
            process.release()

    async def _report(self, pod: NodePod) -> None:
        view = self._view()
        changed = status_patch(pod.status, pod_status(view))
        if changed:
            await self._reports.patch_status(pod, changed)
        if self.ended and awaits_confirmation(pod):
            await self._reports.delete(pod)

    def _view(self) -> PodFacts:
        verdict = self._stop.verdict if self._stop else None
        now = self._now()
        unready = {name for name, probe in self._probes.items() if not probe.ready}
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
        except env.ConfigError as error:
            self._refuse(container, "CreateContainerConfigError", str(error))
        except (env.CreateError, OSError) as error:
            self._refuse(container, "CreateContainerError", str(error))

    async def _spawn(self, container: Container) -> None:
        if not container.spec.get("command"):
            self._refuse_image(container)
            return
        self._layout.create(self.uid, container.name)
        run = self._layout.run(self.uid, container.name, container.next_number)
        declared = await self._declared(container.spec)
        variables, directory = self._surroundings(container.spec, declared, str(run.work))
        command, *arguments = env.arguments(container.spec, declared)
        program = env.executable(command, directory, variables["PATH"])
        process = supervisor.spawn(run, [program, *arguments], variables, directory, self._confine(container, run))
        self._watch(container, process, run)
        container.started(ContainerRun(run.number, self._now()))
        self._forget_old(run)

    def _confine(self, container: Container, run: RunFiles) -> str:
        """Create the cgroup of a container; empty if it has no limits, or no cgroup can be created."""
        limits = limits_of(container.spec)
        return str(self._tools.cgroups.create(run, limits)) if self._tools.cgroups and any(limits) else ""

    async def _declared(self, spec: Json) -> dict[str, str]:
        return await env.declared(self.tree, spec, self._host, self._tools.source)

    def _surroundings(self, spec: Json, declared: Mapping[str, str], home: str) -> ProbeContext:
        return ProbeContext(env.environment(self.tree, declared, home), env.working_directory(spec, home))

    async def _surroundings_of_probe(self, spec: Json, home: str) -> ProbeContext:
        return self._surroundings(spec, await self._declared(spec), home)

    def _watch(self, container: Container, process: supervisor.Process, run: RunFiles) -> None:
        self._processes[container.name] = process
        self._tools.logs.add(run)
        if is_probed(container.spec):
            prepare = partial(self._surroundings_of_probe, container.spec, str(run.work))
            changed = partial(self._request_sync, 0)
            self._probes[container.name] = Readiness(container.spec, prepare, changed, self._report_unhealthy)
        process.watch(lambda: self._request_sync(0))

    def _report_unhealthy(self, message: str) -> None:
        if self._stop is None:
            self._reports.event(self.pod, "Warning", "Unhealthy", message)

    def _forget_old(self, run: RunFiles) -> None:
        """Keep the files of the previous start (`kubectl logs --previous`) and remove older ones."""
        if run.number >= 2:
            self._layout.run(self.uid, run.container.name, run.number - 2).remove()

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
            grace = pod.metadata.deletion_grace_period_seconds
            self._begin_stop(None, self._grace if grace is None else grace)
        elif pod.is_over:  # another client set the terminal phase: end the containers that still run
            self._begin_stop(None, self._grace)
        elif shutdown is not None:
            self._begin_stop(SHUTDOWN, min(self._grace, shutdown))
        elif self._stop is None and (left := self._seconds_until_deadline()) is not None:
            if left > 0:
                self._request_sync(left)
            elif not self._is_over:
                self._record_once("", "Normal", DEADLINE_EXCEEDED.reason, DEADLINE_EXCEEDED.message)
                self._begin_stop(DEADLINE_EXCEEDED, self._grace)

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
                self._signal(container, signal.SIGTERM)

    def _record_order(self, order: StopOrder) -> None:
        """Record the reason to stop the pod, which from now on decides its status whatever the exit codes are."""
        self._recorded_order = order
        try:
            stop_orders.write(self._layout.stop_order(self.uid), order)
        except OSError:
            log.exception("cannot store why the pod ends", extra={"pod": self.pod.metadata.key})

    def _continue_stop(self, stop: Stop) -> None:
        """Signal sidecars when the other containers have ended; kill what still runs after the grace period."""
        left = stop.kill_at - asyncio.get_running_loop().time()
        if left <= 0:
            for container in self.containers:
                self._signal(container, signal.SIGTERM)  # a sidecar may not have got its SIGTERM yet
                self._signal(container, signal.SIGKILL)
        elif self.running:
            self._request_sync(left)
            if not any(c.running and not c.sidecar for c in self.containers):
                for container in self.containers:
                    self._signal_once(container, signal.SIGTERM)

    def _signal(self, container: Container, number: signal.Signals) -> None:
        process = self._processes.get(container.name)
        if container.running and process is not None:
            process.signal(number)

    def _signal_once(self, container: Container, number: signal.Signals) -> None:
        mark = (container.name, number.name, 0)
        if mark not in self._reported:
            self._reported.add(mark)
            self._signal(container, number)

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
            if container.current is not None and self._was_interrupted(self._run(container)):
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

    # --- processes ---

    def _observe_clock(self) -> None:
        """No backoff or deadline becomes longer because the clock was set back."""
        now = self._now()
        self._deadline_start = wait_start(self._start_time, self._deadline_start, now)
        for container in self.containers:
            container.observe(now)

    def _collect_exits(self) -> None:
        for container in self.containers:
            process = self._processes.get(container.name)
            if container.running and container.current is not None and process is not None and process.ended:
                container.ended(self._exit(container, container.current))
                del self._processes[container.name]
                if probe := self._probes.pop(container.name, None):
                    probe.stop()

    def _exit(self, container: Container, attempt: ContainerRun) -> Exit:
        run = self._layout.run(self.uid, container.name, attempt.number)
        self._tools.logs.remove(run)
        self._leave_cgroup(run)
        known = run.read_exit()
        code, finished = known if known is not None else (supervisor.KILLED, self._now())
        finished = max(finished, attempt.started_at)  # mtimes come from a coarser clock
        return Exit(code, finished, OOM_KILLED if code == supervisor.KILLED and run.oom.exists() else "")

    def _leave_cgroup(self, run: RunFiles) -> None:
        path = run.read_cgroup()
        if path is not None and was_oom_killed(path):
            run.oom.touch()
        if path is not None and self._tools.cgroups is not None:
            self._tools.cgroups.end(path)

    def _run(self, container: Container) -> RunFiles:
        """The files of the current start of a container."""
        return self._layout.run(self.uid, container.name, container.current.number if container.current else 0)

    def _recover(self, container: Container) -> None:
        """Restore the state of a container from its files: a process or an exit code; else from the API."""
        runs = self._layout.runs(self.uid, container.name)
        for run in runs[-2:]:
            known = run.read_pid()
            started = known[1] if known else self._now()
            container.previous, container.current = container.current, ContainerRun(run.number, started)
            self._recover_run(container, container.current, run, newest=run is runs[-1])
        if not runs and (status := self._running_by_the_api(container.name)) is not None:
            container.current = ContainerRun(status.get("restartCount", 0), self._start_time)
            container.ended(Exit(supervisor.KILLED, self._now(), STATUS_UNKNOWN, VANISHED))
        if container.current is not None and container.current.number:
            container.backoff = min(CRASH_BACKOFF * 2 ** min(container.current.number - 1, 10), CRASH_BACKOFF_CAP)

    def _recover_run(self, container: Container, attempt: ContainerRun, run: RunFiles, *, newest: bool) -> None:
        process = supervisor.adopt(run) if newest else None
        if process is not None:
            self._watch(container, process, run)
        elif run.read_exit() is not None or run.oom.exists():
            container.ended(self._exit(container, attempt))
        else:
            container.ended(Exit(supervisor.KILLED, self._now(), STATUS_UNKNOWN, VANISHED))

    def _running_by_the_api(self, name: str) -> Mapping[str, Any] | None:
        status = self.pod.status
        for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
            if entry["name"] == name and "running" in (entry.get("state") or {}):
                return dict(entry)
        return None

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
