"""State of the containers of one pod, and which of them to start: pure decisions.

Theory. A container is a series of attempts (starts). It is in one of three states, which are those of the API:

    waiting  --start-->  running  --exit-->  terminated  --restart policy, after a backoff-->  running ...

A start that fails (no such ConfigMap) leaves the container waiting, with a reason, until the retry. A program that
cannot be executed (command not found) is an attempt that terminates immediately, with StartError.

Init containers run one after another, each until it succeeds; the regular containers start together after the last. A
sidecar (an init container with restartPolicy Always) only has to be running for the next one to start, and is stopped
when the regular containers have finished.

`plan` returns the containers to start now and the time of the next sync. It reads neither a clock nor a process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from job_controller.json_tree import Json
from job_controller.times import WaitStart, wait_start

CRASH_BACKOFF = timedelta(seconds=10)
CRASH_BACKOFF_CAP = timedelta(seconds=300)
# A container that ran this long without failing starts with a fresh backoff.
CRASH_BACKOFF_RESET = timedelta(seconds=600)

CONTAINER_CREATING = "ContainerCreating"
POD_INITIALIZING = "PodInitializing"
CRASH_LOOP = "CrashLoopBackOff"
STATUS_UNKNOWN = "ContainerStatusUnknown"
START_ERROR = "StartError"  # reason and exit code of containerd for a program that cannot be executed
START_ERROR_CODE = 128


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of one start. `code`: 128 + signal for a killed process."""

    code: int
    finished_at: datetime
    reason: str = ""  # empty: Completed or Error by the code
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One start of a container; `number` is the number of restarts before it."""

    number: int
    started_at: datetime
    exit: Exit | None = None


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Why the last start of a container failed, and when the next one is due (None: never)."""

    reason: str
    message: str
    retry_at: datetime | None
    delay: timedelta = CRASH_BACKOFF


@dataclass(slots=True)
class Container:
    """The state of one container: its current and previous attempt, its last failed start and its backoff."""

    spec: Json
    init: bool = False
    current: ContainerRun | None = None
    previous: ContainerRun | None = None
    refusal: StartFailure | None = None
    backoff: timedelta | None = None  # wait after the next exit; None: restart immediately
    backoff_start: WaitStart | None = None  # of the wait after the last exit

    @property
    def name(self) -> str:
        """The container's name in the pod's spec."""
        return str(self.spec["name"])

    @property
    def sidecar(self) -> bool:
        """Whether the container is an init container that runs beside the others (KEP-753)."""
        return self.init and self.spec.get("restartPolicy") == "Always"

    @property
    def running(self) -> bool:
        """Whether an attempt runs now."""
        return self.current is not None and self.current.exit is None

    @property
    def exit(self) -> Exit | None:
        """How the current attempt ended; None while it runs, or before the first one."""
        return self.current.exit if self.current is not None else None

    @property
    def succeeded(self) -> bool:
        """Whether the current attempt has ended with exit code 0."""
        return self.exit is not None and self.exit.code == 0

    @property
    def next_number(self) -> int:
        """The number of the next attempt, from 0. The attempt after an interrupted one gets the same number."""
        if self.current is not None:
            return self.current.number + 1
        return self.previous.number if self.previous is not None else 0  # an interrupted attempt does not count

    def started(self, attempt: ContainerRun) -> None:
        """Record that a new attempt runs, and lengthen the backoff before the next one."""
        old = self.exit
        if old is not None and self.current is not None:
            healthy = old.finished_at - self.current.started_at >= CRASH_BACKOFF_RESET
            self.backoff = CRASH_BACKOFF if healthy or self.backoff is None else increased(self.backoff)
            self.previous = self.current
        self.current, self.refusal = attempt, None

    def ended(self, exit: Exit) -> None:
        """Record that the current attempt ended; ignored if no attempt was started."""
        if self.current is not None:
            self.current = ContainerRun(self.current.number, self.current.started_at, exit)

    def interrupted(self, reason: str, message: str) -> None:
        """Take back the current attempt: the next one gets its number. Its exit is kept as that of the previous one."""
        if self.current is not None and self.current.exit is not None:
            self.previous = replace(self.current, exit=replace(self.current.exit, reason=reason, message=message))
        self.current = None

    def refused(self, reason: str, message: str, now: datetime, *, retry: bool = True) -> None:
        """Record a start that failed, to be retried after 10 s, then after twice as long each time, up to 300 s."""
        delay = CRASH_BACKOFF if self.refusal is None else increased(self.refusal.delay)
        self.refusal = StartFailure(reason, message, now + delay if retry else None, delay)

    def observe(self, now: datetime) -> None:
        """Shorten a backoff and a retry that would end later than their own length from `now`.

        That happens when the clock was set back after they had begun.
        """
        if self.exit is not None:
            self.backoff_start = wait_start(self.exit.finished_at, self.backoff_start, now)
        refusal = self.refusal
        if refusal is not None and refusal.retry_at is not None:
            self.refusal = replace(refusal, retry_at=min(refusal.retry_at, now + refusal.delay))

    @property
    def backoff_until(self) -> datetime | None:
        """When the backoff after the last exit ends; None if the container does not back off."""
        if self.exit is None or self.backoff is None:
            return None
        start = self.backoff_start
        known = start is not None and start.time == self.exit.finished_at
        return (start.effective if start is not None and known else self.exit.finished_at) + self.backoff


@dataclass(slots=True)
class ContainerPlan:
    """Which containers to start now, and when to plan again.

    `finished`: no container will start again; running sidecars have to be stopped."""

    start: list[Container] = field(default_factory=list)
    wake: datetime | None = None
    finished: bool = False

    def wake_by(self, when: datetime | None) -> None:
        """Lower the time of the next sync to `when`, unless it is earlier already; None changes nothing."""
        if when is not None:
            self.wake = when if self.wake is None else min(self.wake, when)


def containers_of(spec: Json) -> list[Container]:
    """The containers of a pod in the order of their start."""
    init = [Container(c, init=True) for c in spec.get("initContainers") or ()]
    return init + [Container(c) for c in spec["containers"]]


def delay_after(restarts: int) -> timedelta:
    """The delay before the next start of a container that was started again this many times (at least 1)."""
    factor: int = 2 ** min(restarts - 1, 10)
    return min(CRASH_BACKOFF * factor, CRASH_BACKOFF_CAP)


def increased(delay: timedelta) -> timedelta:
    """The next delay between restarts: twice the last one, at most CRASH_BACKOFF_CAP."""
    return min(delay * 2, CRASH_BACKOFF_CAP)


def plan(containers: Sequence[Container], restart_policy: str, now: datetime) -> ContainerPlan:
    """What to start at this moment (kuberuntime computePodActions)."""
    result = ContainerPlan()
    regular = [c for c in containers if not c.init]
    if not any(c.current for c in regular) and not _initialize(containers, restart_policy, now, result):
        return result
    if _all_done(regular, restart_policy):
        result.start.clear()
        result.finished = True
        return result
    for container in containers if any(c.current for c in regular) else regular:
        if not container.init or container.sidecar:
            _keep_running(container, restart_policy, now, result)
    return result


def waiting_since_crash(container: Container, restart_policy: str, now: datetime) -> datetime | None:
    """When a crashed container may start again; None if it may start now."""
    due = container.backoff_until
    return due if due is not None and due > now and _restarts(container, restart_policy) else None


def failed_for_good(container: Container, restart_policy: str) -> bool:
    """Whether the container exited with an error and is not restarted."""
    return container.exit is not None and container.exit.code != 0 and not _restarts(container, restart_policy)


def _initialize(containers: Sequence[Container], restart_policy: str, now: datetime, result: ContainerPlan) -> bool:
    """Plan the next step of initialization; True when initialization is complete."""
    for container in _init(containers):
        if container.sidecar:
            _keep_running(container, restart_policy, now, result)
            if not container.running:
                return False
        elif failed_for_good(container, restart_policy):
            result.start.clear()
            result.finished = True
            return False
        elif not container.succeeded:
            _keep_running(container, restart_policy, now, result)
            return False
    return True


def _init(containers: Sequence[Container]) -> Iterator[Container]:
    return (c for c in containers if c.init)


def _all_done(regular: Sequence[Container], restart_policy: str) -> bool:
    return all(c.exit is not None and not _restarts(c, restart_policy) for c in regular)


def _restarts(container: Container, restart_policy: str) -> bool:
    """Whether the container starts again after its exit. A succeeded init container does not, under any policy."""
    if container.sidecar:
        return True
    if container.succeeded:
        return restart_policy == "Always" and not container.init
    return restart_policy != "Never"


def _keep_running(container: Container, restart_policy: str, now: datetime, result: ContainerPlan) -> None:
    """Plan the start of a container that does not run, now or when its backoff ends."""
    if container.running or (container.exit is not None and not _restarts(container, restart_policy)):
        return
    if container.refusal is not None:
        due = container.refusal.retry_at
        if due is None or due > now:
            result.wake_by(due)
            return
    elif (later := waiting_since_crash(container, restart_policy, now)) is not None:
        result.wake_by(later)
        return
    result.start.append(container)
