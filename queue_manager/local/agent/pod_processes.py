"""The processes of one pod: started, watched, found again by a later agent, and ended.

A container has at most one process, and a readiness probe while it runs. Nothing is decided here: `pod_worker` says
what to start and when to stop. What must survive the agent is in files (`pod_files`).
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from job_controller.json_tree import Json
from queue_manager.local.agent import container_program, resource_usage, supervisor
from queue_manager.local.agent import environment as env
from queue_manager.local.agent.cgroups import was_oom_killed
from queue_manager.local.agent.container_starts import (
    START_ERROR,
    START_ERROR_CODE,
    STATUS_UNKNOWN,
    Container,
    ContainerRun,
    Exit,
    delay_after,
)
from queue_manager.local.agent.limit_fields import OOM_KILLED, limits_of
from queue_manager.local.agent.pod_files import RunFiles
from queue_manager.local.agent.pod_status import VANISHED
from queue_manager.local.agent.pod_worker_dependencies import NodePod, WorkerDependencies
from queue_manager.local.agent.proc_usage import sample
from queue_manager.local.agent.readiness_probes import ProbeContext, Readiness, is_probed
from queue_manager.local.agent.resource_usage import Usage
from queue_manager.local.agent.termination_message import termination_message


class PodProcesses:
    """The processes of a pod's containers, by container. `tree` is the pod, kept up to date by its worker.

    `changed`: called when a process has ended or the readiness of a container has changed. `unhealthy`: called with the
    message of a failed probe.
    """

    def __init__(
        self,
        pod: NodePod,
        tree: Json,
        containers: Sequence[Container],
        tools: WorkerDependencies,
        changed: Callable[[], None],
        unhealthy: Callable[[str], None],
    ) -> None:
        self._uid = pod.metadata.uid
        self._tree = tree
        self._containers = containers
        self._tools, self._layout, self._now = tools, tools.layout, tools.now
        self._changed, self._unhealthy = changed, unhealthy
        self._running: dict[str, supervisor.Process] = {}
        self._probes: dict[str, Readiness] = {}
        self._samples: dict[str, Usage] = {}  # of the current start of each container, the greatest

    @property
    def unready(self) -> dict[str, str]:
        """Why the readiness probes of containers have not succeeded, by container; "" for one that has not failed."""
        return {name: probe.failure for name, probe in self._probes.items() if not probe.ready}

    def sessions(self) -> dict[int, str]:
        """The running containers by the process session each of them was started in."""
        return {process.pid: name for name, process in self._running.items()}

    def sampled_limits(self) -> dict[str, int]:
        """limits.memory in bytes of the running containers without a cgroup, by container name."""
        found = {}
        for container in self._containers:
            limit = limits_of(container.spec).memory
            if limit is not None and container.name in self._running and not self.run_files(container).cgroup.exists():
                found[container.name] = limit
        return found

    def unmeasured(self) -> list[tuple[int, str]]:
        """The running containers that no cgroup measures, with the pids of their supervisors."""
        found = [(c.name, self._running[c.name], c) for c in self._containers if c.name in self._running]
        return [(process.pid, name) for name, process, c in found if not self.run_files(c).cgroup.exists()]

    def add_sample(self, name: str, pid: int, usage: Usage) -> None:
        """Note what a container used until now. `pid`: its supervisor when it was sampled, which may have ended."""
        process = self._running.get(name)
        if process is not None and process.pid == pid:
            self._samples[name] = self.sampled(name).at_least(usage)

    def sampled(self, name: str) -> Usage:
        """The highest usage sampled of a running container; empty if it was not sampled."""
        return self._samples.get(name, Usage())

    def kill_for_memory(self, name: str) -> None:
        """Kill a container that uses more memory than its limit."""
        container = next(c for c in self._containers if c.name == name)
        with contextlib.suppress(OSError):  # on a full disk it is killed as well, with the reason Error
            self.run_files(container).oom.touch()
        self.signal(container, signal.SIGKILL)

    def release(self) -> None:
        """Stop watching the processes; they keep running and a later worker finds them."""
        for probe in self._probes.values():
            probe.stop()
        for process in self._running.values():
            process.release()

    # --- starts ---

    async def start(self, container: Container) -> None:
        """Start a container with a command. Raises ConfigError, StartError or OSError if that is impossible."""
        self._layout.create(self._uid, container.name)
        run = self._layout.run(self._uid, container.name, container.next_number)
        declared = await self._declared(container.spec)
        variables, directory = self._surroundings(container.spec, declared, str(run.work))
        command, *arguments = container_program.arguments(container.spec, declared)
        program = container_program.executable(command, directory, variables["PATH"])
        cgroup = self._confine(container, run)
        process = supervisor.spawn(run, [program, *arguments], variables, directory, self._tools.pipes, cgroup)
        self._watch(container, process, run)
        container.started(ContainerRun(run.number, self._now()))
        self._forget_old(run)

    def record_failed_start(self, container: Container, message: str) -> None:
        """Record a start whose program could not be executed: the container ends immediately."""
        run = self._layout.run(self._uid, container.name, container.next_number)
        with contextlib.suppress(OSError):  # on a full disk a later agent counts this start anew
            run.record_failed_start(message)
        now = self._now()
        container.started(ContainerRun(run.number, now))
        container.ended(_failed_start(message, now))
        self._forget_old(run)

    def _confine(self, container: Container, run: RunFiles) -> str:
        """Create the cgroup of a container; empty if it has no limits, or no cgroup can be created."""
        limits = limits_of(container.spec)
        return str(self._tools.cgroups.create(run, limits)) if self._tools.cgroups and any(limits) else ""

    async def _declared(self, spec: Json) -> dict[str, str]:
        return await env.declared(self._tree, spec, self._tools.host, self._tools.source)

    def _surroundings(self, spec: Json, declared: Mapping[str, str], home: str) -> ProbeContext:
        return ProbeContext(
            env.environment(self._tree, declared, home), container_program.working_directory(spec, home)
        )

    async def _surroundings_of_probe(self, spec: Json, home: str) -> ProbeContext:
        return self._surroundings(spec, await self._declared(spec), home)

    def _watch(self, container: Container, process: supervisor.Process, run: RunFiles) -> None:
        self._running[container.name] = process
        self._tools.logs.add(run)
        if is_probed(container.spec):
            prepare = partial(self._surroundings_of_probe, container.spec, str(run.work))
            self._probes[container.name] = Readiness(container.spec, prepare, self._changed, self._unhealthy)
        process.watch(self._changed)

    def _forget_old(self, run: RunFiles) -> None:
        """Keep the files of the previous start (`kubectl logs --previous`) and remove older ones."""
        if run.number >= 2:
            self._layout.run(self._uid, run.container.name, run.number - 2).remove()

    # --- ends ---

    def signal(self, container: Container, number: signal.Signals) -> None:
        """Signal the process group of a container; nothing happens if it does not run."""
        process = self._running.get(container.name)
        if not container.running or process is None:
            return
        if number == signal.SIGKILL:  # the kernel's account lacks what the supervisor has not waited for
            self.add_sample(container.name, process.pid, sample(process.pid))
        process.signal(number)

    def collect_exits(self) -> None:
        """Record the exits of the processes that have ended since the last call."""
        for container in self._containers:
            process = self._running.get(container.name)
            if container.running and container.current is not None and process is not None and process.ended:
                container.ended(self._exit(container, container.current))
                del self._running[container.name]
                if probe := self._probes.pop(container.name, None):
                    probe.stop()

    def _exit(self, container: Container, attempt: ContainerRun) -> Exit:
        run = self._layout.run(self._uid, container.name, attempt.number)
        self._tools.logs.remove(run)
        known = run.read_exit()
        code, finished = known if known is not None else (supervisor.KILLED, self._now())
        self._record_usage(run, finished, self._running.get(container.name))
        self._leave_cgroup(run)
        finished = max(finished, attempt.started_at)  # mtimes come from a coarser clock
        reason = OOM_KILLED if code == supervisor.KILLED and run.oom.exists() else ""
        policy = str(container.spec.get("terminationMessagePolicy") or "")
        return Exit(code, finished, reason, termination_message(run, policy, code) if code else "")

    def _record_usage(self, run: RunFiles, finished: datetime, process: supervisor.Process | None) -> None:
        """Add what the container used to its file. Without room on the disk it stays unknown."""
        cgroup = run.read_cgroup()
        measured = resource_usage.of_cgroup(cgroup) if cgroup is not None else Usage()
        reaped = process.usage if process is not None else Usage()
        sampled = self._samples.pop(run.container.name, Usage())
        counted = reaped.over(resource_usage.of_times(run)).at_least(sampled)
        with contextlib.suppress(OSError):
            resource_usage.record(run, finished.timestamp(), measured.over(counted))

    def usage_annotations(self) -> dict[str, str]:
        """What the containers used, as annotations of the pod."""
        runs = (self._layout.run(self._uid, container.name, 0) for container in self._containers)
        return resource_usage.pod_annotations(run.usage for run in runs)

    def _leave_cgroup(self, run: RunFiles) -> None:
        path = run.read_cgroup()
        if path is not None and was_oom_killed(path):
            run.oom.touch()
        if path is not None and self._tools.cgroups is not None:
            self._tools.cgroups.end(path)

    def run_files(self, container: Container) -> RunFiles:
        """The files of the current start of a container."""
        return self._layout.run(self._uid, container.name, container.current.number if container.current else 0)

    def recover(self, container: Container, status: Json, started: datetime) -> None:
        """Restore the state of a container from its files: a process or an exit code; else from the API.

        `status`, `started`: of the pod.
        """
        runs = self._layout.runs(self._uid, container.name)
        reported = _reported_running(status, container.name)
        for run in runs[-2:]:
            since = _reported_start(reported, run) or _recorded_start(run) or self._now()
            container.previous, container.current = container.current, ContainerRun(run.number, since)
            self._recover_run(container, container.current, run, newest=run is runs[-1])
        if not runs and reported is not None:
            container.current = ContainerRun(reported.get("restartCount", 0), started)
            container.ended(Exit(supervisor.KILLED, self._now(), STATUS_UNKNOWN, VANISHED))
        if container.current is not None and container.current.number:
            container.backoff = delay_after(container.current.number)

    def _recover_run(self, container: Container, attempt: ContainerRun, run: RunFiles, *, newest: bool) -> None:
        failed = run.read_failed_start()
        process = supervisor.adopt(run) if newest else None
        if failed is not None:
            container.ended(_failed_start(*failed))
        elif process is not None:
            self._watch(container, process, run)
        elif run.read_exit() is not None or run.oom.exists():
            container.ended(self._exit(container, attempt))
        else:
            container.ended(Exit(supervisor.KILLED, self._now(), STATUS_UNKNOWN, VANISHED))


def _reported_start(reported: Mapping[str, Any] | None, run: RunFiles) -> datetime | None:
    """When this run started, as the API has it; None if it reports another one."""
    if reported is None or reported.get("restartCount", 0) != run.number:
        return None
    started = reported["state"]["running"].get("startedAt")
    return datetime.fromisoformat(started) if started else None


def _recorded_start(run: RunFiles) -> datetime | None:
    """When this run started, as its files have it: up to a second after the time that was reported."""
    known = run.read_pid() or run.read_failed_start()
    return known[1] if known else None


def _failed_start(message: str, at: datetime) -> Exit:
    return Exit(START_ERROR_CODE, at, START_ERROR, message)


def _reported_running(status: Json, name: str) -> Mapping[str, Any] | None:
    """The container's status in the API if it says that the container runs, else None."""
    for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        if entry["name"] == name and "running" in (entry.get("state") or {}):
            return dict(entry)
    return None
