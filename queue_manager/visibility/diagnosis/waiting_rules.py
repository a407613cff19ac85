"""Jobs that wait for what only a user changes: a spec that never fits, a stopped queue, cordoned nodes. Pure.

Jobs with one cause are one finding: their number, and an example. What no Job waits for is not a finding, such as a
stopped queue without pending Jobs. ClusterQueues that do not exist or are inactive are left to `queue_rules`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from job_controller.conditions import finished
from job_controller.model import Job, Key, Pod
from queue_manager.api import keys, policy_values
from queue_manager.api.condition_types import QUOTA_RESERVED
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload, stops
from queue_manager.lifecycle.pod_causes import worst_cause
from queue_manager.lifecycle.unscheduled import unschedulable
from queue_manager.lifecycle.workload_settings import settings_of
from queue_manager.scheduling.queue_order import Rank, queue_time, rank
from queue_manager.visibility.awaited_node import awaits_node
from queue_manager.visibility.diagnosis.problem import Problem, error, warning
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from queue_manager.visibility.effects_of_changes import stopped_word
from queue_manager.visibility.job_causes import job_cause, pods_by_job, recorded_cause
from queue_manager.visibility.job_states import JobState, is_pending, job_state, workloads_by_job
from queue_manager.visibility.node_fit import lacks_of_fixed_nodes, no_fixed_node_fits, no_node_fits
from queue_manager.visibility.obstacles import (
    Obstacle,
    ReadableQueues,
    local_queue_of,
    missing_pod_class,
    obstacle,
    own_obstacle,
    selects_namespace,
)
from queue_manager.visibility.reason_codes import NO_MATCHING_NODE
from queue_manager.visibility.resubmission import resubmission

NEVER_STARTS = "NeverStarts"
STOPPED_QUEUE = "StoppedQueue"
CORDONED_NODES = "CordonedNodes"
UNPLACED_PODS = "UnplacedPods"
TOO_LARGE_PODS = "TooLargePods"
CORDONED = "were unschedulable"  # of the scheduler's message about a pod
_FULL = re.compile("Insufficient |Too many pods")
TRANSIENT = frozenset({CORDONED_NODES, UNPLACED_PODS})  # a pod may be placed a moment later


def never_starting(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Pending Jobs that their queue can never admit as they are, by queue and remedy. The example is the one for which
    others wait, if there is one.
    """
    behind = _behind_first(snapshot)
    groups: dict[tuple[str, str], list[tuple[int, Key, str]]] = defaultdict(list)
    for job, of, found in _never_admitted(snapshot):
        key = job.metadata.key
        groups[of, found.remedy].append((-behind.get(key, 0), key, found.text.partition(": ")[2]))
    for (of, remedy), jobs in sorted(groups.items()):
        minus_others, first, why = min(jobs)
        one = f"Job {first} of {of} can never start"
        which = one if len(jobs) == 1 else f"{len(jobs)} Jobs of {of} can never start, such as {first}"
        yield warning(
            NEVER_STARTS,
            f"job/{first.name} -n {first.namespace}",
            f"{which}: {why}; {remedy}.{_wait_behind(first, -minus_others)}",
            f"sluice explain {first}; sluice cancel {first}",
        )


def _behind_first(snapshot: ClusterSnapshot) -> dict[Key, int]:
    """The first Job of each StrictFIFO ClusterQueue, and how many wait behind it.

    Not with admission fair sharing, which orders by past usage; nor without the configuration, which may order by
    creation alone.
    """
    if snapshot.config is None:
        return {}
    queues, timestamp = _queues(snapshot), settings_of(snapshot.config).timestamp
    lines: dict[str, list[tuple[Rank, Key]]] = defaultdict(list)
    for job, workload in _pending(snapshot):
        local, above = queues.of(workload.local_queue)
        if above is None or not _blocks(above) or _stopped(local, above) is not None:
            continue
        is_selected = selects_namespace(above, job.metadata.namespace, snapshot.namespaces)
        if is_selected and keys.ADMISSION_GATED_BY not in workload.metadata.annotations:
            place = rank(workload, queue_time(workload, timestamp))
            lines[above.metadata.name].append((place, job.metadata.key))
    return {min(line)[1]: len(line) - 1 for line in lines.values()}


def _blocks(queue: ClusterQueue) -> bool:
    """Whether the order by priority and time decides which Workload is first, and this one blocks the others."""
    is_strict = queue.spec.queueing_strategy == policy_values.STRICT_FIFO and queue.spec.admission_scope is None
    return is_strict and queue.metadata.annotations.get(keys.PASS_BY) != "true"


def _wait_behind(first: Key, others: int) -> str:
    if not others:
        return ""
    wait = "1 Job waits" if others == 1 else f"{others} Jobs wait"
    return f" {wait} behind {first}, since its queue is StrictFIFO."


def _never_admitted(snapshot: ClusterSnapshot) -> Iterator[tuple[Job, str, Obstacle]]:
    """Yield each pending Job that its queue can never admit, with the queue that is named, and why."""
    queues = _queues(snapshot)
    for job, workload in [*_pending(snapshot), *_without_workload(snapshot), *_without_pod_class(snapshot)]:
        key = local_queue_of(job, workload)
        local, _ = queues.of(key)
        found = own_obstacle(job, workload, queues) if local is not None else obstacle(job, workload, queues)
        if found is not None:
            above = f"ClusterQueue {local.spec.cluster_queue}" if local is not None else ""
            yield job, above or f"LocalQueue {key}", found


def stopped_queues(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Queues that a user has stopped, and for which Jobs wait."""
    queues = _queues(snapshot)
    groups: dict[tuple[str, str, str], list[Key]] = defaultdict(list)
    for job, workload in _pending(snapshot):
        stopped = _stopped(*queues.of(workload.local_queue))
        if stopped is not None:
            groups[stopped].append(job.metadata.key)
    for (place, argument, policy), waiting in sorted(groups.items()):
        wait = "waits" if len(waiting) == 1 else "wait"
        what = f"It is {stopped_word(policy)}, and {_jobs(waiting)} {wait} until it is released."
        yield warning(STOPPED_QUEUE, place, what, f"sluice release {argument}")


def cordoned_nodes(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Nodes that take no new pods, and pods that wait for one; an error if these are all nodes.

    Between two attempts a Job has no pod: then it counts if its pods found no node in the last one for that reason.
    """
    nodes = snapshot.nodes or ()
    names = sorted(node.name for node in nodes if node.is_cordoned)
    is_all = len(names) == len(nodes)
    pods = [pod for pod in _unplaced(snapshot) if is_all or _found_cordoned(pod)]
    jobs = _without_cordoned_node(snapshot)
    if not names or not (pods or jobs):
        return
    who = f"{_pods(pods)} no node" if pods else f"the pods of {_jobs(jobs)} found no node"
    if is_all:
        nodes_are = "The only node is" if len(names) == 1 else f"All {len(names)} nodes are"
        problem, sentence = error, f"{nodes_are} cordoned, so {who}."
    else:
        verb = "is" if len(names) == 1 else "are"
        problem, sentence = warning, f"{len(names)} of {len(nodes)} nodes {verb} cordoned, and {who}."
    yield problem(CORDONED_NODES, f"node/{names[0]}", sentence, f"kubectl uncordon {' '.join(names)}")


def _found_cordoned(pod: Pod) -> bool:
    """Whether the scheduler has excluded a node for this pod because it is cordoned."""
    refused = unschedulable(pod)
    return refused is not None and CORDONED in refused.message


def _without_cordoned_node(snapshot: ClusterSnapshot) -> list[Key]:
    """The Jobs that hold no quota, whose pods in the last attempt found no node because of cordoned ones."""
    by_job = workloads_by_job(snapshot.workloads or ())
    found = [(job, by_job.get(job.metadata.uid)) for job in snapshot.jobs or ()]
    return sorted(
        job.metadata.key
        for job, its in found
        if its is not None and finished(job.status) is None and not its.is_true(QUOTA_RESERVED)
        if CORDONED in recorded_cause(its)
    )


def pods_that_fit_no_node(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Jobs whose pods fit no present node: where nodes may be added, only those that have found none.

    What their queue can never admit is left to `never_starting`. What a user has deactivated before it found no node is
    left out.
    """
    reported = {job.metadata.uid for job, _, _ in _never_admitted(snapshot)}
    by_job = workloads_by_job(snapshot.workloads or ())
    pods_of = pods_by_job(snapshot.pods or ())
    groups: dict[tuple[str, bool, str], list[Job]] = defaultdict(list)
    for job in snapshot.jobs or ():
        if finished(job.status) is None and job.metadata.uid not in reported:
            workload = by_job.get(job.metadata.uid)
            cause = job_cause(job, workload, pods_of.get(job.metadata.uid, ()))
            state = job_state(job, workload, snapshot.now)
            awaits = awaits_node(state, workload)
            never = no_fixed_node_fits(job, workload, snapshot.nodes) if awaits else ""
            lacks = never or no_node_fits(cause, job, workload, snapshot.nodes, awaits_node=awaits)
            is_labelled = bool(lacks_of_fixed_nodes(job, workload, snapshot.nodes).labels)
            code = NO_MATCHING_NODE if is_labelled else TOO_LARGE_PODS
            if lacks:
                groups[code, bool(never), lacks].append(job)
    for (code, is_never, lacks), jobs in sorted(groups.items(), key=lambda group: group[0]):
        why = "can never start on the present nodes" if is_never else "found no node, and none is large enough"
        example = min(jobs, key=lambda job: job.metadata.key)
        first = example.metadata.key
        yield warning(
            code,
            f"job/{first.name} -n {first.namespace}",
            f"{_capital(_jobs([job.metadata.key for job in jobs]))} {why}: {lacks}.",
            f"sluice explain {first}; {resubmission(example, '')}",
        )


def unplaced_pods(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Pods of Jobs that no node can take, by cause, unless `cordoned_nodes` or `pods_that_fit_no_node` says why.

    What waits for room on a node that is large enough is not a finding: other pods will end.
    """
    cordoned = [node for node in snapshot.nodes or () if node.is_cordoned]
    if cordoned and len(cordoned) == len(snapshot.nodes or ()):
        return
    jobs, nodes = snapshot.jobs or (), snapshot.nodes
    unmatched = {job.metadata.uid for job in jobs if lacks_of_fixed_nodes(job, None, nodes).labels}
    groups: dict[str, list[Pod]] = defaultdict(list)
    for pod in _unplaced(snapshot):
        if (cordoned and _found_cordoned(pod)) or _job_of(pod) in unmatched:
            continue
        worst = worst_cause([pod])
        if worst is not None and not _FULL.search(worst.text):
            groups[worst.text].append(pod)
    for cause, pods in sorted(groups.items()):
        first = min(pods, key=lambda pod: pod.metadata.key)
        name, namespace = first.metadata.key.name, first.metadata.key.namespace
        job = first.metadata.controller.name if first.metadata.controller is not None else ""
        yield warning(
            UNPLACED_PODS,
            f"pod/{name} -n {namespace}",
            f"{_capital(_pods(pods))} no node ({cause}).",
            f"sluice explain {namespace}/{job}; kubectl get nodes",
        )


def _queues(snapshot: ClusterSnapshot) -> ReadableQueues:
    local, above = snapshot.local_queues, snapshot.cluster_queues
    flavors, cohorts = snapshot.flavors, snapshot.cohorts
    return ReadableQueues(
        local=None if local is None else {each.metadata.key: each for each in local},
        cluster=None if above is None else {each.metadata.name: each for each in above},
        flavors=None if flavors is None else {each.metadata.name: each for each in flavors},
        cohorts=None if cohorts is None else {each.metadata.name: each for each in cohorts},
        classes=snapshot.priority_classes,
        pod_classes=snapshot.pod_classes,
        namespaces=snapshot.namespaces,
        rules=snapshot.rules if snapshot.config is not None else None,
    )


def _pending(snapshot: ClusterSnapshot) -> Iterator[tuple[Job, Workload]]:
    """The Jobs that wait in a queue, with their Workloads."""
    by_job = workloads_by_job(snapshot.workloads or ())
    for job in snapshot.jobs or ():
        workload = by_job.get(job.metadata.uid)
        waits = workload is not None and not workload.is_true(QUOTA_RESERVED)
        if workload is not None and waits and is_pending(job, workload, snapshot.now):
            yield job, workload


def _without_workload(snapshot: ClusterSnapshot) -> Iterator[tuple[Job, None]]:
    """The Jobs that are in a queue by their label, and for which no Workload has been created."""
    if snapshot.workloads is None:
        return
    by_job = workloads_by_job(snapshot.workloads)
    for job in snapshot.jobs or ():
        is_queued = keys.QUEUE_NAME in job.metadata.labels and job.metadata.uid not in by_job
        if is_queued and job_state(job, None, snapshot.now) == JobState.PENDING:
            yield job, None


def _without_pod_class(snapshot: ClusterSnapshot) -> Iterator[tuple[Job, Workload | None]]:
    """The Jobs that are between two attempts, or deactivated, and whose pods name a PriorityClass that does not exist.

    Of one that holds quota `refused_write_rules` says it.
    """
    by_job = workloads_by_job(snapshot.workloads or ())
    for job in snapshot.jobs or ():
        workload = by_job.get(job.metadata.uid)
        stopped = job_state(job, workload, snapshot.now) in (JobState.BACKOFF, JobState.EVICTED, JobState.DEACTIVATED)
        if stopped and missing_pod_class(job, snapshot.pod_classes):
            yield job, workload


def _stopped(local: LocalQueue | None, above: ClusterQueue | None) -> tuple[str, str, str] | None:
    """Place, argument of `sluice release`, and policy of the queue that is stopped: the LocalQueue first."""
    if local is not None and stops(local.spec.stop_policy):
        key = local.metadata.key
        return f"localqueue/{key.name} -n {key.namespace}", str(key), local.spec.stop_policy
    if above is not None and stops(above.spec.stop_policy):
        return f"clusterqueue/{above.metadata.name}", f"cq/{above.metadata.name}", above.spec.stop_policy
    return None


def _unplaced(snapshot: ClusterSnapshot) -> list[Pod]:
    """The pods of Jobs that no node can take."""
    return [pod for pod in snapshot.pods or () if unschedulable(pod) is not None and _job_of(pod)]


def _job_of(pod: Pod) -> str:
    """The UID of the Job that controls the pod; "" if none does."""
    owner = pod.metadata.controller
    return owner.uid if owner is not None and owner.kind == "Job" else ""


def _jobs(keys: Sequence[Key]) -> str:
    return f"Job {keys[0]}" if len(keys) == 1 else f"{len(keys)} Jobs, such as {min(keys)},"


def _pods(pods: Sequence[Pod]) -> str:
    """The subject and the verb of a sentence that ends with "no node"."""
    first = min(pod.metadata.key for pod in pods)
    return f"pod {first} finds" if len(pods) == 1 else f"{len(pods)} pods, such as {first}, find"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
