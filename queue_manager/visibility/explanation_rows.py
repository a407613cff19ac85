"""The tables of `sluice explain`: amounts as quantities, verdicts as sentences. Pure.

The sentence above the tables is chosen in `dominant_reason`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction

import msgspec

from job_controller.model import Key
from queue_manager.api import policy_values, reasons
from queue_manager.scheduling.admission_evidence import FlavorEvidence, HeldQuota, PreemptionCheck, PreemptionVerdict
from queue_manager.scheduling.amounts import text
from queue_manager.scheduling.flavor_assignment import Mode
from queue_manager.scheduling.quota_tree import FlavorResource

NOT_NAMED = Key("", "")  # in place of LocalQueues whose names the reader may not know


class FlavorRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One resource in one flavor. Quantities as in the API; None: not visible.

    `free`: what the queue may use now, `borrowable` of it from its cohort. `kept`: free, and kept for Workloads that
    preempt. `limit`: the most that the queue could use if nothing else ran.
    """

    pod_set: str
    flavor: str
    resource: str
    requested: str
    free: str | None
    borrowable: str | None
    kept: str | None
    limit: str | None
    verdict: str


class HolderRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Workloads of one LocalQueue that hold quota which the explained Job needs.

    `namespace`, `queue` "": those of all LocalQueues whose names the reader may not know, without `jobs`. `stopping`:
    how many of them are being stopped. `holds`: the amount they hold, by "FLAVOR/RESOURCE".
    """

    cluster_queue: str
    namespace: str
    queue: str
    workloads: int
    holds: dict[str, str]
    jobs: list[str]
    stopping: int = 0


class PreemptionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether the `running` Workloads of a ClusterQueue that use a flavor can be preempted, and why not.

    `candidates`: how many of them can be. `protected_until`: the earliest end of a minimum runtime that protects one.
    """

    cluster_queue: str
    flavor: str
    policy: str
    running: int
    candidates: int
    verdict: str
    text: str
    protected_until: datetime | None


def flavor_row(row: FlavorEvidence) -> FlavorRow:
    """The row of one resource in one flavor."""

    def quantity(amount: int) -> str:
        return text(row.resource, amount)

    return FlavorRow(
        pod_set=row.pod_set,
        flavor=row.flavor,
        resource=row.resource,
        requested=quantity(row.requested),
        free=quantity(max(0, row.free)),
        borrowable=quantity(row.borrowable),
        kept=quantity(row.kept),
        limit=quantity(row.limit),
        verdict=_fits(row),
    )


def _fits(row: FlavorEvidence) -> str:
    if not row.flavor:
        return "no quota"
    if row.reason == reasons.NO_MATCHING_FLAVOR:
        return row.why[0]
    if row.requested > row.limit:
        return f"{text(row.resource, row.requested - row.limit)} over the limit"
    if row.requested > row.free:
        return f"{text(row.resource, row.requested - row.free)} more needed"
    return "fits"


def holder_rows(held: Iterable[HeldQuota], jobs: Mapping[Key, str], may_name: Callable[[str], bool]) -> list[HolderRow]:
    """Return a row for each LocalQueue's holders; those that the reader may not know as one row per ClusterQueue.

    `jobs`: names of Jobs by the key of their Workload. `may_name`: of which namespaces the reader may know the names.
    """
    grouped: dict[tuple[str, Key], list[HeldQuota]] = {}
    for each in held:
        queue = each.queue if may_name(each.queue.namespace) else NOT_NAMED
        grouped.setdefault((each.cluster_queue, queue), []).append(each)
    return [_holder_row(*key, some, jobs) for key, some in grouped.items()]


def _holder_row(cluster_queue: str, queue: Key, held: Sequence[HeldQuota], jobs: Mapping[Key, str]) -> HolderRow:
    usage = Counter[FlavorResource]()
    for each in held:
        usage.update(each.usage)
    workloads = [key for each in held for key in each.workloads]
    return HolderRow(
        cluster_queue=cluster_queue,
        namespace=queue.namespace,
        queue=queue.name,
        workloads=len(workloads),
        stopping=sum(len(each.stopping) for each in held),
        holds={f"{fr.flavor}/{fr.resource}": text(fr.resource, amount) for fr, amount in sorted(usage.items())},
        jobs=[jobs.get(key, key.name) for key in workloads] if queue != NOT_NAMED else [],
    )


def preemption_row(check: PreemptionCheck, priority: int) -> PreemptionRow:
    """Return the row of one check. `priority` is that of the Workload that needs quota."""
    field, value = check.policy
    return PreemptionRow(
        cluster_queue=check.cluster_queue,
        flavor=check.flavor,
        policy=f"{field}: {value}",
        running=check.running,
        candidates=check.candidates,
        verdict=check.verdict,
        text=_verdict_text(check, priority),
        protected_until=check.protected_until,
    )


def _verdict_text(check: PreemptionCheck, priority: int) -> str:
    value = check.policy[1]
    newer = ", or an equal one and is newer" if value == policy_values.LOWER_OR_NEWER_EQUAL else ""
    limit = f"; {check.limited_by} excludes others" if check.limited_by else ""
    return _VERDICTS[check.verdict].format(
        value=value, priority=priority, may=check.candidates, newer=newer, limit=limit, rule=check.limited_by
    )


_VERDICTS = {
    PreemptionVerdict.CHOSEN: "those that it needs are being stopped for it",
    PreemptionVerdict.ONCE_FIRST: "those that it needs can be stopped for it once it is the first of its queue",
    PreemptionVerdict.POLICY_NEVER: "the policy allows none",
    PreemptionVerdict.MUST_BORROW: "it would have to borrow, counting what its queue uses; it may not preempt for that "
    "(borrowWithinCohort)",
    PreemptionVerdict.WITHIN_QUOTA: "that queue, or a cohort around it, uses no more than its own quota (any that are "
    "being stopped do not count)",
    PreemptionVerdict.SPOKEN_FOR: "all of them are being stopped for other Workloads",
    PreemptionVerdict.NOT_LOWER: "none has a priority below {priority}{newer}, as {value} requires",
    PreemptionVerdict.RECLAIMED_BEFORE: "it has preempted each of them as often as it may",
    PreemptionVerdict.PROTECTED: "those that {value} allows are protected by their minimum runtime",
    PreemptionVerdict.SPARED: "others make room for it",
    PreemptionVerdict.ABOVE_THRESHOLD: "it would still have to borrow, and {rule} excludes them",
    PreemptionVerdict.SHARES: "fair sharing protects them: without them their queue would have the smaller share",
    PreemptionVerdict.KEPT_FOR_HEAD: "what they free would be kept for one that is ordered before it (backfill)",
    PreemptionVerdict.KEPT_FOR_FIRST: "what they free would be kept for the first of a StrictFIFO queue",
    PreemptionVerdict.NOT_ENOUGH: "all that may be stopped, {may} of them here, do not free enough{limit}",
}


Lacks = list[FlavorEvidence]  # the resources that one flavor has too little of


def lacks_by_group(rows: Sequence[FlavorEvidence], reason: str) -> list[list[Lacks]]:
    """For each resource group without a flavor for `reason`, what each flavor refused for it has too little of; the
    flavor that misses the fewest resources first.

    All groups are those of one pod set, the one that misses the fewest. In a group one of the flavors has to do.
    """
    of_flavors: dict[tuple[str, str], list[FlavorEvidence]] = {}
    for row in rows:
        of_flavors.setdefault((row.pod_set, row.flavor), []).append(row)
    groups: dict[tuple[str, frozenset[str]], list[list[FlavorEvidence]]] = {}
    for (pod_set, _), flavor in of_flavors.items():
        groups.setdefault((pod_set, frozenset(row.resource for row in flavor)), []).append(flavor)
    of_pod_sets: dict[str, list[list[Lacks]]] = {}
    for (pod_set, _), flavors in groups.items():
        lacks = [found for flavor in flavors if (found := [row for row in flavor if _lacks(row, reason)])]
        if lacks and not any(map(_fits_in, flavors)):
            of_pod_sets.setdefault(pod_set, []).append(sorted(lacks, key=_distance))
    return min(of_pod_sets.values(), key=lambda groups: max(_distance(lacks[0]) for lacks in groups), default=[])


def nearest(rows: Sequence[FlavorEvidence], reason: str) -> list[FlavorEvidence]:
    """Of each resource group without a flavor for `reason`, the missing resources of the flavor that misses the
    fewest.
    """
    return [row for lacks in lacks_by_group(rows, reason) for row in lacks[0]]


def _lacks(row: FlavorEvidence, reason: str) -> bool:
    return row.reason == reason and row.requested > (row.limit if reason == reasons.EXCEEDS_MAX_QUOTA else row.free)


def _fits_in(flavor: Sequence[FlavorEvidence]) -> bool:
    return all(row.mode is Mode.FIT for row in flavor)


def _distance(lacks: Sequence[FlavorEvidence]) -> tuple[int, Fraction]:
    return len(lacks), max(map(_ratio, lacks))


def _ratio(row: FlavorEvidence) -> Fraction:
    return Fraction(row.requested, max(1, row.free if row.requested <= row.limit else row.limit))
