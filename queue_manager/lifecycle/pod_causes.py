"""Why the pods of a Job are not ready, in the words that people read first. Pure.

The cause of a pod is the first line of this table that applies. Of several pods the worst cause counts, which is the
first one in the order of `CauseRank`; of equal causes the newest.

    pod                                              rank             text
    Succeeded, disrupted, or being deleted           none, see `disruption_of`
    failed by its node                               FAILED           Evicted: The node was low on resource: memory
    a container cannot be started                    NOT_STARTABLE    no such program: /no/such/program
                                                                      not executable: /data/x.csv
    a container was killed for its memory            OUT_OF_MEMORY    OOMKilled
    a container failed, and may be restarted         FAILED           exit 3: cannot open /data/x.csv
    no node can take it                              UNSCHEDULABLE    0/3 nodes: Insufficient cpu
    a container runs and is not ready                UNREADY          readiness probe failed: cannot reach db:5432
    a container is being created, at a deadline      STARTING         ContainerCreating: container main has not started

All of it is in the status of the pod: no log is read. The text after the exit code is the last line of the
termination message, which has the end of the log if the pod requests it (terminationMessagePolicy
FallbackToLogsOnError); the node of the embedded cluster always puts it there. The text of a probe is in the message of
the pod's ContainersReady condition, where only the node of the embedded cluster writes it.
BEHAVIOUR.md#q113-pod-causes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from enum import IntEnum
from typing import NamedTuple, TypeVar

from job_controller import pod_phases
from job_controller.condition_types import FAILED
from job_controller.conditions import finished
from job_controller.disruption_target import DISRUPTION_TARGET
from job_controller.index_intervals import parse_intervals
from job_controller.index_set import IndexSet
from job_controller.model import ContainerStatus, JobStatus, Pod, TerminatedState, WaitingState
from job_controller.pod_facts import INT32_MAX, LONG_AGO, completion_index, finish_time, is_active, is_terminal
from job_controller.reasons import DEADLINE_EXCEEDED, FAILED_INDEXES, MAX_FAILED_INDEXES_EXCEEDED
from queue_manager.last_line import error_line
from queue_manager.lifecycle.unscheduled import unschedulable

P = TypeVar("P", bound=Pod)

ENDED_BY_INDEXES = (FAILED_INDEXES, MAX_FAILED_INDEXES_EXCEEDED)  # reasons of Jobs that failed indexes ended
MAX_CHARACTERS = 256  # of a text; one that is longer ends with an ellipsis
OOM_KILLED = "OOMKilled"
READINESS = "readiness probe failed"
RESTARTED_AFTER = "restarted after "  # before the error of a container that has started again
_EXIT = re.compile(r"(?:\w+ \()?exit (?P<code>\d{1,3})\b")
_PROBE = re.compile(r"; (?P<kind>[RS])(?P<words>(?:eadiness|tartup) probe (?:failed|errored)\b.*)", re.DOTALL)
STARTING = ("ContainerCreating", "PodInitializing")  # waiting reasons of a container that will start
LATE_RETRY = " (no retry before the timeout)"  # end of the cause of an attempt that had no pod
IMAGE_FAULTS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName")  # of one whose image cannot be pulled
CONTAINER_FAULTS = ("CreateContainerConfigError", "CreateContainerError")  # of one that cannot be created
_CRASH_LOOP = "CrashLoopBackOff"
_INTERRUPTED = "NodeShutdown"  # reason of a container that starts again after a shutdown of its node
_SIGKILL = 137  # exit code of a container that was killed for its memory
# By exit code.
_SIGNALS = {
    134: "SIGABRT",
    135: "SIGBUS",
    136: "SIGFPE",
    _SIGKILL: "SIGKILL",
    139: "SIGSEGV",
    141: "SIGPIPE",
    143: "SIGTERM",
}
# Reasons of a container that ended because its program could not be executed: of containerd, and of cri-dockerd.
START_ERRORS = ("StartError", "ContainerCannotRun")
_NO_PROGRAM = re.compile(
    r'exec: "(?P<program>[^"]+)": (?:stat [^:]*: no such file|executable file not found|no such file)'
)
_NOT_EXECUTABLE = re.compile(r'exec: "(?P<program>[^"]+)": permission denied')
_NODES = re.compile(r"(?P<nodes>\d+/\d+) nodes are available: (?P<why>.+?)\.?(?: preemption: .*)?", re.DOTALL)
_COUNTED = re.compile(r"\d+ (?P<why>.+)")


class CauseRank(IntEnum):
    """How bad a cause is; the lowest number is the worst."""

    NOT_STARTABLE = 0
    OUT_OF_MEMORY = 1
    FAILED = 2
    UNSCHEDULABLE = 3
    UNREADY = 4
    STARTING = 5


class PodCause(NamedTuple):
    """Why one pod is not ready. `at`: when it failed, or was created."""

    rank: CauseRank
    text: str
    at: datetime
    pod: str


def worst_cause(pods: Iterable[Pod], since: datetime | None = None) -> PodCause | None:
    """The worst cause among the pods of a Job; None if none of them has one.

    `since`: when the attempt began. A pod that failed before counts only if no pod of this attempt exists: then the
    Job still backs off after that failure.
    """
    known = list(pods)
    return _worst(_of_attempt(known, since) or known)


def cause_at_deadline(pods: Iterable[Pod], since: datetime | None) -> str:
    """The worst cause of an attempt that ends because its pods are not ready; "" without one.

    Before the deadline a container that is being created is no cause. At the deadline it is, such as during a long
    pull of its image. An attempt that had no pod, since the Job still backed off after an earlier failure, ends because
    the timeout is shorter than that wait; but of a program that cannot be started a retry would not have helped.
    """
    known = list(pods)
    worst = worst_cause(known, since) or _worst_of(found for pod in known if (found := _starting(pod)) is not None)
    if worst is None:
        return ""
    is_own = worst.rank == CauseRank.NOT_STARTABLE or _of_attempt(known, since)
    return worst.text if is_own else f"{_cut(worst.text, MAX_CHARACTERS - len(LATE_RETRY))}{LATE_RETRY}"


def error_of(pods: Iterable[Pod], since: datetime | None) -> str:
    """The worst cause of an attempt that something else ends, such as a preemption; "" if its pods only start."""
    worst = worst_cause(pods, since)
    return worst.text if worst is not None and worst.rank < CauseRank.UNREADY else ""


def _of_attempt(pods: Iterable[Pod], since: datetime | None) -> list[Pod]:
    """The pods that had not failed before the attempt began."""
    return [pod for pod in pods if since is None or not is_terminal(pod) or finish_time(pod) >= since]


def _starting(pod: Pod) -> PodCause | None:
    waits = ((c, c.state.waiting) for c in pod.status.container_statuses if is_active(pod))
    found = next(((c, waiting) for c, waiting in waits if waiting is not None and waiting.reason in STARTING), None)
    if found is None:
        return None
    init = next((c.name for c in pod.status.init_container_statuses if c.state.terminated is None and not c.ready), "")
    what = f"init container {init} has not ended" if init else f"container {found[0].name} has not started"
    text = f"{found[1].reason}: {what}"
    return PodCause(CauseRank.STARTING, text, pod.metadata.creation_timestamp or LONG_AGO, pod.metadata.name)


def cause_of_failure(status: JobStatus, pods: Iterable[Pod], past: PodCause | None = None) -> str:
    """The worst cause among the pods of a Job that has failed; "" for any other Job.

    Of one that its deadline ended the pods count that had failed before; the others are deleted then. `past`: the last
    disruption or restart of a pod of the Job, which may be deleted. One before the last start of the Job does not
    count, nor, if failed indexes ended the Job, one beside a cause of these: it may be of another index.
    """
    end = finished(status)
    if end is None or end.type != FAILED:
        return ""
    if end.reason == DEADLINE_EXCEEDED:
        pods = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    causes = [cause for pod in decisive_pods(status, pods) if (cause := cause_of(pod) or disruption_of(pod))]
    may_be_of_another = causes and end.reason in ENDED_BY_INDEXES
    if past is not None and not may_be_of_another and (status.start_time is None or past.at >= status.start_time):
        causes.append(past)
    worst = _worst_of(causes)
    return worst.text if worst is not None else ""


def decisive_pods(status: JobStatus, pods: Iterable[P]) -> list[P]:
    """The pods that can have led to the end of a Job, or will: if indexes that failed for good do, only theirs."""
    end = finished(status)
    if not status.failed_indexes or (end is not None and end.reason not in ENDED_BY_INDEXES):
        return list(pods)
    failed = IndexSet(parse_intervals(status.failed_indexes, INT32_MAX))
    return [pod for pod in pods if completion_index(pod) in failed]


def _worst(pods: Iterable[Pod]) -> PodCause | None:
    return _worst_of(cause for pod in pods if (cause := cause_of(pod)) is not None)


def _worst_of(causes: Iterable[PodCause]) -> PodCause | None:
    return min(causes, key=lambda cause: (cause.rank, -cause.at.timestamp(), cause.pod), default=None)


def disruption_of(pod: Pod) -> PodCause | None:
    """`pod evicted from node-1 (EvictionByEvictionAPI: Eviction API: evicting)`; None if nothing disrupted the pod.

    It is a cause only of a Job that has failed: any other Job replaces the pod. A pod that has succeeded was not
    disrupted.
    """
    found = next((c for c in pod.status.conditions if c.type == DISRUPTION_TARGET and c.is_true), None)
    if found is None or pod.status.has_succeeded:
        return None
    why = ": ".join(part for part in (found.reason, found.message) if part)
    where = f" from {pod.spec.node_name}" if pod.spec.node_name else ""
    text = one_line(f"pod evicted{where} ({why})" if why else f"pod evicted{where}")
    return PodCause(CauseRank.FAILED, text, found.last_transition_time or finish_time(pod), pod.metadata.name)


def restart_of(pod: Pod) -> PodCause | None:
    """Why a container of a pod that has not failed ended, after which it starts again; None if none did.

    Also of a pod that is ready again: the Job controller may delete it because of that restart.
    """
    if not (is_active(pod) and _counts(pod)):
        return None
    ends = (c.state.terminated or c.last_state.terminated for c in _containers(pod))
    failed = [end for end in ends if end is not None and end.exit_code and end.reason != _INTERRUPTED]
    if not failed:
        return None
    return _cause_of_end(pod, min(failed, key=_rank_of))


def failure_before_restart(pod: Pod) -> PodCause | None:
    """The newest failure of a container that has started again; None if none has. A stop of the node is no failure."""
    ends = [end for container in _containers(pod) if (end := container.last_state.terminated) is not None]
    failed = [end for end in ends if end.exit_code and end.reason != _INTERRUPTED]
    newest = max(failed, key=lambda end: end.finished_at or LONG_AGO, default=None)
    return _cause_of_end(pod, newest) if newest is not None else None


def _cause_of_end(pod: Pod, end: TerminatedState) -> PodCause:
    at = end.finished_at or pod.metadata.creation_timestamp or LONG_AGO
    return PodCause(_rank_of(end), ended_text(end.exit_code, end.reason, end.message), at, pod.metadata.name)


def restarted_before(pod: Pod) -> str:
    """Why a container of a pod that is deleted failed before its last start; "" if none has restarted.

    `restarted after exit 3: boom` if it had started again; of one that still waited for that, the error alone.
    """
    for container in _containers(pod):
        end = container.last_state.terminated
        if end is not None and end.exit_code:
            text = ended_text(end.exit_code, end.reason, end.message)
            return text if container.state.waiting is not None else one_line(f"{RESTARTED_AFTER}{text}")
    return ""


def exit_code_in(cause: str) -> int | None:
    """The exit code that a cause names, such as `exit 139 (SIGSEGV)`; None if it names none."""
    if cause.startswith(OOM_KILLED):
        return _SIGKILL
    found = _EXIT.match(cause)
    return int(found["code"]) if found is not None else None


def _containers(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def cause_of(pod: Pod) -> PodCause | None:
    """Why this pod is not ready, see the table above."""
    found = _found(pod) if _counts(pod) else None
    if found is None:
        return None
    at = finish_time(pod) if is_terminal(pod) else pod.metadata.creation_timestamp or LONG_AGO
    return PodCause(found[0], found[1], at, pod.metadata.name)


def _counts(pod: Pod) -> bool:
    disrupted = any(c.type == DISRUPTION_TARGET and c.is_true for c in pod.status.conditions)
    return not disrupted and (pod.status.has_failed or is_active(pod))


def _found(pod: Pod) -> tuple[CauseRank, str] | None:
    status = pod.status
    if status.has_failed and status.reason:
        return CauseRank.FAILED, one_line(f"{status.reason}: {status.message}" if status.message else status.reason)
    found = [cause for container in _containers(pod) if (cause := _of_container(container)) is not None]
    if found:
        return min(found, key=lambda cause: cause[0])
    stuck = unschedulable(pod)
    if stuck is not None:
        return CauseRank.UNSCHEDULABLE, unschedulable_text(stuck.message or stuck.reason)
    runs = status.phase == pod_phases.RUNNING
    unready = runs and any(_is_unready(container) for container in status.container_statuses)
    return (CauseRank.UNREADY, _probe_text(pod)) if unready else None


def _of_container(container: ContainerStatus) -> tuple[CauseRank, str] | None:
    waiting = container.state.waiting
    if waiting is not None and waiting.reason not in ("", *STARTING, _CRASH_LOOP):
        return CauseRank.NOT_STARTABLE, _start_text(waiting)
    end = container.state.terminated or container.last_state.terminated
    if end is None or end.exit_code == 0 or container.ready or end.reason == _INTERRUPTED:
        return None
    return _rank_of(end), ended_text(end.exit_code, end.reason, end.message)


def _rank_of(end: TerminatedState) -> CauseRank:
    if end.reason == OOM_KILLED:
        return CauseRank.OUT_OF_MEMORY
    not_started = end.reason in START_ERRORS or no_program(end.message)
    return CauseRank.NOT_STARTABLE if not_started else CauseRank.FAILED


def _is_unready(container: ContainerStatus) -> bool:
    state = container.state
    return not container.ready and state.waiting is None and state.terminated is None


# --- texts -------------------------------------------------------------------------------------------------


def ended_text(exit_code: int | None, reason: str, message: str) -> str:
    """`exit 3: no such column`, `OOMKilled`, `no such program: /a/b`. `exit_code`: None if no container failed."""
    if program := no_program(message) or (not_executable(message) if reason in START_ERRORS else ""):
        return program
    line = error_line(message)
    if reason == OOM_KILLED and exit_code == _SIGKILL:
        return reason  # the last line of the log is not the cause
    code = "" if exit_code is None else f"exit {exit_code}"
    named = reason if reason != "Error" else ""
    if not named and exit_code in _SIGNALS:
        code = f"{code} ({_SIGNALS[exit_code]})"
    head = f"{named} ({code})" if named and code else named or code
    return one_line(": ".join(part for part in (head, line) if part))


def no_program(message: str) -> str:
    """`no such program: NAME` for the message of a container runtime about a missing executable, else ""."""
    found = _NO_PROGRAM.search(message)
    return f"no such program: {found['program']}" if found is not None else ""


def not_executable(message: str) -> str:
    """`not executable: NAME` for the message of a container runtime about such a file, else ""."""
    found = _NOT_EXECUTABLE.search(message)
    return f"not executable: {found['program']}" if found is not None else ""


def _start_text(waiting: WaitingState) -> str:
    plain = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
    return no_program(waiting.message) or not_executable(waiting.message) or one_line(plain)


def _probe_text(pod: Pod) -> str:
    """`readiness probe failed: cannot reach db:5432`; without the text if the pod's status has none."""
    ready = next((c for c in pod.status.conditions if c.type == "ContainersReady"), None)
    found = _PROBE.search(ready.message) if ready is not None and not ready.is_true else None
    return one_line(found["kind"].lower() + found["words"]) if found is not None else READINESS


def unschedulable_text(message: str) -> str:
    """`0/3 nodes: Insufficient cpu` for the scheduler's message; several reasons keep their numbers of nodes."""
    match = _NODES.fullmatch(message.strip())
    if match is None:
        return one_line(message)
    counted = _COUNTED.fullmatch(match["why"])
    why = counted["why"] if counted is not None and "," not in match["why"] else match["why"]
    return one_line(f"{match['nodes']} nodes: {why}")


def one_line(text: str) -> str:
    """The text in one line of printable characters, shortened to MAX_CHARACTERS."""
    return _cut(" ".join("".join(c if c.isprintable() else " " for c in text).split()), MAX_CHARACTERS)


def _cut(line: str, characters: int) -> str:
    return line if len(line) <= characters else f"{line[: characters - 1]}…"
