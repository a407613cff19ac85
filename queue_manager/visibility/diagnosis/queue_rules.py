"""Rules of `sluice doctor` on queues, flavors, checks and quotas that do not fit each other or the nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from job_controller.quantities import parse, to_text
from queue_manager.api import condition_types, reasons
from queue_manager.api.api_resources import RESOURCE_FLAVORS
from queue_manager.api.types import ClusterQueue, Cohort, ResourceFlavor, ResourceGroup, ResourceQuota
from queue_manager.visibility.diagnosis.problem import Problem, error, warning
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from queue_manager.visibility.node_fit import NodeFacts
from queue_manager.visibility.similar_names import similar_names, suggestion
from queue_manager.visibility.unlisted_queues import is_unlisted

GROUP_VERSION = RESOURCE_FLAVORS.api_version

MISSING_CLUSTER_QUEUE = "MissingClusterQueue"
MISSING_FLAVOR = "MissingFlavor"
MISSING_CHECK = "MissingAdmissionCheck"
FLAVOR_WITHOUT_NODES = "FlavorWithoutNodes"
QUOTA_ABOVE_NODES = "QuotaAboveNodes"
UNREACHABLE_BORROWING = "UnreachableBorrowingLimit"
INACTIVE_CLUSTER_QUEUE = "InactiveClusterQueue"
_EXPECTED = (reasons.READY, reasons.STOPPED, reasons.TERMINATING)  # what a user did on purpose


def missing_cluster_queues(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """LocalQueues whose ClusterQueue does not exist: their Jobs wait forever."""
    if snapshot.local_queues is None or snapshot.cluster_queues is None:
        return
    known = [queue.metadata.name for queue in snapshot.cluster_queues]
    for queue in snapshot.local_queues:
        wanted, meta = queue.spec.cluster_queue, queue.metadata
        if wanted not in known and not is_unlisted(queue, known):
            meant = similar_names(wanted, known)
            hint = f" ({suggestion(meant)})" if meant else ""
            yield error(
                MISSING_CLUSTER_QUEUE,
                f"localqueue/{meta.name} -n {meta.namespace}",
                f"ClusterQueue {wanted} does not exist{hint}, so no Job of this queue starts.",
                _renamed(meta.name, meta.namespace, meant[0] if meant else "CLUSTERQUEUE"),
            )


def missing_flavors(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """ClusterQueues that are inactive because they name a ResourceFlavor that does not exist."""
    if snapshot.cluster_queues is None or snapshot.flavors is None:
        return
    known = {flavor.metadata.name for flavor in snapshot.flavors}
    for queue in snapshot.cluster_queues:
        for name in _flavors_of(queue):
            if name not in known:
                near = similar_names(name, known - set(_flavors_of(queue)))  # a queue has a flavor once at most
                missing = f"ResourceFlavor {name} does not exist{f' ({suggestion(near)})' if near else ''}"
                yield error(
                    MISSING_FLAVOR,
                    f"clusterqueue/{queue.metadata.name}",
                    f"{missing}, so this queue admits nothing.",
                    _other_flavor(queue, name, near[0]) if near else f"echo '{_new_flavor(name)}' | kubectl apply -f -",
                )


def missing_checks(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """ClusterQueues that are inactive because an admission check does not exist, or no controller serves it."""
    if snapshot.cluster_queues is None or snapshot.checks is None:
        return
    checks = {check.metadata.name: check for check in snapshot.checks}
    for queue in snapshot.cluster_queues:
        strategy = queue.spec.admission_checks_strategy
        for rule in strategy.admission_checks if strategy is not None else ():
            check = checks.get(rule.name)
            if check is None or not check.active:
                state = "does not exist" if check is None else "is not active: its controller does not run"
                yield error(
                    MISSING_CHECK,
                    f"clusterqueue/{queue.metadata.name}",
                    f"AdmissionCheck {rule.name} {state}, so this queue admits nothing.",
                    f"kubectl edit clusterqueue {queue.metadata.name}"
                    if check is None
                    else f"kubectl describe admissioncheck {rule.name}",
                )


def inactive_cluster_queues(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """ClusterQueues that the manager reports as inactive, unless `missing_flavors` or `missing_checks` says why."""
    explained = {problem.place for rule in (missing_flavors, missing_checks) for problem in rule(snapshot)}
    for queue in snapshot.cluster_queues or ():
        place = f"clusterqueue/{queue.metadata.name}"
        active = next((c for c in queue.status.conditions if c.type == condition_types.ACTIVE), None)
        if active is None or active.is_true or active.reason in _EXPECTED or place in explained:
            continue
        said = active.message.removeprefix("Can't admit new workloads: ").rstrip(".") or active.reason
        is_cycle = active.reason == reasons.COHORT_CYCLE_DETECTED
        yield error(
            INACTIVE_CLUSTER_QUEUE,
            place,
            f"{said}, so this queue admits nothing.",
            (is_cycle and _cut(queue.spec.cohort_name, snapshot.cohorts or ()))
            or f"kubectl edit clusterqueue {queue.metadata.name}",
        )


def _cut(cohort: str, cohorts: Sequence[Cohort]) -> str:
    """The command that breaks the cycle above `cohort`, the same for all queues of the cycle; "" without a cycle.

    It removes the parent of a Cohort, and once it has none, changes nothing. One with limits is refused that: they need
    a parent.
    """
    known = {one.metadata.name: one for one in cohorts}
    way: list[str] = []
    while cohort in known and known[cohort].spec.parent_name and cohort not in way:
        way.append(cohort)
        cohort = known[cohort].spec.parent_name
    if cohort not in way:
        return ""
    cycle = sorted(way[way.index(cohort) :])
    chosen = next((name for name in cycle if not _has_limits(known[name])), "")
    change = '{"spec":{"parentName":null}}'
    return f"kubectl patch cohort {chosen} --type merge -p '{change}'" if chosen else f"kubectl edit cohort {cycle[0]}"


def _has_limits(cohort: Cohort) -> bool:
    quotas = (quota for group in cohort.spec.resource_groups for flavor in group.flavors for quota in flavor.resources)
    return any(quota.borrowing_limit is not None or quota.lending_limit is not None for quota in quotas)


def flavors_without_nodes(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Flavors in use whose labels no node has: pods that are admitted to them stay Pending."""
    if snapshot.cluster_queues is None or snapshot.flavors is None or snapshot.nodes is None:
        return
    used = {name for queue in snapshot.cluster_queues for name in _flavors_of(queue)}
    for flavor in snapshot.flavors:
        labels = flavor.spec.node_labels
        if flavor.metadata.name in used and labels and not nodes_of(flavor, snapshot.nodes):
            shown = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
            yield warning(
                FLAVOR_WITHOUT_NODES,
                f"resourceflavor/{flavor.metadata.name}",
                f"No node has the labels {shown}, so pods of Jobs admitted to it find no node.",
                f"kubectl label node NODE {shown.replace(',', ' ')}",
            )


def quotas_above_nodes(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Nominal quotas above what the nodes of the flavor have: Jobs are admitted whose pods then stay Pending."""
    if snapshot.cluster_queues is None or snapshot.flavors is None or snapshot.nodes is None:
        return
    flavors = {flavor.metadata.name: flavor for flavor in snapshot.flavors}
    for queue in snapshot.cluster_queues:
        for name, quota, path in _quotas(queue.spec.resource_groups):
            nodes = nodes_of(flavors[name], snapshot.nodes) if name in flavors else []
            have = _total(nodes, quota.name)
            if have is not None and parse(quota.nominal_quota, quota.name) > have:
                amount = to_text(have, quota.name)
                yield warning(
                    QUOTA_ABOVE_NODES,
                    f"clusterqueue/{queue.metadata.name}",
                    f"The quota of {quota.nominal_quota} {quota.name} in flavor {name} can never be used: "
                    f"the nodes of that flavor have {amount}.",
                    _patch(queue, f"{path}/nominalQuota", amount),
                )


def unreachable_borrowing(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Borrowing limits above what the rest of the cohort can lend."""
    if snapshot.cluster_queues is None or snapshot.cohorts is None:
        return
    parents = {cohort.metadata.name: cohort.spec.parent_name for cohort in snapshot.cohorts}
    pools: dict[tuple[str, str, str], int] = {}
    for root, groups, is_queue in _members(snapshot.cluster_queues, snapshot.cohorts, parents):
        for name, quota, _ in _quotas(groups):
            pool = (root, name, quota.name)
            pools[pool] = pools.get(pool, 0) + _lendable(quota, limited=is_queue)
    for queue in snapshot.cluster_queues:
        root = _root(queue.spec.cohort_name, parents)
        for name, quota, path in _quotas(queue.spec.resource_groups):
            if not root or quota.borrowing_limit is None:
                continue
            rest = pools[root, name, quota.name] - _lendable(quota, limited=True)
            if parse(quota.borrowing_limit, quota.name) > rest:
                lendable = to_text(rest, quota.name)
                yield warning(
                    UNREACHABLE_BORROWING,
                    f"clusterqueue/{queue.metadata.name}",
                    f"The borrowingLimit of {quota.borrowing_limit} {quota.name} in flavor {name} is out of reach: "
                    f"the rest of cohort {root} lends at most {lendable}.",
                    _patch(queue, f"{path}/borrowingLimit", lendable),
                )


def nodes_of(flavor: ResourceFlavor, nodes: Sequence[NodeFacts]) -> list[NodeFacts]:
    """The nodes with all labels of the flavor."""
    wanted = flavor.spec.node_labels.items()
    return [node for node in nodes if all(node.labels.get(key) == value for key, value in wanted)]


def _total(nodes: Sequence[NodeFacts], resource: str) -> int | None:
    """The sum over the nodes; None if none of them reports the resource, such as a licence that only quotas count."""
    amounts = [parse(node.allocatable[resource], resource) for node in nodes if resource in node.allocatable]
    return sum(amounts) if amounts else None


def _flavors_of(queue: ClusterQueue) -> list[str]:
    return list(dict.fromkeys(name for name, _, _ in _quotas(queue.spec.resource_groups)))


def _quotas(groups: Sequence[ResourceGroup]) -> Iterator[tuple[str, ResourceQuota, str]]:
    """Yield (name of the flavor, quota, JSON pointer of the quota in the object)."""
    for i, group in enumerate(groups):
        for j, flavor in enumerate(group.flavors):
            for k, quota in enumerate(flavor.resources):
                yield flavor.name, quota, f"/spec/resourceGroups/{i}/flavors/{j}/resources/{k}"


def _patch(queue: ClusterQueue, path: str, value: str) -> str:
    """The command that replaces one field of a ClusterQueue."""
    change = f'[{{"op":"replace","path":"{path}","value":"{value}"}}]'
    return f"kubectl patch clusterqueue {queue.metadata.name} --type json -p '{change}'"


def _renamed(name: str, namespace: str, cluster_queue: str) -> str:
    """The command that deletes and recreates a LocalQueue: the name of its ClusterQueue is immutable."""
    return (
        f"kubectl get localqueue {name} -n {namespace} -o yaml | "
        f"sed 's/^  clusterQueue: .*/  clusterQueue: {cluster_queue}/' | kubectl replace --force -f -"
    )


def _other_flavor(queue: ClusterQueue, name: str, other: str) -> str:
    """The command that replaces a flavor of a ClusterQueue by another one."""
    pointer = next(pointer for flavor, _, pointer in _quotas(queue.spec.resource_groups) if flavor == name)
    path = f"{pointer.rpartition('/resources/')[0]}/name"
    change = f'[{{"op":"replace","path":"{path}","value":"{other}"}}]'
    return f"kubectl patch clusterqueue {queue.metadata.name} --type json -p '{change}'"


def _new_flavor(name: str) -> str:
    return f'{{"apiVersion":"{GROUP_VERSION}","kind":"ResourceFlavor","metadata":{{"name":"{name}"}}}}'


def _members(
    queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort], parents: Mapping[str, str]
) -> Iterator[tuple[str, Sequence[ResourceGroup], bool]]:
    """Yield (root cohort, quotas, whether it is a ClusterQueue) of each ClusterQueue and Cohort."""
    for queue in queues:
        yield _root(queue.spec.cohort_name, parents), queue.spec.resource_groups, True
    for cohort in cohorts:
        yield _root(cohort.metadata.name, parents), cohort.spec.resource_groups, False


def _root(cohort: str, parents: Mapping[str, str]) -> str:
    """The root of the cohort's tree; "" without a cohort, or if the parents form a cycle."""
    seen: set[str] = set()
    while parents.get(cohort) and cohort not in seen:
        seen.add(cohort)
        cohort = parents[cohort]
    return "" if cohort in seen else cohort


def _lendable(quota: ResourceQuota, *, limited: bool) -> int:
    """The amount that others may borrow. Lending limits of Cohorts are ignored; they could only lower the sum."""
    nominal = parse(quota.nominal_quota, quota.name)
    if not limited or quota.lending_limit is None:
        return nominal
    return min(nominal, parse(quota.lending_limit, quota.name))
