"""The visibility API of Kueue: the pending Workloads of a queue in order, a page at a time. Pure.

    /apis/visibility.kueue.x-k8s.io/VERSION/clusterqueues/NAME/pendingworkloads
    /apis/visibility.kueue.x-k8s.io/VERSION/namespaces/NAMESPACE/localqueues/NAME/pendingworkloads
    /apis/visibility.kueue.x-k8s.io/VERSION/namespaces/NAMESPACE/localqueues/NAME/explanation

Query: `limit` (DEFAULT_LIMIT, at most MAX_LIMIT) and `offset`. Positions count from 0. The page of a LocalQueue lists
only its own Workloads, with their positions among all of the ClusterQueue. The last path, which Kueue does not have, is
answered by `served_explanation`. The embedded API server mounts the group; the manager serves it to the aggregation
layer of a real one. Kueue: pkg/visibility, KEP-168-2; BEHAVIOUR.md#q52-positions-of-pending-workloads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Key, ObjectMeta
from queue_manager.api.component_names import VISIBILITY_GROUP
from queue_manager.api.types import Workload
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.workload_info import Info

GROUP = VISIBILITY_GROUP
VERSIONS = ("v1beta2", "v1beta1")  # the preferred one first
KIND = "PendingWorkloadsSummary"
PENDING, EXPLANATION = "pendingworkloads", "explanation"  # subresources
EXPLANATION_KIND = "WorkloadExplanation"
DEFAULT_LIMIT, MAX_LIMIT = 1000, 100_000


class Answer(NamedTuple):
    """Status code and JSON body of a response."""

    status: int
    body: Json


class PendingItem(msgspec.Struct, frozen=True, rename="camel"):
    """A pending Workload in a page, with the fields that our own readers use."""

    metadata: ObjectMeta
    position_in_cluster_queue: int
    position_in_local_queue: int


class PendingPage(msgspec.Struct, frozen=True):
    """A PendingWorkloadsSummary as its readers decode it."""

    items: list[PendingItem]


def local_queue_path(queue: Key) -> str:
    """The path of a LocalQueue's pending Workloads in the preferred version."""
    return _local_queue_path(queue, PENDING)


def explanation_path(queue: Key) -> str:
    """The path of explanations of a LocalQueue's Workloads in the preferred version."""
    return _local_queue_path(queue, EXPLANATION)


def _local_queue_path(queue: Key, subresource: str) -> str:
    return f"/apis/{GROUP}/{VERSIONS[0]}/namespaces/{queue.namespace}/localqueues/{queue.name}/{subresource}"


class QueuePath(NamedTuple):
    """A queue, and which subresource of it a path names. `namespace` "": a ClusterQueue."""

    version: str
    namespace: str
    name: str
    subresource: str

    @property
    def resource(self) -> str:
        """The resource name as in RBAC rules, without the subresource."""
        return "localqueues" if self.namespace else "clusterqueues"


def parse(path: str) -> QueuePath | None:
    """The queue and the subresource that a path names; None for every other path."""
    match path.strip("/").split("/"):
        case ["apis", group, version, "clusterqueues" as plural, name, sub] if _is_ours(group, version, plural, sub):
            return QueuePath(version, "", name, sub)
        case ["apis", group, version, "namespaces", namespace, "localqueues" as plural, name, sub] if (
            _is_ours(group, version, plural, sub) and namespace
        ):
            return QueuePath(version, namespace, name, sub)
    return None


def _is_ours(group: str, version: str, plural: str, subresource: str) -> bool:
    return group == GROUP and version in VERSIONS and subresource in SUBRESOURCES[plural]


class PendingSummaries:
    """Answers with the pending Workloads at the time of the request."""

    def __init__(self, queues: Queues, workload: Callable[[Key], Workload | None]) -> None:
        """`workload` returns the cached object of a pending Workload, or None."""
        self._queues = queues
        self._workload = workload

    def answer(self, path: str, query: Mapping[str, str]) -> Answer | None:
        """The page for a path and its query, or a Status; None if the path names no pending Workloads."""
        asked = parse(path)
        if asked is None or asked.subresource != PENDING:
            return None
        try:
            limit, offset = (_number(query, *option) for option in (("limit", DEFAULT_LIMIT), ("offset", 0)))
        except ValueError as error:
            return failure(400, "BadRequest", str(error))
        found = self._of_local_queue(asked) if asked.namespace else self._of_cluster_queue(asked.name)
        if found is None:
            return not_found(asked.resource.removesuffix("s"), asked.name)
        items = [*islice(found, offset, offset + min(limit, MAX_LIMIT))]
        head = {"kind": KIND, "apiVersion": f"{GROUP}/{asked.version}", "metadata": {}}
        return Answer(200, {**head, "items": items})

    def _of_cluster_queue(self, name: str) -> Iterator[Json] | None:
        pending = self._queues.cluster_queues.get(name)
        return self._items(pending.in_order()) if pending is not None else None

    def _of_local_queue(self, asked: QueuePath) -> Iterator[Json] | None:
        key = Key(asked.namespace, asked.name)
        local = self._queues.local_queues.get(key)
        pending = self._queues.cluster_queues.get(local.spec.cluster_queue) if local is not None else None
        return self._items(pending.in_order(), key) if pending is not None else None

    def _items(self, infos: Iterator[Info], only: Key | None = None) -> Iterator[Json]:
        in_queue = Counter[Key]()
        for position, info in enumerate(infos):
            if only is None or info.queue == only:
                yield _item(info, self._workload(info.key), position, in_queue[info.queue])
            in_queue[info.queue] += 1


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    """Parse a query parameter as a number. Raises ValueError for anything but digits, as Kubernetes does."""
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _item(info: Info, workload: Workload | None, position: int, local_position: int) -> Json:
    return {
        "metadata": {"name": info.key.name, "namespace": info.key.namespace, **_metadata(workload)},
        "priority": info.priority,
        "localQueueName": info.queue.name,
        "positionInClusterQueue": position,
        "positionInLocalQueue": local_position,
    }


def _metadata(workload: Workload | None) -> Json:
    if workload is None:
        return {}
    owners = msgspec.to_builtins(workload.metadata.owner_references)
    created = msgspec.to_builtins(workload.metadata.creation_timestamp)
    return {"creationTimestamp": created, **({"ownerReferences": owners} if owners else {})}


def failure(status: int, reason: str, message: str, details: Json = None) -> Answer:
    """A Status object that reports an error."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return Answer(status, {**body, "reason": reason, **({"details": details} if details else {}), "code": status})


def not_found(kind: str, name: str) -> Answer:
    """A Status object that reports that an object does not exist. `kind`: in lower case."""
    details = {"name": name, "group": GROUP, "kind": kind}
    return failure(404, "NotFound", f'{kind}.{GROUP} "{name}" not found', details)


# --- discovery ---------------------------------------------------------------------------------------------

SUBRESOURCES = {  # with the kinds of their responses, by plural
    "clusterqueues": {PENDING: KIND},
    "localqueues": {PENDING: KIND, EXPLANATION: EXPLANATION_KIND},
}
_NAMESPACED = ("localqueues",)


def _entries(plural: str) -> list[Json]:
    namespaced = plural in _NAMESPACED
    entry = {"name": plural, "singularName": plural.removesuffix("s"), "namespaced": namespaced, "kind": KIND}
    subs = [
        {"name": f"{plural}/{sub}", "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get"]}
        for sub, kind in SUBRESOURCES[plural].items()
    ]
    return [{**entry, "verbs": []}, *subs]


def _described(plural: str) -> Json:
    def kind(name: str) -> Json:
        return {"group": "", "version": "", "kind": name}

    return {
        "resource": plural,
        "responseKind": kind(KIND),
        "scope": "Namespaced" if plural in _NAMESPACED else "Cluster",
        "singularResource": plural.removesuffix("s"),
        "verbs": [],
        "subresources": [
            {"subresource": sub, "responseKind": kind(name), "verbs": ["get"]}
            for sub, name in SUBRESOURCES[plural].items()
        ],
    }


def described() -> list[Json]:
    """The entries of the visibility API in aggregated discovery (APIGroupDiscovery)."""
    return [_described(plural) for plural in SUBRESOURCES]


def resources() -> list[Json]:
    """The entries of the group's APIResourceList."""
    return [entry for plural in SUBRESOURCES for entry in _entries(plural)]


def resource_list(version: str) -> Json:
    """The APIResourceList of one version."""
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{version}"}
    return {**head, "resources": resources()}


def group_document() -> Json:
    """The group as an entry of an APIGroupList."""
    versions = [{"groupVersion": f"{GROUP}/{version}", "version": version} for version in VERSIONS]
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}
