"""The queue of a new cluster: a LocalQueue, its ClusterQueue and its ResourceFlavor.

The names are those of Kueue's introduction, and the objects carry the annotation of `kubectl apply`, so that the
manifests of its documentation can be applied over them.

The objects are created once in the life of a cluster and not again after a user deletes them. An annotation on the
namespace of the LocalQueue records that they were created. It is written last, so the next start completes a creation
that failed halfway.

The quota of the ClusterQueue is what the nodes have minus the quotas of all other ClusterQueues and of Cohorts, so this
queue never raises the sum above the nodes. It is recomputed when the nodes (at a restart) or those others change, until
another client changes the quota or applies a manifest over it. Each change is recorded as an Event on the ClusterQueue
with the calculation; one that leaves nothing of a resource is also logged as a warning.

Inactive ClusterQueues count as well. One becomes active without a change of its own as soon as its flavor is created or
its admission check is ready, and its quota would then be given out twice.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tenacity import AsyncRetrying, retry_if_exception

from job_controller import quantities
from job_controller.json_tree import Json
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    Resource,
)
from queue_manager.api.keys import API_VERSION, QUOTA_OF_NODES
from queue_manager.api.types import ClusterQueue, Cohort
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.local.apply.server_side_apply import LAST_APPLIED

log = logging.getLogger(__name__)

FLAVOR = "default-flavor"
CLUSTER_QUEUE = "cluster-queue"
LOCAL_QUEUE = "user-queue"
NAMESPACE = "default"
DONE = "sluice/first-queue"  # annotation
COMPONENT = "first-queue"
QUOTA_CHANGED = "QuotaChanged"  # reason of the Event
MAX_NAMES = 5  # of others in its message


class NodeQuota(NamedTuple):
    """The resources of the nodes that become the quota of the first queue, as canonical quantities."""

    cpu: str
    memory: str

    def __str__(self) -> str:
        return f"{self.cpu} cpu, {self.memory} memory"


class FirstQueue:
    """Creates the first queue and keeps its quota up to date. Construct it before the runtime starts."""

    def __init__(self, runtime: Runtime, nodes: NodeQuota) -> None:
        """`nodes`: the sum of the resources of all nodes."""
        self._client = runtime.client
        self._events = runtime.recorder(COMPONENT)
        self._nodes = nodes
        self._ensured = False
        self._queue: WorkQueue[str] = WorkQueue("first-queue", metrics=runtime.metrics)
        runtime.cache(CLUSTER_QUEUES, ClusterQueue).subscribe(self._on_quotas)
        runtime.cache(COHORTS, Cohort).subscribe(self._on_quotas)
        runtime.worker(self._queue, self._sync)

    async def ensure(self) -> NodeQuota | None:
        """Create the queue unless this cluster has had it or has LocalQueues; otherwise update its quota.

        Returns the quota if the queue was created or updated, otherwise None.
        """
        self._ensured = True  # from now on changes of other queues update the quota
        home = await self._client.get(NAMESPACES, "", NAMESPACE)
        if DONE in home["metadata"].get("annotations", {}):
            return await self._follow()
        wanted = not await self._client.list(LOCAL_QUEUES)
        if wanted:
            await create_first_queue(self._client, *self._nodes)
        await self._client.patch(NAMESPACES, "", NAMESPACE, {"metadata": {"annotations": {DONE: LOCAL_QUEUE}}})
        return self._nodes if wanted else None

    def _on_quotas(self, old: ClusterQueue | Cohort | None, new: ClusterQueue | Cohort | None) -> None:
        if self._ensured and (old is None or new is None or old.spec != new.spec):
            self._queue.add(CLUSTER_QUEUE)

    async def _sync(self, name: str) -> None:
        await self._follow()

    async def _follow(self) -> NodeQuota | None:
        """Set the quota to what is left, unless another client has changed it. Returns the new quota if it changed.

        After a conflict with another write, often one of the queue's status, everything is read and computed again.
        """
        found: NodeQuota | None = await AsyncRetrying(retry=retry_if_exception(_is_conflict))(self._follow_once)
        return found

    async def _follow_once(self) -> NodeQuota | None:
        queues = {queue["metadata"]["name"]: queue for queue in await self._client.list(CLUSTER_QUEUES)}
        first = queues.pop(CLUSTER_QUEUE, None)
        given = given_quota(first) if first is not None else None
        others = queues | {f"Cohort {each['metadata']['name']}": each for each in await self._client.list(COHORTS)}
        left = left_over(self._nodes, others.values())
        if first is None or given is None or given == left:
            return None
        wanted = _cluster_queue(left)
        metadata = {
            "annotations": wanted["metadata"]["annotations"],
            "resourceVersion": first["metadata"]["resourceVersion"],
        }
        spec = {"resourceGroups": wanted["spec"]["resourceGroups"]}
        patch = {"metadata": metadata, "spec": spec}
        changed = await self._client.patch(CLUSTER_QUEUES, "", CLUSTER_QUEUE, patch, type=ClusterQueue)
        self._report(changed, left, others)
        return left

    def _report(self, queue: ClusterQueue, quota: NodeQuota, others: Mapping[str, Json]) -> None:
        message = quota_message(quota, self._nodes, others)
        is_used_up = "0" in quota
        self._events.event(queue, "Warning" if is_used_up else "Normal", QUOTA_CHANGED, message)
        if is_used_up:
            log.warning("nothing is left for the first queue", extra={"key": CLUSTER_QUEUE, "quota": message})


def quota_message(quota: NodeQuota, nodes: NodeQuota, others: Mapping[str, Json]) -> str:
    """Return a sentence that says how the quota of the first queue was calculated.

    `nodes`: what the nodes have. `others`: all other ClusterQueues, and Cohorts, by name.
    """
    if not others:
        return f"quota is {quota}: all that the nodes have"
    names = ", ".join(sorted(others)[:MAX_NAMES])
    more = f" and {len(others) - MAX_NAMES} more" if len(others) > MAX_NAMES else ""
    return (
        f"quota is {quota}: the nodes have {nodes}, other ClusterQueues, active or not, and Cohorts have "
        f"{taken(others.values())} ({names}{more})"
    )


def _is_conflict(error: BaseException) -> bool:
    return isinstance(error, ApiError) and error.is_conflict


def given_quota(queue: Json) -> NodeQuota | None:
    """The quota that Sluice set on the first queue; None if another client has changed it since."""
    texts = (queue["metadata"].get("annotations") or {}).get(QUOTA_OF_NODES, "").split()
    if len(texts) != 2 or queue["spec"].get("resourceGroups") != _groups(NodeQuota(*texts)):
        return None
    return NodeQuota(*texts)


def left_over(nodes: NodeQuota, others: Iterable[Json]) -> NodeQuota:
    """The resources of the nodes minus the quotas of other ClusterQueues and of Cohorts, at least 0."""
    total, used = nodes._asdict(), taken(others)._asdict()
    left = {name: quantities.parse(text, name) - quantities.parse(used[name], name) for name, text in total.items()}
    return NodeQuota(**{name: quantities.to_text(max(0, amount), name) for name, amount in left.items()})


def taken(queues: Iterable[Json]) -> NodeQuota:
    """The sum of the nominal quotas of all flavors of these ClusterQueues and Cohorts."""
    sums = dict.fromkeys(NodeQuota._fields, 0)
    for queue in queues:
        for group in (queue.get("spec") or {}).get("resourceGroups") or ():
            for flavor in group["flavors"]:
                for resource in flavor["resources"]:
                    if (name := resource["name"]) in sums:
                        sums[name] += quantities.parse(resource["nominalQuota"], name)
    return NodeQuota(**{name: quantities.to_text(amount, name) for name, amount in sums.items()})


async def create_first_queue(client: RestClient, cpu: str, memory: str) -> None:
    """Create flavor, ClusterQueue and LocalQueue `default/user-queue` with this quota; existing objects are kept."""
    flavor = {"apiVersion": API_VERSION, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}}
    await _create(client, RESOURCE_FLAVORS, "", _as_applied(flavor))
    await _create(client, CLUSTER_QUEUES, "", _cluster_queue(NodeQuota(cpu, memory)))
    local_queue = {
        "apiVersion": API_VERSION,
        "kind": "LocalQueue",
        "metadata": {"name": LOCAL_QUEUE, "namespace": NAMESPACE},
        "spec": {"clusterQueue": CLUSTER_QUEUE},
    }
    await _create(client, LOCAL_QUEUES, NAMESPACE, _as_applied(local_queue))


def _cluster_queue(quota: NodeQuota) -> Json:
    metadata = {"name": CLUSTER_QUEUE, "annotations": {QUOTA_OF_NODES: " ".join(quota)}}
    spec = {"namespaceSelector": {}, "resourceGroups": _groups(quota)}
    return _as_applied({"apiVersion": API_VERSION, "kind": "ClusterQueue", "metadata": metadata, "spec": spec})


def _as_applied(manifest: Json) -> Json:
    """The manifest with the annotation that `kubectl apply` compares with, to remove fields dropped later."""
    annotations = manifest["metadata"].get("annotations", {})
    applied = _annotated(manifest, annotations)
    text = json.dumps(applied, separators=(",", ":"), sort_keys=True) + "\n"  # byte for byte as kubectl writes it
    return _annotated(manifest, {**annotations, LAST_APPLIED: text})


def _annotated(manifest: Json, annotations: Json) -> Json:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def _groups(quota: NodeQuota) -> list[dict[str, Any]]:
    resources = [{"name": name, "nominalQuota": text} for name, text in quota._asdict().items()]
    return [{"coveredResources": list(NodeQuota._fields), "flavors": [{"name": FLAVOR, "resources": resources}]}]


async def _create(client: RestClient, resource: Resource, namespace: str, obj: Json) -> None:
    try:
        await client.create(resource, namespace, obj)
    except ApiError as error:
        if not error.is_name_taken:
            raise
