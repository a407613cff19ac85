"""The dominant reason why a Job does not run, as a code with its sentence, and what would change it. Pure.

The first line that applies decides; each gives one code of `reason_codes`.

    it is unsuspended, without quota         FAULT/ControllerStale: a manager would suspend it again
    its pods' PriorityClass does not exist   NEVER/Misconfigured, while it has no pods, as the next line
    its pods fit no node of `sluice up`      NEVER/ExceedsLargestNode or NEVER/NoMatchingNode, also where a line below
                                             gives a code that is neither NEVER nor FAULT/ControllerStale (`node_fit`)
    it holds quota, and no node its pods     WAIT/Unschedulable
    it runs, or has ended                    no code: `sluice show` has the details
    it has no Workload                       HOLD/Suspended (no queue), NEVER/Misconfigured, FAULT/ControllerStale
    its Workload is finished or inactive     NEVER/Refused, HOLD/Deactivated,
                                             HOLD/DeactivatedDueToUnschedulable
    it holds quota                           WAIT/Evicted, WAIT/UnsatisfiedAdmissionChecks, WAIT/Starting,
                                             FAULT/AdmittedNotRunning
    it is gated                              HOLD/AdmissionGated
    its queues are missing or inactive       NEVER/Misconfigured
    its queues are stopped                   the NEVER that holds after their release too, else HOLD/Suspended
    it waits for requeueAt                   WAIT/Backoff
    it is pending                            the decision of the scheduler at this moment (`scheduler_judgement.judge`)

`refused_writes` then makes FAULT/QueueingRefused of a WAIT or FAULT if the API server refuses the writes about the Job,
and `absent_manager` FAULT/ControllerStale of a WAIT for which no manager runs.
BEHAVIOUR.md#q51-explanations.
"""

from __future__ import annotations

from dataclasses import replace

from queue_manager.api import condition_types, keys, reasons
from queue_manager.api.check_states import CheckState
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload, stops
from queue_manager.lifecycle.pods_ready_timeout import ends_instead_of_retry
from queue_manager.lifecycle.queue_entry import waits
from queue_manager.lifecycle.unscheduled import Unscheduled
from queue_manager.visibility import reason_codes
from queue_manager.visibility.attempt_counts import budget_attempts, seconds_before_deactivation
from queue_manager.visibility.awaited_node import awaits_node
from queue_manager.visibility.deactivated_jobs import (
    CHECK,
    GIVES_UP,
    LIMIT,
    NO_NODE,
    NOT_STARTABLE,
    RUN_TIME,
    may_run_longer,
    retries_left,
    start_condition,
)
from queue_manager.visibility.deactivated_jobs import cause as why_deactivated
from queue_manager.visibility.effects_of_changes import queue_argument, queue_obstacle, released, with_near_flavor
from queue_manager.visibility.explained_case import Case
from queue_manager.visibility.further_obstacles import with_further_obstacles
from queue_manager.visibility.job_causes import failed_indexes, recorded_cause
from queue_manager.visibility.job_states import (
    JobState,
    awaits_requeue,
    explain_state,
    is_overdue,
)
from queue_manager.visibility.node_advice import BIGGER_NODE, node_changes, request_less
from queue_manager.visibility.node_fit import no_node_fits
from queue_manager.visibility.obstacles import further
from queue_manager.visibility.pending_sentences import IF_IT_LASTS, MANAGER_RUNS, OF_AUTHOR, REASON_TEXTS, decided
from queue_manager.visibility.pod_obstacles import PodObstacle, pod_obstacle
from queue_manager.visibility.preempted_for import preempted_for
from queue_manager.visibility.reason_with_sentence import Finding, sentence_of, with_besides
from queue_manager.visibility.requested_resources import demand
from queue_manager.visibility.scheduler_judgement import NEVER_REASONS, ClusterState, Judgement

ADMITTED_SECONDS = 15.0  # in which an admitted Job is unsuspended


def dominant(case: Case) -> Finding:
    """The reason of a Job: the first line of the table in the docstring of this module that applies to it."""
    found = _of_queue_and_pods(case)
    if not awaits_node(case.state, case.workload):
        return found
    of_pods = pod_obstacle(case.job, case.workload, case.around.nodes, case.around.missing_class)
    if of_pods is None or found.reason in _BEFORE_NODES:
        return found
    if found.reason in NEVER_REASONS:
        return _pods_never_run_either(of_pods, found)
    return _pods_never_run(case, of_pods, found)


def _of_queue_and_pods(case: Case) -> Finding:
    ended = _without_waiting(case)
    if ended is not None:
        return ended
    if case.workload is None:
        return _without_workload(case)
    return _held_back(case, case.workload) or _waiting(case, case.workload)


# --- not pending -------------------------------------------------------------------------------------------

BETWEEN_TRIES = "Its pods have failed, and the next one is created when a backoff ends; it keeps its quota"
_DEAD_CONTAINER = (
    "It holds its quota, but container {} of a pod has failed and does not start again: the pod cannot become ready, "
    "and fails once its other containers have ended"
)
PAST_ITS_QUEUE = "It was unsuspended although it holds no quota: a running manager suspends it again."
_NOT_WAITING = {
    JobState.RUNNING: "It runs",
    JobState.STARTING: "It holds its quota, and its pods are starting: they are not ready yet",
    JobState.SUCCEEDED: "It has succeeded",
    JobState.FINISHED: "It has finished",
    JobState.FAILED: "It has failed",
    JobState.DELETING: "It is being deleted",
    JobState.ORPHANED: "Its Job is gone; its Workload goes too",
}


def _without_waiting(case: Case) -> Finding | None:
    if case.state in (JobState.STARTING, JobState.RUNNING) and _lacks_quota(case.workload):
        changes = ("it is suspended until its queue admits it",)
        return Finding(reason_codes.CONTROLLER_STALE, PAST_ITS_QUEUE, changes, f"sluice show {case.argument}")
    if case.state == JobState.STARTING and case.around.unplaced is not None:
        return _without_node(case, case.around.unplaced)
    retried = case.state == JobState.BACKOFF and not awaits_requeue(case.workload, case.now)
    sentence = BETWEEN_TRIES if retried else _NOT_WAITING.get(case.state)
    reason, message = explain_state(case.job, case.workload, case.state, case.now)
    if case.state == JobState.STARTING and reason == reasons.WAIT_FOR_RECOVERY:
        sentence = "It holds its quota, and its pods are no longer ready"
    if case.state == JobState.STARTING and (name := case.around.failed_container):
        sentence = _DEAD_CONTAINER.format(name)
    if sentence is None:
        return None
    if case.state == JobState.RUNNING and case.job is not None and (failed := failed_indexes(case.job)):
        sentence = f"{sentence}, although {failed} for good"
    if case.state == JobState.FAILED and case.job is not None and (failed := failed_indexes(case.job)):
        sentence = f"{sentence}: {failed}"
    return Finding("", f"{sentence}.", command=f"sluice show {case.argument}", message=message)


def _lacks_quota(workload: Workload | None) -> bool:
    """Whether the Workload's Job has no quota: if it runs, a user unsuspended it and a manager would suspend it."""
    return workload is not None and not any(
        workload.is_true(condition) for condition in (condition_types.QUOTA_RESERVED, condition_types.FINISHED)
    )


def _without_node(case: Case, unplaced: Unscheduled) -> Finding:
    """The reason of a Job whose pods exist, and have no node."""
    which = f"{unplaced.pods} of its pods wait" if unplaced.pods > 1 else "its pod waits"
    which = "one of its pods waits" if unplaced.pods == 1 and case.pods_at_once > 1 else which
    them = "them" if unplaced.pods > 1 else "it"
    lacks = no_node_fits(unplaced.message, case.job, case.workload, case.around.nodes)
    trouble = _present(lacks) if lacks else f"none can take {them} now."
    sees_nodes = case.around.nodes is not None
    requested = demand(case.job, case.workload)
    again = case.resubmission
    larger = (request_less(again), BIGGER_NODE)
    changes = larger if lacks else node_changes(unplaced.message, requested, sees_nodes=sees_nodes, again=again)
    sentence = f"It holds its quota, and {which} for a node: {trouble}"
    return Finding(reasons.UNSCHEDULABLE, sentence, changes, f"sluice show {case.argument}", unplaced.message)


def _present(lacks: str) -> str:
    """Return what keeps pods from every node of a cluster to which nodes may be added. `lacks`: by `no_node_fits`."""
    return f"no present node is large enough: {lacks}; it starts if a larger node is added."


_BEFORE_NODES = (reason_codes.REFUSED, reason_codes.CONTROLLER_STALE)


def _pods_never_run(case: Case, of_pods: PodObstacle, found: Finding) -> Finding:
    """The reason of a Job whose pods can never run. `found`: without that rule."""
    of_author = f"{of_pods.author_change} ({case.resubmission})"
    of_admin = [of_pods.admin_change] if of_pods.admin_change else []
    sentence = sentence_of(of_pods.clause)
    if case.state == JobState.DEACTIVATED:
        sentence = f"It is deactivated, and {of_pods.clause}."
        of_admin = [f"{change}; then it is reactivated" for change in of_admin]
    elif case.workload is not None and case.workload.is_true(condition_types.QUOTA_RESERVED):
        sentence = f"It holds its quota, but {of_pods.clause}."
    elif found.reason == reasons.SUSPENDED:
        sentence = f"{sentence} {found.sentence}"
        of_author = f"{of_author}, and the queue is released"
        of_admin = [f"{change}, and the queue is released" for change in of_admin]
    return Finding(of_pods.reason, sentence, (of_author, *of_admin), case.resubmission, found.message)


def _pods_never_run_either(of_pods: PodObstacle, found: Finding) -> Finding:
    """The reason `found` of a Job whose pods could not run even if its queue admitted it."""
    of_author = [change for change in found.changes if change.startswith(OF_AUTHOR)]
    changes = found.changes if of_pods.admin_change or not of_author else of_author

    def needed(change: str) -> str:
        besides = of_pods.beside_less if change in of_author or not of_pods.admin_change else of_pods.admin_change
        return change if change.startswith(besides) else f"{change}, and {besides}"

    sentence = with_besides(found.sentence, of_pods.clause)
    return replace(found, sentence=sentence, changes=tuple(needed(change) for change in changes))


def _deactivated(case: Case, workload: Workload) -> Finding:
    """The reason of a deactivated Job. If its pods did not get ready, a reactivation alone changes nothing."""
    _, message = explain_state(case.job, workload, JobState.DEACTIVATED, case.now)
    command = f"sluice reactivate {case.argument}"
    last_error = recorded_cause(workload)
    if why_deactivated(workload) == NO_NODE:
        sentence = "No node could take its pods in time, so it is deactivated: it stays out of the queue."
        lacks = no_node_fits(last_error, case.job, workload, case.around.nodes)
        sees = case.around.nodes is not None
        again, requested = case.resubmission, demand(case.job, workload)
        needed = node_changes(last_error or message, requested, sees_nodes=sees, again=again)
        less = request_less(again)
        if lacks:
            sentence = f"{sentence} No present node is large enough: {lacks}."
            needed = (less, BIGGER_NODE)
        later = tuple(one if one == less else f"{one}; then it is reactivated" for one in needed)
        return Finding(reason_codes.DEACTIVATED_UNSCHEDULABLE, sentence, later, "kubectl describe nodes", message)
    sentence = "It is deactivated and stays out of the queue until it is reactivated."
    if case.job is not None and (left := retries_left(case.job, workload)):
        sentence = f"{sentence} Not all of its retries were used: {left}."
    changes = ("an operator reactivates it",)
    reason, _ = explain_state(case.job, workload, JobState.DEACTIVATED, case.now)
    if reason == RUN_TIME:
        sentence = _ran_too_long(workload)
    if may_run_longer(workload):
        changes = (f"it is reactivated ({command})",)
    elif reason in (LIMIT, RUN_TIME, CHECK):
        changes = (start_condition(why_deactivated(workload), case.argument, last_error),)
        verb = "cancel" if last_error.startswith(NOT_STARTABLE) else "show"
        command = f"sluice {verb} {case.argument}"  # the cause is removed first
        if reason == RUN_TIME and case.job is not None:
            command = f"kubectl label --overwrite job {case.kubectl} {keys.MAX_EXEC_TIME}=SECONDS"
    return Finding(reasons.DEACTIVATED, sentence, changes, command, message)


def _ran_too_long(workload: Workload) -> str:
    """Say that the Job exceeded its maximum execution time. The time that a Workload has now may be a later one."""
    allowed = workload.spec.maximum_execution_time_seconds
    if not may_run_longer(workload):
        limit = f" of {allowed} s" if allowed else ""
        return f"It ran longer than its maximum execution time{limit}, so it is deactivated, out of the queue."
    now = f"raised since: it may run for {allowed} s" if allowed else "removed since: it may run for any time"
    ran = round(seconds_before_deactivation(workload) or 0)
    why = f"It ran for {ran} s, longer than its maximum execution time at that time, so it is deactivated"
    return f"{why}, out of the queue. Its label has been {now}."


def _without_workload(case: Case) -> Finding:
    obstacles = case.around.obstacles
    if not case.queue:
        command = f'kubectl patch job {case.key.name} -n {case.key.namespace} -p \'{{"spec":{{"suspend":false}}}}\''
        sentence = "It is suspended and in no queue: only a user starts it."
        changes = ("its spec.suspend is set to false", f"it gets the label {keys.QUEUE_NAME}")
        return Finding(reasons.SUSPENDED, sentence, changes, command)
    if obstacles and obstacles[0].never:
        others = further(obstacles)
        sentence = sentence_of(obstacles[0].text)
        sentence = with_besides(sentence, "; ".join(each.text for each in others)) if others else sentence
        remedies = ", and ".join(f"you {each.remedy}" for each in (obstacles[0], *others) if each.remedy)
        return Finding(
            reasons.MISCONFIGURED, sentence, (remedies,) if remedies else (), f"sluice cancel {case.argument}"
        )
    if case.job is not None and is_overdue(case.job, case.now):
        sentence = "No Workload was created for it, so no controller has taken it up."
        needed = [MANAGER_RUNS, "managedJobsNamespaceSelector of the configuration selects its namespace"]
        if name := case.around.unseen_class:
            its = f"its WorkloadPriorityClass {name} does not exist, which you may not see"
            sentence = f"No Workload was created for it: {its}, or no controller has taken it up."
            needed = [f"an admin creates WorkloadPriorityClass {name}, if it does not exist", *needed]
        return Finding(reason_codes.CONTROLLER_STALE, sentence, tuple(needed), f"sluice show {case.argument}")
    sentence = "It was created just now; its Workload comes next."
    return Finding(reasons.PENDING_EVALUATION, sentence, command=f"sluice explain {case.argument}")


def _held_back(case: Case, workload: Workload) -> Finding | None:
    """The reason of a Job that is refused, is deactivated, holds quota or is gated; None for any other."""
    if case.state == JobState.REFUSED:
        _, message = explain_state(case.job, workload, case.state, case.now)
        sentence = "Its Workload is finished although the Job has not run."
        changes = ("what the message says is put right, and the Job is submitted again",)
        return Finding(reason_codes.REFUSED, sentence, changes, f"sluice cancel {case.argument}", message)
    if case.state == JobState.DEACTIVATED:
        return _deactivated(case, workload)
    gates = workload.metadata.annotations.get(keys.ADMISSION_GATED_BY, "")
    if workload.is_true(condition_types.QUOTA_RESERVED):
        return _reserved(case, workload)
    if gates:
        owner = "job" if case.job is not None else "workload"
        command = f"kubectl annotate {owner} {case.kubectl} {keys.ADMISSION_GATED_BY}-"
        return Finding(
            reasons.ADMISSION_GATED, f"Its admission is gated by {gates}.", ("all gates are removed",), command
        )
    return None


def _reserved(case: Case, workload: Workload) -> Finding:
    """The reason of a Job that holds quota and does not run."""
    command = f"sluice show {case.argument}"
    if workload.is_true(condition_types.EVICTED):
        return _stopping(case, workload, command)
    admitted = workload.condition(condition_types.ADMITTED)
    if admitted is None or not admitted.is_true:
        waiting = [check.name for check in workload.status.admission_checks if check.state != CheckState.READY]
        sentence = f"It has quota and waits for its admission checks: {', '.join(waiting) or 'none is reported yet'}."
        changes = tuple(f"admission check {name} is ready" for name in waiting)
        return Finding(reasons.UNSATISFIED_CHECKS, sentence, changes, command)
    since = admitted.last_transition_time
    if case.job is None:
        return Finding("", "It holds its quota until it is finished or deleted: this Workload has no Job.", (), command)
    if since is not None and (case.now - since).total_seconds() < ADMITTED_SECONDS:
        return Finding(reason_codes.STARTING, "It is admitted and starts now.", (), command)
    sentence = "It is admitted, but its Job is still suspended: the controller that unsuspends it does not act."
    return Finding(reason_codes.ADMITTED_NOT_RUNNING, sentence, (MANAGER_RUNS,), command)


def _stopping(case: Case, workload: Workload, command: str) -> Finding:
    """The reason of an evicted Job whose pods are being stopped, and what it needs after that."""
    _, message = explain_state(case.job, workload, JobState.EVICTED, case.now)
    victim = preempted_for(workload)
    was = f"preempted {victim}" if victim else "evicted"
    backs_off = _backs_off(case, workload)
    then = "it is pending again once its backoff has ended" if backs_off else "it is pending again"
    if _gives_up(case, workload):
        sentence = f"It was {was}, and its pods are being stopped; then it is deactivated: {GIVES_UP}."
        return Finding(reason_codes.EVICTED, sentence, ("an operator reactivates it after that",), command, message)
    sentence = f"It was {was}, and its pods are being stopped; then {then}."
    needed = ["its last pod has stopped", *(["the backoff ends"] if backs_off else [])]
    closed = _closed_to(case, workload)
    if closed is not None and closed.reason == reasons.SUSPENDED:
        sentence, command, needed = f"{sentence} {closed.sentence}", closed.command, [*needed, *closed.changes]
    else:
        needed.append("its queue admits it again")
    change = f"{', '.join(needed[:-1])}, and {needed[-1]}"
    return Finding(reason_codes.EVICTED, sentence, (change,), command, message)


# --- pending -----------------------------------------------------------------------------------------------


def _waiting(case: Case, workload: Workload) -> Finding:
    """The reason of a Job that is pending or backs off, and whether a present node is large enough for its pods."""
    found = _pending(case, workload)
    cause, nodes = recorded_cause(workload), case.around.nodes
    lacks = no_node_fits(cause, case.job, workload, nodes, awaits_node=False)
    if not lacks or found.reason in NEVER_REASONS:
        return found
    sentence = f"{found.sentence} In its last attempt, {_present(lacks)}"
    return replace(found, sentence=sentence, changes=(*found.changes, request_less(case.resubmission), BIGGER_NODE))


def _pending(case: Case, workload: Workload) -> Finding:
    objects = case.around.objects
    if objects is None or not waits(workload):
        return _closed_to(case, workload) or _backing_off(case, workload) or _published(case, workload)
    found = ClusterState(objects, case.around.settings, case.now).judge(workload)
    if found.closed:
        return _closed(case, workload, found)
    if found.evidence is None:
        return _backing_off(case, workload) or _about_to_be_requeued(case)
    return with_further_obstacles(case, decided(found, case.argument, objects, case.around.may_name))


def _closed_to(case: Case, workload: Workload) -> Finding | None:
    """The reason that the Job's queues do not exist or do not admit; None if they do, or may not be read."""
    around = case.around
    if not around.sees_queues or not queue_obstacle(workload.local_queue, around.local, around.above):
        return None
    return _closed(case, workload, None)


def _closed(case: Case, workload: Workload, found: Judgement | None) -> Finding:
    """The reason that the Job's queues do not exist or do not admit. `found`: the scheduler's judgement, if known."""
    local, above, default_ns, names = case.around.local, case.around.above, case.around.default_ns, case.around.names
    if local is None or above is None:
        text = queue_obstacle(workload.local_queue, local and released(local), above, default_ns, names)
        key = workload.local_queue
        missing = f"ClusterQueue {local.spec.cluster_queue}" if local is not None else f"LocalQueue {key}"
        change = f"{missing} is created" if local is not None or key.name else f"it gets the label {keys.QUEUE_NAME}"
        return Finding(reasons.MISCONFIGURED, sentence_of(text), (change,), "sluice queues")
    is_stopped = stops(local.spec.stop_policy) or stops(above.spec.stop_policy)
    then = _once_released(case, workload, local, above) if is_stopped else None
    if then is not None and then.reason in NEVER_REASONS:
        return _never_though_released(case, workload, then)
    text = queue_obstacle(workload.local_queue, local, above, default_ns, names)
    own = [queue_argument(local, default_ns)] if stops(local.spec.stop_policy) else []
    stopped = [*own, f"cq/{above.metadata.name}"] if stops(above.spec.stop_policy) else own
    if not stopped and above.metadata.deletion_timestamp is not None:
        elsewhere = f"its label {keys.QUEUE_NAME} names a LocalQueue of another ClusterQueue"
        again = f"an admin creates ClusterQueue {above.metadata.name} again after its deletion"
        return Finding(reasons.MISCONFIGURED, sentence_of(text), (elsewhere, again), "sluice queues")
    if not stopped:
        if found is not None:
            text = f"ClusterQueue {above.metadata.name}: {with_near_flavor(found.inactive, above, names)}"
        changes = ("an admin puts right what keeps the ClusterQueue inactive",)
        return with_further_obstacles(case, Finding(reasons.MISCONFIGURED, sentence_of(text), changes, "sluice doctor"))
    change = "the queue is released" if len(stopped) == 1 else "both queues are released"
    if then is not None and then.reason == reasons.WAITING_FOR_QUOTA:
        change = f"{change}, and enough quota is free then"
    command = "; ".join(f"sluice release {queue}" for queue in stopped)
    return Finding(reasons.SUSPENDED, sentence_of(text), (change,), command)


def _once_released(case: Case, workload: Workload, local: LocalQueue, above: ClusterQueue) -> Finding | None:
    """The reason why the Job would not be admitted at once if its stopped queues were released; None if unknown."""
    objects = case.around.objects
    if objects is None:
        return None
    opened = replace(
        objects,
        local_queues=[released(q) if q.metadata.key == local.metadata.key else q for q in objects.local_queues],
        cluster_queues=[released(q) if q.metadata.name == above.metadata.name else q for q in objects.cluster_queues],
    )
    around = replace(case.around, objects=opened, local=released(local), above=released(above))
    return _pending(replace(case, around=around), workload)


def _never_though_released(case: Case, workload: Workload, found: Finding) -> Finding:
    """The reason of a Job that can never be admitted, even after its stopped queues are released."""
    obstacle = queue_obstacle(workload.local_queue, case.around.local, case.around.above, case.around.default_ns)
    stopped = sentence_of(obstacle)
    changes = tuple(f"{change}, and the queue is released" for change in found.changes)
    # The numbers and the position of that judgement are those after the release.
    return replace(found, sentence=f"{found.sentence} {stopped}", changes=changes, judgement=None)


def _backing_off(case: Case, workload: Workload) -> Finding | None:
    if not _backs_off(case, workload):
        return None
    _, message = explain_state(case.job, workload, JobState.BACKOFF, case.now)
    attempts = budget_attempts(workload)
    lacked = bool(attempts) and attempts[-1].cause == reasons.UNSCHEDULABLE
    was = "No node could take its pods in time, so it was evicted" if lacked else "It was evicted"
    command = f"sluice show {case.argument}"
    if _gives_up(case, workload):
        sentence = f"{was}, and is deactivated instead of a retry: {GIVES_UP}."
        return Finding(reason_codes.BACKOFF, sentence, ("an operator reactivates it after that",), command, message)
    sentence = f"{was} and backs off; then it is pending again."
    return Finding(reason_codes.BACKOFF, sentence, ("the backoff ends",), command, message)


def _backs_off(case: Case, workload: Workload) -> bool:
    """Whether the backoff of a Workload that was evicted has not ended yet."""
    state = workload.status.requeue_state
    return state is not None and state.requeue_at is not None and state.requeue_at > case.now


def _gives_up(case: Case, workload: Workload) -> bool:
    """Whether giveUpAfter ends before the backoff does."""
    return ends_instead_of_retry(workload, case.around.settings) is not None


def _about_to_be_requeued(case: Case) -> Finding:
    sentence = "It is about to enter its queue again."
    return Finding(reasons.PENDING_EVALUATION, sentence, (IF_IT_LASTS,), f"sluice explain {case.argument}")


def _published(case: Case, workload: Workload) -> Finding:
    """The reason in the QuotaReserved condition, for a user who may not read all that the scheduler decides on."""
    reason, message = explain_state(case.job, workload, JobState.PENDING, case.now)
    reason = reason or reasons.PENDING_EVALUATION
    sentence = REASON_TEXTS.get(reason, "It waits for its turn in its queue.")
    return Finding(reason, sentence, (), f"sluice show {case.argument}", message)
