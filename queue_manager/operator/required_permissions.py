"""The table of verbs that each controller uses on each resource.

The permission checks at the start of `sluice manager` and the rules of its ClusterRole are generated from this table.
A controller that starts to use a verb needs an entry here: the tests against a real API server run with exactly these
permissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from queue_manager.api.component_names import PUBLISHED_CONFIG

JOB_CONTROLLER, QUEUE = "job-controller", "queue"
ALL = (JOB_CONTROLLER, QUEUE)
READ = ("list", "watch")


@dataclass(frozen=True, slots=True)
class Need:
    """Verbs on a resource, or on one of its subresources. `names`: only on objects of these names; (): on all."""

    resource: Resource
    verbs: tuple[str, ...]
    subresource: str = ""
    names: tuple[str, ...] = ()

    @property
    def is_of_namespace(self) -> bool:
        """Whether a Role can grant it: verbs on namespaced objects, or `get` of the Namespace that the Role is in."""
        return self.resource.namespaced or (self.resource == NAMESPACES and self.verbs == ("get",))

    @property
    def name(self) -> str:
        """The resource as an RBAC rule names it, e.g. `jobs/status`."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural


NEEDS: Mapping[str, tuple[Need, ...]] = MappingProxyType(
    {
        JOB_CONTROLLER: (
            Need(JOBS, ("get", "delete", *READ)),  # delete: ttlSecondsAfterFinished, with manage: All
            Need(JOBS, ("patch",), "status"),
            # The admission plugin OwnerReferencesPermissionEnforcement requires this verb to set blockOwnerDeletion on
            # the owner references of pods.
            Need(JOBS, ("update",), "finalizers"),
            Need(PODS, ("create", "delete", "patch", *READ)),
            Need(EVENTS, ("create", "patch")),
        ),
        QUEUE: (
            Need(JOBS, ("get", "patch", "delete", *READ)),
            Need(JOBS, ("update",), "finalizers"),
            Need(WORKLOADS, ("get", "create", "patch", "delete", *READ)),
            Need(WORKLOADS, ("patch",), "status"),
            Need(CLUSTER_QUEUES, ("patch", *READ)),
            Need(CLUSTER_QUEUES, ("patch",), "status"),
            Need(LOCAL_QUEUES, READ),
            Need(LOCAL_QUEUES, ("patch",), "status"),
            Need(COHORTS, READ),
            Need(COHORTS, ("patch",), "status"),  # the share, with fairSharing
            Need(RESOURCE_FLAVORS, ("patch", *READ)),
            Need(WORKLOAD_PRIORITY_CLASSES, READ),
            Need(PRIORITY_CLASSES, READ),
            Need(ADMISSION_CHECKS, READ),
            Need(NAMESPACES, READ),
            Need(LIMIT_RANGES, READ),
            Need(RUNTIME_CLASSES, READ),
            Need(PODS, READ),
            Need(EVENTS, ("create", "list", "patch")),  # list: why the API server refuses the pods of a Job
        ),
    }
)


# Granted by a Role in the namespace of the Lease, not cluster-wide: Leases elsewhere are the heartbeats of nodes and
# the locks of other controllers.
LEADER = Need(LEASES, ("get", "create", "update"))


# Events about objects without a namespace (ClusterQueues, ResourceFlavors) are in this one. A manager of listed
# namespaces needs a Role there.
CLUSTER_EVENTS_NAMESPACE = "default"
CLUSTER_EVENTS = Need(EVENTS, ("create", "patch"))

# Where the queue publishes its configuration: in kube-public, or in each of the listed namespaces. The installation
# makes the ConfigMap, so that the queue needs no right to create any. Without this right it logs a warning.
PUBLICATION = Need(CONFIG_MAPS, ("get", "patch"), names=(PUBLISHED_CONFIG,))

# Of a manager with Roles only, in each of its namespaces: the verb on a Namespace that a Role in it can grant.
OWN_NAMESPACE = Need(NAMESPACES, ("get",))


def needs(controllers: Iterable[str]) -> list[Need]:
    """Merge the needs of these controllers: each resource once, verbs and resources in order of first use."""
    verbs: dict[tuple[Resource, str], dict[str, None]] = {}
    for controller in controllers:
        for need in NEEDS[controller]:
            verbs.setdefault((need.resource, need.subresource), {}).update(dict.fromkeys(need.verbs))
    return [Need(resource, tuple(those), subresource) for (resource, subresource), those in verbs.items()]


def custom_resources(needed: Iterable[Need]) -> list[Resource]:
    """Return the custom resources whose CRDs these needs require."""
    found = dict.fromkeys(need.resource for need in needed)
    return [resource for resource in found if resource.group == WORKLOADS.group]


def rules(controllers: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rules of a ClusterRole that grants these controllers exactly what they need."""
    return [rule(need) for need in needs(controllers)]


def rule(need: Need) -> dict[str, Any]:
    """Return the RBAC rule that grants a need."""
    named = {"resourceNames": sorted(need.names)} if need.names else {}
    return {"apiGroups": [need.resource.group], "resources": [need.name], **named, "verbs": sorted(need.verbs)}


def each_verb(needed: Iterable[Need]) -> Iterator[tuple[Need, str]]:
    """Yield each need once per verb."""
    for need in needed:
        for verb in need.verbs:
            yield need, verb
