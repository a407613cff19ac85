"""Whether the user may make all changes of `sluice adopt`: one that fails in the middle leaves the cluster without a
manager, and with webhooks that refuse each new Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from job_controller.json_tree import Json
from queue_manager.adoption.kueue_installation import DEPLOYMENTS, Treatment
from queue_manager.api.api_resources import CRDS, NAMESPACES, SECRETS
from queue_manager.cli.adoption_reading import KueueCluster, is_rewritable, kind_of
from queue_manager.cli.own_rights import Access
from queue_manager.installation import object_names


def of_takeover(cluster: KueueCluster) -> Iterator[Access]:
    """Yield what `--apply` needs."""
    for crd in filter(is_rewritable, cluster.outdated):
        yield Access("update", kind_of(crd))
        yield Access("patch", CRDS, "", crd["metadata"]["name"], "status")
    for item in cluster.installed:
        if item.treatment is Treatment.STOP:
            yield Access("patch", item.resource, item.namespace, item.name)
        yield Access("delete", item.resource, item.namespace, item.name)


def of_restoration(saved: Iterable[Json]) -> Iterator[Access]:
    """Yield what `--undo` needs. A right to create cannot be limited to a name."""
    for tree in saved:
        resource, meta = object_names.KINDS[tree["kind"]], tree["metadata"]
        namespace, name = str(meta.get("namespace") or ""), str(meta["name"])
        if resource == NAMESPACES:
            yield Access("patch", resource, "", name)
            continue
        yield Access("create", resource, namespace)
        if resource != SECRETS:  # one that exists is kept
            yield Access("update", resource, namespace, name)
        if resource == DEPLOYMENTS:
            yield Access("patch", resource, namespace, name)
            yield Access("delete", resource, namespace, name)
