"""A Workload as queues and scheduler read it: its requests, its rank, and whether it may be tried.

Workloads have the same `shape` if all in their specs is equal that the scheduler reads: the pod sets (requests, number
and least number of pods, placement), namespace, priority, remaining execution time, and whether the Workload may
preempt others. They get the same answer at the same time, except that an earlier one may find more victims with
LowerOrNewerEqualPriority. So a queue of 100 000 equal Workloads can be parked and released as one.
BEHAVIOUR.md#q10-equivalent-workloads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from hashlib import blake2b
from sys import intern
from typing import NamedTuple

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Key
from queue_manager.api import condition_types, keys, reasons
from queue_manager.api.types import PodSet, Workload
from queue_manager.scheduling.amounts import Amounts
from queue_manager.scheduling.execution_time import longest_run
from queue_manager.scheduling.limits_and_overhead import NO_SURROUNDINGS, PodSurroundings
from queue_manager.scheduling.pod_requests import over_limits, pod_requests
from queue_manager.scheduling.queue_order import Rank, Timestamp, queue_time, rank
from queue_manager.scheduling.resource_rules import COUNT_ALL, ResourceRules

PODS = "pods"
PLACEMENT_FIELDS = ("nodeSelector", "affinity", "tolerations")  # of a pod spec
ANYWHERE: Json = {}
MAX_REMEMBERED = 1 << 10  # pod sets of one namespace; beyond that all are read again


class PodSetInfo(msgspec.Struct, frozen=True, gc=False):
    """A pod set without its reclaimed pods. Amounts are those that count against quota."""

    name: str
    count: int
    single: Amounts  # requests of one pod
    placement: Json  # the fields of its pod spec that decide on which nodes it can run
    minimum: int | None = None  # for partial admission: the least number of pods

    @property
    def total(self) -> Amounts:
        """The requests of all its pods."""
        return {name: value * self.count for name, value in self.single.items()}


class Info(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What queues and scheduler need of one Workload; computed once per change."""

    key: Key
    uid: str
    queue: Key
    rank: Rank
    shape: bytes
    pod_sets: tuple[PodSetInfo, ...]
    queued_at: datetime
    requeue_at: datetime | None = None
    held: bool = False  # not eligible before a write of the life cycle
    longest_run: int | None = None  # seconds until it is stopped, from its start on; None: not declared
    error: str = ""  # why its spec can never be admitted
    may_preempt: bool = True  # False before the first admission of a Job that runs already (`sluice import`)
    preempting: bool = False  # its status says that it waits for its victims

    @property
    def requests(self) -> dict[str, Amounts]:
        """The requests of all pods, by pod set: status.resourceRequests of a refused Workload."""
        return {pod_set.name: pod_set.total for pod_set in self.pod_sets}

    @property
    def priority(self) -> int:
        """spec.priority; higher is first."""
        return -self.rank.minus_priority

    def in_backoff(self, now: datetime) -> bool:
        """Whether the Workload must not be admitted yet, whatever quota is free."""
        return self.held or (self.requeue_at is not None and self.requeue_at > now)


class Requests(NamedTuple):
    """What the pod sets of a Workload request."""

    pod_sets: tuple[PodSetInfo, ...]
    error: str  # why they can never be admitted
    shape: bytes


class RequestReader:
    """Reads the pod sets of the Workloads of one namespace; equal ones only once.

    Most changes of a Workload leave its spec unchanged, and the cache lets Workloads of Jobs that are alike share one
    tuple of pod sets. So they are known by the identity of that tuple, which is kept for as long as it is remembered.
    Defaults of the namespace and overhead of the RuntimeClass are counted, but never written into the Workload.
    """

    def __init__(self, rules: ResourceRules = COUNT_ALL, surroundings: PodSurroundings = NO_SURROUNDINGS) -> None:
        self._rules = rules
        self._surroundings = surroundings
        self._known: dict[Hashable, tuple[tuple[PodSet, ...], Requests]] = {}

    def requests(self, workload: Workload) -> Requests:
        """The requests without reclaimed pods. A malformed quantity or a violated bound becomes the error."""
        if workload.status.reclaimable_pods:
            return self._read(workload)
        meta, spec = workload.metadata, workload.spec
        key = (id(spec.pod_sets), meta.namespace, spec.priority, longest_run(workload), _may_preempt(workload))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            known = self._known[key] = (spec.pod_sets, self._read(workload))
        return known[1]

    def _read(self, workload: Workload) -> Requests:
        try:
            pod_sets, error = self._pod_sets(workload)
        except ValueError as e:
            pod_sets, error = (), f"resources validation failed: {e}"
        return Requests(pod_sets, error, _shape(workload, pod_sets))

    def _pod_sets(self, workload: Workload) -> tuple[tuple[PodSetInfo, ...], str]:
        written = [pod_set.template.get("spec") or {} for pod_set in workload.spec.pod_sets]
        complete = [self._surroundings.complete(spec) for spec in written]
        pod_sets = tuple(
            _pod_set(pod_set, spec, workload, self._rules)
            for pod_set, spec in zip(workload.spec.pod_sets, complete, strict=True)
        )
        return pod_sets, _out_of_bounds(written, complete, self._surroundings)


def info(workload: Workload, timestamp: Timestamp = "Eviction", reader: RequestReader | None = None) -> Info:
    """Read a Workload. `reader`: of its namespace; None: no resource rules, LimitRanges and RuntimeClasses apply."""
    pod_sets, error, shape = (reader or RequestReader()).requests(workload)
    queued_at = queue_time(workload, timestamp)
    requeue = workload.status.requeue_state
    return Info(
        key=workload.metadata.key,
        uid=workload.metadata.uid,
        queue=workload.local_queue,
        rank=rank(workload, queued_at),
        shape=shape,
        pod_sets=pod_sets,
        queued_at=queued_at,
        requeue_at=requeue.requeue_at if requeue else None,
        held=_held(workload),
        longest_run=longest_run(workload),
        error=error,
        may_preempt=_may_preempt(workload),
        preempting=_preempting(workload),
    )


def _held(workload: Workload) -> bool:
    """Whether the Workload was deactivated, and its reactivation is not in Requeued yet.

    Every other Requeued=False ends without a further write: a backoff at requeueAt, a drain when the queue is
    restarted.
    """
    requeued = workload.condition(condition_types.REQUEUED)
    return requeued is not None and requeued.status == "False" and requeued.reason.startswith(reasons.DEACTIVATED)


def _preempting(workload: Workload) -> bool:
    reserved = workload.condition(condition_types.QUOTA_RESERVED)
    return reserved is not None and not reserved.is_true and reserved.reason == reasons.WAITING_FOR_PREEMPTED


def _may_preempt(workload: Workload) -> bool:
    """Whether the pending Workload may preempt: one that `sluice import` made may not before its first admission, after
    which it can be pending only if it was evicted.
    """
    imported = workload.metadata.labels.get(keys.IMPORTED) == "true"
    return not imported or workload.condition(condition_types.EVICTED) is not None


def remaining_pods(pod_set: PodSet, workload: Workload) -> int:
    """How many pods of a pod set of the Workload may still need quota: all but the reclaimed ones."""
    reclaimed = sum(r.count for r in workload.status.reclaimable_pods if r.name == pod_set.name)
    return max(0, pod_set.count - reclaimed)


def _pod_set(pod_set: PodSet, spec: Json, workload: Workload, rules: ResourceRules) -> PodSetInfo:
    single = pod_requests(spec)
    negative = next((name for name, value in single.items() if value < 0), None)
    if negative:
        raise ValueError(f"negative request for {negative}")
    count = remaining_pods(pod_set, workload)
    placement = {field: spec[field] for field in PLACEMENT_FIELDS if spec.get(field)} or ANYWHERE
    return PodSetInfo(intern(pod_set.name), count, rules.apply(single), placement, pod_set.min_count)


def _out_of_bounds(written: Sequence[Json], complete: Sequence[Json], surroundings: PodSurroundings) -> str:
    """The first error: requests over limits in the spec, a LimitRange's bound, requests over default limits."""

    def first(refusal: Callable[[Json, str], str], specs: Sequence[Json]) -> str:
        texts = (refusal(spec, f"spec.podSets[{i}].template.spec") for i, spec in enumerate(specs))
        return next((text for text in texts if text), "")

    if text := first(over_limits, written):
        return f"resources validation failed: {text}"
    if text := first(surroundings.refusal, complete):
        return f"resources didn't satisfy LimitRange constraints: {text}"
    if complete != written and (text := first(over_limits, complete)):
        return f"resources validation failed: {text}"
    return ""


def _shape(workload: Workload, pod_sets: tuple[PodSetInfo, ...]) -> bytes:
    """The shape of a Workload: a digest of all in its spec that the scheduler reads, which takes less memory."""
    parts = [(p.name, p.count, p.minimum, p.single, p.placement) for p in pod_sets]
    where = (workload.metadata.namespace, workload.spec.priority or 0, longest_run(workload), _may_preempt(workload))
    return blake2b(msgspec.json.encode((where, parts), order="sorted"), digest_size=16).digest()
