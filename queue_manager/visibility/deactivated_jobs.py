"""Lists deactivated Workloads: why each was deactivated, and what to do about it. Pure.

The cause is derived from four sources: the Evicted condition (its reason names the cause, unless another eviction came
first), status.schedulingStats (the number of attempts; requeueState is reset on deactivation), the pods that failed
(`pod_failures`; running pods are deleted), the record of the last attempt, which outlives its pods, and Warning Events
about pods. A Workload whose pods were not ready because they failed is reported as crashing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from job_controller.event_reasons import CREATE_FAILED
from job_controller.model import Job
from queue_manager.api import condition_types, keys, messages, reasons
from queue_manager.api.events import Event
from queue_manager.api.types import Workload
from queue_manager.lifecycle import deactivated_by
from queue_manager.lifecycle.pod_causes import CONTAINER_FAULTS, LATE_RETRY, OOM_KILLED, START_ERRORS
from queue_manager.lifecycle.refused_pods import NO_PODS, refusal_text
from queue_manager.visibility.attempt_counts import count_budget_attempts, seconds_before_deactivation
from queue_manager.visibility.job_causes import recorded_cause
from queue_manager.visibility.node_advice import ADD_BIGGER
from queue_manager.visibility.node_fit import NodeFacts, no_node_fits
from queue_manager.visibility.pod_failures import Failure
from queue_manager.visibility.pod_obstacles import pod_obstacle
from queue_manager.visibility.resubmission import SUBMIT_AGAIN, resubmission
from queue_manager.visibility.shown_causes import cause_of_end

LIMIT = reasons.deactivated_due_to(reasons.REQUEUING_LIMIT_EXCEEDED)
RUN_TIME = reasons.deactivated_due_to(reasons.MAX_EXEC_TIME_EXCEEDED)
CHECK = reasons.deactivated_due_to(reasons.ADMISSION_CHECK)
BY_A_USER = "by a user"
GIVES_UP = "its pods were not ready for too long (giveUpAfter)"
CRASHES, OUT_OF_MEMORY, NO_NODE, RETRIED_LATE = "crashes", "out of memory", "no node", "late retry"
RUN_TIME_EXCEEDED = "run time"
NOT_STARTABLE = ("no such program: ", "not executable: ")  # prefixes of causes, see `pod_causes`
# What a pod's error explains.
FAULTS_OF_PODS = (CRASHES, OUT_OF_MEMORY, "pods not ready", "pods lost", NO_NODE, RETRIED_LATE)
RESTARTING = "Back-off restarting failed container"  # prefix of the message of the kubelet's BackOff Event


class DeactivatedJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One deactivated Workload. `why` classifies the cause; `reason` and `message` are those of the API.

    `budget_attempts`: counted since the last activation. `cause`: by `shown_causes.cause_of_end`.
    """

    namespace: str
    name: str
    workload: str
    queue: str
    priority: int
    why: str
    cause: str
    reason: str
    message: str
    budget_attempts: int
    exit_code: int | None
    last_error: str
    since: datetime | None
    deactivated_seconds: float | None
    action: str


def deactivated_jobs(
    workloads: Iterable[Workload],
    events: Iterable[Event],
    now: datetime,
    default_ns: str = "default",
    failures: Mapping[str, Failure] | None = None,
    nodes: Sequence[NodeFacts] | None = None,
    jobs: Iterable[Job] = (),
) -> list[DeactivatedJob]:
    """Return rows ordered by priority, then by time of deactivation, oldest first.

    `default_ns`: the default namespace. `failures`: by Workload UID. `nodes`: None if they are not visible. `jobs`:
    those of the Workloads, as far as they are visible; they decide which command creates a Job again.
    """
    inactive = [workload for workload in workloads if is_deactivated(workload)]
    warnings, failed = _warnings(events), failures or {}
    again = {job.metadata.uid: resubmission(job, default_ns) for job in jobs}
    rows = [
        _row(
            each,
            warnings,
            failed.get(each.metadata.uid),
            now,
            default_ns,
            nodes,
            again.get(each.job_uid, SUBMIT_AGAIN),
        )
        for each in inactive
    ]
    return sorted(rows, key=lambda row: (-row.priority, -(row.deactivated_seconds or 0), row.namespace, row.name))


def is_deactivated(workload: Workload) -> bool:
    """Whether an operator has to act before its Job runs; not of one that has ended, or is being deleted."""
    has_ended = workload.is_true(condition_types.FINISHED)
    return not (workload.spec.active or has_ended or workload.metadata.deletion_timestamp is not None)


def _row(
    workload: Workload,
    warnings: Mapping[str, Sequence[Event]],
    failure: Failure | None,
    now: datetime,
    default_ns: str,
    nodes: Sequence[NodeFacts] | None,
    again: str,
) -> DeactivatedJob:
    evicted = workload.condition(condition_types.EVICTED)
    since = evicted.last_transition_time if evicted is not None and evicted.is_true else None
    name = job_name(workload)
    event = last_warning(name, warnings.get(workload.metadata.namespace, ()))
    why = cause(workload, failure, event)
    reason, message = deactivation(workload)
    recorded = recorded_cause(workload)
    late = LATE_RETRY if why == RETRIED_LATE else ""
    last_error = f"{failure.text}{late}" if failure is not None else recorded or warning_text(event)
    of_pods = recorded if why in (BY_A_USER, RUN_TIME_EXCEEDED) else last_error if why in FAULTS_OF_PODS else ""
    lacks = no_node_fits(last_error, None, workload, nodes) if why != BY_A_USER else ""
    return DeactivatedJob(
        namespace=workload.metadata.namespace,
        name=name,
        workload=workload.metadata.name,
        queue=workload.spec.queue_name,
        priority=workload.spec.priority or 0,
        why=why,
        cause=cause_of_end(reason, message, of_pods, why),
        reason=reason,
        message=message,
        budget_attempts=count_budget_attempts(workload),
        exit_code=failure.job_exit_code if failure is not None else None,
        last_error=last_error,
        since=since,
        deactivated_seconds=(now - since).total_seconds() if since is not None else None,
        action=fit_a_node(lacks, workload, nodes, job_argument(workload, default_ns), again)
        if lacks
        else action(why, job_argument(workload, default_ns), failure, last_error, may_run=may_run_longer(workload)),
    )


def may_run_longer(workload: Workload) -> bool:
    """Whether the maximum execution time that the Job exceeded has been raised or removed since; False if unknown."""
    limit = workload.spec.maximum_execution_time_seconds
    ran = seconds_before_deactivation(workload) if deactivation(workload)[0] == RUN_TIME else None
    return ran is not None and (limit is None or limit > ran)


def needs_more(workload: Workload) -> bool:
    """Whether it is certain that a reactivation alone does not help: by what the last attempt ended with."""
    must_run_longer = cause(workload) == RUN_TIME_EXCEEDED and not may_run_longer(workload)
    return must_run_longer or recorded_cause(workload).startswith((*NOT_STARTABLE, NO_PODS, *CONTAINER_FAULTS))


def certain_action(workload: Workload, job: str) -> str:
    """Return how a deactivated Job starts again: as `action`, but without advice on what is not certain."""
    recorded = recorded_cause(workload)
    return action(cause(workload), job, None, recorded) if needs_more(workload) else f"sluice reactivate {job}"


def job_name(workload: Workload) -> str:
    """Return the name of the Workload's Job, or of the Workload if it has none."""
    owner = workload.metadata.controller
    return owner.name if owner is not None else workload.metadata.name


def job_argument(workload: Workload, default_ns: str = "default") -> str:
    """Format the Job as a command-line argument. `default_ns`: the default namespace, which is left out."""
    namespace = workload.metadata.namespace
    return job_name(workload) if namespace == default_ns else f"{namespace}/{job_name(workload)}"


def deactivation(workload: Workload) -> tuple[str, str]:
    """Return (reason, message) of the deactivation: those of the Evicted condition that it causes, even if not yet set.

    The message names the user who deactivated the Workload, if that is known.
    """
    target, evicted = (workload.condition(c) for c in (condition_types.DEACTIVATION_TARGET, condition_types.EVICTED))
    if target is not None and target.is_true:
        return reasons.deactivated_due_to(target.reason), messages.deactivated_message(target.message)
    reason, message = reasons.DEACTIVATED, messages.DEACTIVATED_MESSAGE
    if evicted is not None and evicted.is_true and evicted.reason.startswith(reasons.DEACTIVATED):
        reason, message = evicted.reason, evicted.message
    return reason, deactivated_by.message(workload, message) if reason == reasons.DEACTIVATED else message


def retries_left(job: Job, workload: Workload) -> str:
    """Return how many retries a Job whose pods fail had used when waitForPodsReady deactivated it.

    "" if all, or if retries are counted for each index.
    """
    used, limit = job.status.failed - 1, job.spec.backoff_limit
    per_index = job.spec.backoff_limit_per_index is not None
    if deactivation(workload)[0] != LIMIT or per_index or limit is None or not 0 <= used < limit:
        return ""
    return f"waitForPodsReady gave up after {used} of the Job's {limit} retries"


def cause(workload: Workload, failure: Failure | None = None, warning: Event | None = None) -> str:
    """Return in a few words who or what deactivated the Workload."""
    reason, _ = deactivation(workload)
    if reason == RUN_TIME:
        return RUN_TIME_EXCEEDED
    if reason == CHECK:
        return "failed check"
    if reason == LIMIT:
        return _unready(workload, failure, warning)
    if reason.startswith(reasons.DEACTIVATED_DUE_TO):
        return reason.removeprefix(reasons.DEACTIVATED_DUE_TO)
    return BY_A_USER


_UNREADY = {
    reasons.WAIT_FOR_START: "pods not ready",
    reasons.WAIT_FOR_RECOVERY: "pods lost",
    reasons.UNSCHEDULABLE: NO_NODE,
}


def _unready(workload: Workload, failure: Failure | None, warning: Event | None) -> str:
    """Return why the pods were not ready: the last timeout if no pod of its attempt caused it, else a pod failure, else
    the most frequent timeout.
    """
    evicted = workload.condition(condition_types.EVICTED)
    if evicted is not None and f"; {messages.NO_NODE} " in evicted.message:
        return _UNREADY[reasons.UNSCHEDULABLE]
    recorded = recorded_cause(workload)
    if recorded.endswith(LATE_RETRY):
        return RETRIED_LATE
    if failure is not None and failure.reason not in START_ERRORS:
        return OUT_OF_MEMORY if failure.reason == OOM_KILLED else CRASHES
    if recorded.startswith(OOM_KILLED):
        return OUT_OF_MEMORY
    if recorded.startswith("exit ") or (warning is not None and warning.message.startswith(RESTARTING)):
        return CRASHES
    stats = workload.status.scheduling_stats
    timeouts = [e for e in stats.evictions if e.reason == reasons.PODS_READY_TIMEOUT] if stats else []
    if not timeouts:
        return "pods not ready"
    most = max(timeouts, key=lambda e: e.count or 0)
    return _UNREADY.get(most.underlying_cause or reasons.WAIT_FOR_START, most.underlying_cause or "")


def action(why: str, job: str, failure: Failure | None = None, last_error: str = "", *, may_run: bool = False) -> str:
    """Return the command or advice that is suggested to an operator. `job`: as a command-line argument.

    `may_run`: by `may_run_longer`.
    The command of a Job cannot be changed: one whose program does not start is submitted again.
    """
    again = f"sluice reactivate {job}"
    if why in FAULTS_OF_PODS and last_error.startswith(NOT_STARTABLE):
        return f"fix its command, then submit it again (sluice cancel {job})"
    if last_error.startswith(NO_PODS):
        return f"correct what the API server names, then: {again}"
    if last_error.startswith(CONTAINER_FAULTS):
        return f"create what its containers refer to ({last_error.partition(': ')[2]}), then: {again}"
    if why == OUT_OF_MEMORY:
        return f"raise its memory limit, then: {again}"
    if why == RETRIED_LATE:
        longer = "raise waitForPodsReady.timeout above the wait before a retry"
        return f"fix what sluice logs {job} --failed shows, or {longer}, then: {again}"
    if failure is not None and why == CRASHES:
        return f"fix what sluice logs {job} --failed shows, then: {again}"
    if why == RUN_TIME_EXCEEDED:
        longer = f"raise the Job's label {keys.MAX_EXEC_TIME}, then"
        return f"{'its maximum execution time is longer now' if may_run else longer}: {again}"
    match why:
        case "crashes":
            return f"see why its containers end (sluice show {job}), then: {again}"
        case "by a user":
            return again
        case "failed check":
            return f"see why the check rejected it, then: {again}"
        case "no node":
            return f"let its pods fit a node (capacity, labels, taints: kubectl describe nodes), then: {again}"
        case "pods lost":
            return f"see why running pods were lost (sluice show {job}), then: {again}"
    return f"see why its pods are not ready (sluice show {job}), then: {again}"


_CURED = {
    OUT_OF_MEMORY: "its memory limit is raised",
    CRASHES: "its containers no longer fail",
    RETRIED_LATE: "its pods no longer fail, or waitForPodsReady.timeout is longer than the wait before a retry",
    RUN_TIME_EXCEEDED: f"its label {keys.MAX_EXEC_TIME} is raised",
    "failed check": "the admission check accepts it",
    "pods lost": "its pods stay ready",
}


def start_condition(why: str, job: str, last_error: str = "") -> str:
    """Return what has to be true before the Job starts again. `why`, `job`, `last_error`: as of `action`."""
    if why in FAULTS_OF_PODS and last_error.startswith(NOT_STARTABLE):
        return "its command is fixed, and it is submitted again"
    cured = _CURED.get(why, "its pods can become ready in time")
    cured = "what the API server names is corrected" if last_error.startswith(NO_PODS) else cured
    if last_error.startswith(CONTAINER_FAULTS):
        cured = f"what its containers refer to exists ({last_error.partition(': ')[2]})"
    return f"{cured}, and it is reactivated (sluice reactivate {job})"


def fit_a_node(lacks: str, workload: Workload, nodes: Sequence[NodeFacts] | None, job: str, again: str) -> str:
    """Return the next step for a Job whose pods fit no node. `lacks`: the text of `no_node_fits` that says so.

    `again`: the command that replaces the Job.
    """
    fixed = pod_obstacle(None, workload, nodes)
    to_author, to_admin = (fixed.to_author, fixed.to_admin) if fixed is not None else ("request less", ADD_BIGGER)
    of_admin = f", or {to_admin}, then: sluice reactivate {job}" if to_admin else ""
    return f"{lacks}: {to_author} ({again}){of_admin}"


# --- the last error ----------------------------------------------------------------------------------------


def _warnings(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Group Warning Events by namespace, newest first."""
    found: dict[str, list[Event]] = {}
    for event in sorted(events, key=lambda e: e.sort_key, reverse=True):
        if event.type == "Warning":
            found.setdefault(event.involved_object.namespace, []).append(event)
    return found


def last_warning(job: str, warnings: Sequence[Event]) -> Event | None:
    """Return the newest Warning Event about a pod of the Job, else about the Job. Events expire after an hour.

    Warnings about the Workload are ignored: they only explain why it was pending.
    """
    about_pods = (e for e in warnings if e.involved_object.kind == "Pod" and is_pod_of(e.involved_object.name, job))
    about_job = (e for e in warnings if (e.involved_object.kind, e.involved_object.name) == ("Job", job))
    return next(about_pods, None) or next(about_job, None)


def newest_error(events: Sequence[Event]) -> str:
    """Return the message of the newest Warning among Events that all concern one Job."""
    warnings = [event for event in events if event.type == "Warning" and event.involved_object.kind != "Workload"]
    about_pods = [event for event in warnings if event.involved_object.kind == "Pod"]
    return warning_text(max(about_pods or warnings, key=lambda event: event.sort_key, default=None))


def warning_text(event: Event | None) -> str:
    """Return the Event's message without a trailing colon, which a probe with empty output leaves.

    For a BackOff Event without the pod's name and UID; for one about a refused pod the answer of the API server.
    """
    if event is not None and event.reason == CREATE_FAILED:
        return refusal_text(event)
    text = event.message.strip().removesuffix(":") if event is not None else ""
    return text.partition(" in pod ")[0] if text.startswith(RESTARTING) else text


def is_pod_of(pod: str, job: str) -> bool:
    """Whether a pod name has the form that this Job gives its pods: JOB-xxxxx or JOB-INDEX-xxxxx."""
    if not pod.startswith(f"{job}-"):
        return False
    *index, ending = pod[len(job) + 1 :].split("-")
    return len(ending) == 5 and len(index) <= 1 and all(part.isdigit() for part in index)
