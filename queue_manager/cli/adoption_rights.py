"""The rights that `sluice adopt` needs for all its changes.

They are checked before the first change: one that fails later would leave the cluster without a manager, and with
webhooks that refuse each new Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from job_controller.json_tree import Json
from queue_manager.adoption.kueue_installation import DEPLOYMENTS, Treatment
from queue_manager.api.api_resources import CRDS, NAMESPACES, SECRETS
from queue_manager.cli.adoption_reading import KueueCluster, is_rewritable, kind_of
from queue_manager.cli.own_rights import Right
from queue_manager.installation import object_names


def of_takeover(cluster: KueueCluster) -> Iterator[Right]:
    """Yield what `--apply` needs."""
    for crd in filter(is_rewritable, cluster.outdated):
        yield Right("update", kind_of(crd))
        yield Right("patch", CRDS, "", crd["metadata"]["name"], "status")
    for crd in cluster.needlessly_converted:
        yield Right("patch", CRDS, "", crd["metadata"]["name"])
    for item in cluster.installed:
        if item.treatment is Treatment.STOP:
            yield Right("patch", item.resource, item.namespace, item.name)
        yield Right("delete", item.resource, item.namespace, item.name)


def of_restoration(saved: Iterable[Json]) -> Iterator[Right]:
    """Yield what `--undo` needs. A right to create cannot be limited to a name."""
    for tree in saved:
        resource, meta = object_names.KINDS[tree["kind"]], tree["metadata"]
        namespace, name = str(meta.get("namespace") or ""), str(meta["name"])
        if resource == NAMESPACES:
            yield Right("patch", resource, "", name)
            continue
        yield Right("create", resource, namespace)
        if resource != SECRETS:  # one that exists is kept
            yield Right("update", resource, namespace, name)
        if resource == DEPLOYMENTS:
            yield Right("patch", resource, namespace, name)
            yield Right("delete", resource, namespace, name)
