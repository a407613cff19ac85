"""Determines what prevents a queued Job from starting, for `sluice submit` and `sluice show`. Pure.

`obstacles` checks a Job against the current queues, flavors and priority classes. Quota that is in use is not an
obstacle, because the Job only has to wait for it. `obstacle` returns the first one, in the order of these rules:

    the cluster does not have the queue's kinds
    its priority class does not exist             no Workload is created
    its pods' PriorityClass does not exist        the API server refuses to create the pods
    its namespace is not selected                 the ClusterQueue's namespaceSelector does not match
    it requests more than the queue can ever provide
    a pod of it fits no node                      where nodes are fixed (`node_fit`), and no resource lacks quota
    its queue is missing, held or inactive        all Workloads of the queue stay pending until that is fixed
    its queue has no quota for a resource         unless the configuration excludes the resource

Only the configuration of the queue manager says which resources are excluded (`resources`). If it cannot be read, the
last rule is uncertain until the scheduler has tried the Workload, or another one of the same shape. If the ClusterQueue
cannot be read, what the scheduler found is all that is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from job_controller.api_rules import label_selectors
from job_controller.model import Job, Key, ObjectMeta
from queue_manager.api import condition_types, keys, reasons
from queue_manager.api.types import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload, stops
from queue_manager.jobs.workload_manifest import prebuilt_name
from queue_manager.scheduling.resource_rules import COUNT_ALL, ResourceRules
from queue_manager.visibility.effects_of_changes import KnownNames, queue_obstacle
from queue_manager.visibility.job_states import JobState, is_judged
from queue_manager.visibility.never_fits import group_obstacles, without_quota
from queue_manager.visibility.node_fit import NodeFacts
from queue_manager.visibility.pod_obstacles import pod_obstacle
from queue_manager.visibility.similar_names import did_you_mean
from queue_manager.visibility.unlisted_queues import is_unlisted

CREATED = "created; starts when its queue admits it"  # of a Job without an obstacle, which may be admitted already
CAN_NEVER_START = "can never start"
INSTALL = "sluice install | kubectl apply --server-side -f -"
NOT_INSTALLED = f"does not serve the queue's kinds; to install them: {INSTALL}"
_NEVER = (reasons.NO_MATCHING_FLAVOR, reasons.EXCEEDS_MAX_QUOTA, reasons.MISCONFIGURED)
_CANNOT_START, _WAITS = "cannot start: ", "waits: "


class Obstacle(NamedTuple):
    """Why a Job does not start. `never`: it cannot start until its author or an admin does what `remedy` says.

    `certain`: False while only the scheduler can decide whether the obstacle exists. `is_of_pods`: the scheduler, which
    decides on quota alone, does not know it.
    """

    text: str
    remedy: str = ""
    never: bool = False
    certain: bool = True
    is_of_pods: bool = False


@dataclass(frozen=True, slots=True)
class ReadableQueues:
    """The objects that decide whether a Job can start. None: the user may not read them, or the kind does not exist.

    `namespaces`: the labels of each readable namespace. `installed`: whether the cluster serves the queue's kinds.
    `rules`: the configuration's `resources`. `nodes`: None also if they are not needed. `refused_classes`: UIDs of Jobs
    with the priority class that their manager did not find, by its Events; read only if the classes of the cluster do
    not decide. `classes`: the WorkloadPriorityClasses, `pod_classes` the PriorityClasses.
    """

    local: Mapping[Key, LocalQueue] | None = None
    cluster: Mapping[str, ClusterQueue] | None = None
    flavors: Mapping[str, ResourceFlavor] | None = None
    cohorts: Mapping[str, Cohort] | None = None
    classes: frozenset[str] | None = None
    pod_classes: frozenset[str] | None = None
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    installed: bool = True
    rules: ResourceRules | None = None
    refused_classes: frozenset[tuple[str, str]] = frozenset()
    nodes: Sequence[NodeFacts] | None = None

    def of(self, key: Key) -> tuple[LocalQueue | None, ClusterQueue | None]:
        """Return the LocalQueue of this key and its ClusterQueue. Unreadable ClusterQueues count as open."""
        local = (self.local or {}).get(key)
        if local is None:
            return None, None
        if self.cluster is None or self.is_unlisted(key):
            return local, ClusterQueue()
        return local, self.cluster.get(local.spec.cluster_queue)

    def names(self, namespace: str) -> KnownNames:
        """Return the names that messages about missing ones suggest, with the LocalQueues of this namespace."""
        local = [key.name for key in self.local or () if key.namespace == namespace]
        return KnownNames(local, [*(self.cluster or ())], [*(self.flavors or ())])

    def only_manager_knows(self, key: Key) -> bool:
        """Whether the user may not read the ClusterQueue of this LocalQueue, or the manager has it from a file."""
        local, above = self.of(key)
        return local is not None and above is not None and not above.metadata.name

    def is_unlisted(self, key: Key) -> bool:
        """Whether this LocalQueue belongs to a manager that has its ClusterQueue, flavors and classes from files."""
        local = (self.local or {}).get(key)
        return local is not None and self.cluster is not None and is_unlisted(local, self.cluster)


def obstacle(
    job: Job | None, workload: Workload | None, queues: ReadableQueues, default_ns: str = "default"
) -> Obstacle | None:
    """Return what prevents a Job, or a Workload without a Job, from starting. `default_ns`: the default namespace."""
    return next(obstacles(job, workload, queues, default_ns), None)


def obstacles(
    job: Job | None, workload: Workload | None, queues: ReadableQueues, default_ns: str = "default"
) -> Iterator[Obstacle]:
    """Yield all that prevents a Job, or a Workload without a Job, from starting, in the order of the rules."""
    key = local_queue_of(job, workload)
    if key.name and not queues.installed:
        yield Obstacle(f"cannot start: the cluster {NOT_INSTALLED}", never=True)
    if not key.name or queues.local is None:
        return
    local, cluster_queue = queues.of(key)
    judged = judged_job(job)
    yield from _of_spec(judged, workload, cluster_queue, queues)
    of_resources = _of_resources(judged, workload, cluster_queue, queues.rules)
    of_nodes = node_obstacle(judged, workload, queues.nodes)
    text = queue_obstacle(key, local, cluster_queue, default_ns, queues.names(key.namespace))
    of_queues = _of_queues(text, local, cluster_queue) if text else None
    ordered = (of_nodes, of_queues) if of_resources is None else (of_queues, of_resources, of_nodes)
    yield from (found for found in ordered if found is not None)


def further(found: Sequence[Obstacle]) -> list[Obstacle]:
    """Return what prevents a Job that can never start beside the first obstacle; none of a Job that may start."""
    return [each for each in found[1:] if each.certain] if found and found[0].never else []


def further_texts(found: Sequence[Obstacle]) -> list[str]:
    """Return the texts of `further`."""
    return [each.text for each in further(found)]


def own_obstacle(job: Job | None, workload: Workload | None, queues: ReadableQueues) -> Obstacle | None:
    """Return why a Job can never start even if its queue is active and empty; None if it may, or if that is unknown."""
    judged = judged_job(job)
    if queues.local is None:
        return None
    _, cluster_queue = queues.of(local_queue_of(job, workload))
    of_resources = _of_resources(judged, workload, cluster_queue, queues.rules)
    if of_resources is not None and not of_resources.certain:
        of_resources = None
    of_spec = next(_of_spec(judged, workload, cluster_queue, queues), None)
    return of_spec or of_resources or node_obstacle(judged, workload, queues.nodes)


def _of_spec(
    job: Job | None, workload: Workload | None, cluster_queue: ClusterQueue | None, queues: ReadableQueues
) -> Iterator[Obstacle]:
    """Yield what the Job itself has to do with: its priority class, namespace and requests."""
    if job is None:
        return
    if (of_class := _of_class(job, workload, queues)) is not None:
        yield of_class
    if (of_pod_class := pod_class_obstacle(job, queues.pod_classes)) is not None:
        yield of_pod_class
    yield from _of_specs(job, cluster_queue, queues)


def node_obstacle(job: Job | None, workload: Workload | None, nodes: Sequence[NodeFacts] | None) -> Obstacle | None:
    """Return that a pod fits no node of a cluster whose nodes are fixed; None if it fits one, or if unknown."""
    found = pod_obstacle(job, workload, nodes)
    if found is None:
        return None
    return Obstacle(f"{CAN_NEVER_START}: {found.lacks}", found.advice, never=True)


def judged_job(job: Job | None) -> Job | None:
    """Return the Job if its requests count; None if it uses a prebuilt Workload, whose requests may differ."""
    return job if job is not None and not prebuilt_name(job) else None


def _of_queues(text: str, local: LocalQueue | None, cluster_queue: ClusterQueue | None) -> Obstacle:
    """Return the obstacle of a queue that admits nothing, which `text` describes.

    A Job waits for a stopped queue. With one that is missing or inactive it cannot start until an admin acts (`never`).
    """
    if local is None or (cluster_queue is None and not stops(local.spec.stop_policy)):
        return Obstacle(f"{_CANNOT_START}{text}", "use another queue, or have an admin create it", never=True)
    if stops(local.spec.stop_policy) or (cluster_queue is not None and stops(cluster_queue.spec.stop_policy)):
        return Obstacle(f"{_WAITS}{text}")
    return Obstacle(f"{_CANNOT_START}{text}", "use another queue, or have an admin put it right", never=True)


def why_queue_admits_nothing(workload: Workload | None, found: Obstacle | None, state: JobState, reason: str) -> str:
    """Return the obstacle of a pending Job as `sluice ps` shows it; "" if the scheduler says why this Job waits."""
    if found is None or state != JobState.PENDING or not found.certain:
        return ""
    if workload is None or found.is_of_pods:
        return found.text
    is_of_queue = reason in (reasons.SUSPENDED, reasons.MISCONFIGURED)
    return found.text.removeprefix(_WAITS).removeprefix(_CANNOT_START) if is_of_queue else ""


def local_queue_of(job: Job | None, workload: Workload | None) -> Key:
    """Return the key of the LocalQueue; its name is "" if they are in no queue."""
    if workload is not None:
        return workload.local_queue
    meta = job.metadata if job is not None else ObjectMeta()
    return Key(meta.namespace, meta.labels.get(keys.QUEUE_NAME, ""))


def _of_class(job: Job, workload: Workload | None, queues: ReadableQueues) -> Obstacle | None:
    """The obstacle of a Job whose priority class is missing; None once it has a Workload, which keeps its priority."""
    name = job.metadata.labels.get(keys.PRIORITY_CLASS, "")
    if not name or workload is not None:
        return None
    known = None if queues.is_unlisted(local_queue_of(job, workload)) else queues.classes
    if name in known if known is not None else (job.metadata.uid, name) not in queues.refused_classes:
        return None
    hint = did_you_mean(name, known or (), 1)
    text = f"cannot start: WorkloadPriorityClass {name} does not exist"
    text += f"; {hint}" if hint else ""
    return Obstacle(text, f"correct its label {keys.PRIORITY_CLASS}, or have an admin create it", never=True)


def _of_specs(job: Job, cluster_queue: ClusterQueue | None, queues: ReadableQueues) -> Iterator[Obstacle]:
    if cluster_queue is None or not cluster_queue.metadata.name:
        return
    if not selects_namespace(cluster_queue, job.metadata.namespace, queues.namespaces):
        name, namespace = cluster_queue.metadata.name, job.metadata.namespace
        text = f"cannot start: ClusterQueue {name} admits no Jobs of namespace {namespace}"
        yield Obstacle(f"{text} (namespaceSelector)", "use another queue, or have an admin change it", never=True)
    if queues.cluster is None or queues.flavors is None or (queues.cohorts is None and cluster_queue.spec.cohort_name):
        return
    rules, cohorts = queues.rules or COUNT_ALL, (queues.cohorts or {}).values()
    for each in group_obstacles(job, cluster_queue, queues.cluster.values(), queues.flavors, rules, cohorts):
        text = f"{CAN_NEVER_START}: {each.text}"
        yield Obstacle(text, "request less, or have an admin change the queue", never=True)


def pod_class_obstacle(job: Job, pod_classes: frozenset[str] | None) -> Obstacle | None:
    """Return that the pods' PriorityClass does not exist, as `missing_pod_class` finds; None if it does."""
    name = missing_pod_class(job, pod_classes)
    if not name:
        return None
    hint = did_you_mean(name, pod_classes or (), 1)
    text = f"{CAN_NEVER_START}: PriorityClass {name} does not exist{f'; {hint}' if hint else ''}"
    remedy = "correct the priorityClassName of its pods, or have an admin create it"
    return Obstacle(text, remedy, never=True, is_of_pods=True)


def missing_pod_class(job: Job | None, pod_classes: frozenset[str] | None) -> str:
    """Return the PriorityClass of a Job's next pods if it does not exist; "" if it exists, or if that is unknown."""
    if job is None or pod_classes is None:
        return ""
    name = pod_class(job)
    return "" if name in pod_classes else name


def pod_class(job: Job) -> str:
    """Return the PriorityClass that a Job's next pods name; "" if they name none.

    Also "" if it has pods: if their class does not exist, it was deleted later, and they may run.
    """
    name: str = (job.spec.template.get("spec") or {}).get("priorityClassName") or ""
    return "" if job.status.active else name


def unseen_class(job: Job | None, queues: ReadableQueues) -> str:
    """Return the WorkloadPriorityClass that a Job names, if the user may not list these; else ""."""
    return job.metadata.labels.get(keys.PRIORITY_CLASS, "") if job is not None and queues.classes is None else ""


def selects_namespace(cluster_queue: ClusterQueue, namespace: str, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether the namespaceSelector matches the namespace; True if unknown. An absent selector matches nothing.

    `namespaces`: the labels of each.
    """
    selector = cluster_queue.spec.namespace_selector
    if selector is None:
        return False
    own = namespaces.get(namespace)
    return own is None or label_selectors.matches(selector, own)


def _of_resources(
    job: Job | None, workload: Workload | None, cluster_queue: ClusterQueue | None, rules: ResourceRules | None
) -> Obstacle | None:
    if job is None or cluster_queue is None:
        return None
    judged = workload.condition(condition_types.QUOTA_RESERVED) if workload is not None else None
    if not cluster_queue.metadata.name:  # only the scheduler knows the quota
        if judged is None or not is_judged(judged) or judged.reason not in _NEVER:
            return None
        return Obstacle(
            f"cannot start: {judged.message}", "request less, or have an admin change the queue", never=True
        )
    names = ", ".join(without_quota(job, cluster_queue, rules or COUNT_ALL))
    if not names:
        return None
    text = f"cannot start: ClusterQueue {cluster_queue.metadata.name} has no quota for {names}"
    if judged is not None and is_judged(judged) and judged.reason != reasons.SUSPENDED:  # else it has not been tried
        if judged.reason not in _NEVER:
            return None
    elif rules is None:
        return Obstacle(f"{text}, unless the configuration excludes it", certain=False)
    return Obstacle(text, "do not request it, or have an admin add a quota", never=True)
