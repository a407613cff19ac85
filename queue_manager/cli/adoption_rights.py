"""Whether the user may make all changes of `sluice adopt`: one that fails in the middle leaves the cluster without a
manager, and with webhooks that refuse each new Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from job_controller.json_tree import Json
from queue_manager.adoption.kueue_installation import DEPLOYMENTS, Treatment
from queue_manager.api.resources import CRDS, NAMESPACES, SECRETS, Resource
from queue_manager.cli.adoption_reading import KueueCluster, is_rewritable, kind_of
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation import object_names

REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)


class Access(NamedTuple):
    """One right: a verb on an object; `name` is "" for all objects of the kind."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}{f'/{self.subresource}' if self.subresource else ''} {self.name}".strip()
        return f"{self.verb} {what}{f' in namespace {self.namespace}' if self.namespace else ''}"


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


async def check(client: RestClient, wanted: Iterable[Access]) -> None:
    """Raise CommandRefused with every right that the user lacks."""
    denied = [each for each in dict.fromkeys(wanted) if not await _is_allowed(client, each)]
    if denied:
        raise CommandRefused(f"you lack these rights, so nothing was changed: {'; '.join(map(str, denied))}")


async def _is_allowed(client: RestClient, access: Access) -> bool:
    attributes = {
        "verb": access.verb,
        "group": access.resource.group,
        "version": access.resource.version,
        "resource": access.resource.plural,
        "subresource": access.subresource,
        "namespace": access.namespace,
        "name": access.name,
    }
    review = await client.create(REVIEWS, "", {"spec": {"resourceAttributes": attributes}})
    return bool(review["status"].get("allowed"))
