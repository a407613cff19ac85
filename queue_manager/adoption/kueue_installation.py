"""Which objects of a cluster belong to an installation of Kueue, and what is done with each.

A webhook configuration or APIService whose manager does not run refuses every request that it covers. So they go
together with the manager, before Sluice brings its own. The Deployment goes too: Sluice's has the same name and another
selector, which cannot be changed. CustomResourceDefinitions stay: `sluice install` replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from job_controller.json_tree import Json
from queue_manager.api.api_resources import API_SERVICES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from queue_manager.api.component_names import VISIBILITY_GROUP, WEBHOOK_SERVICE

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
# Restored in this order, other kinds before them: a webhook is called as soon as it exists.
LAST_RESTORED = (DEPLOYMENTS, API_SERVICES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
INSTALLED_KINDS = (DEPLOYMENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, API_SERVICES)
# What the API server sets: a saved manifest is without it, so that it can be created again.
SERVER_FIELDS = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp")

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Treatment(StrEnum):
    """What is done with an object of Kueue's installation."""

    STOP = "scaled to 0, then deleted"
    DELETE = "deleted"


@dataclass(frozen=True)
class InstalledObject:
    """An object of Kueue's installation as it is on the cluster."""

    resource: Resource
    tree: Json
    treatment: Treatment

    @property
    def name(self) -> str:
        """metadata.name of the object."""
        return str(self.tree["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Its namespace, "" for a kind without namespaces."""
        return str(self.tree["metadata"].get("namespace") or "")


def installed_objects(resource: Resource, trees: Iterable[Json], namespace: str) -> Iterator[InstalledObject]:
    """Yield those objects of one kind that belong to Kueue. `namespace`: where its manager runs."""
    for tree in trees:
        if (treatment := _treatment(resource, tree, namespace)) is not None:
            yield InstalledObject(resource, tree, treatment)


def _treatment(resource: Resource, tree: Json, namespace: str) -> Treatment | None:
    """Return what is done with an object; None if it is not Kueue's."""
    if resource == DEPLOYMENTS:
        return Treatment.STOP if runs_kueue(tree) else None
    if resource == API_SERVICES:
        return Treatment.DELETE if tree["spec"].get("group") == VISIBILITY_GROUP else None
    return Treatment.DELETE if _calls_kueue(tree, namespace) else None


def runs_kueue(deployment: Json) -> bool:
    """Whether the Deployment runs Kueue's manager: by its label and the last part of an image's name."""
    labels = deployment["metadata"].get("labels") or {}
    containers = deployment["spec"]["template"]["spec"].get("containers") or ()
    images = (image_name(str(container.get("image") or "")) for container in containers)
    return labels.get("control-plane") == "controller-manager" and "kueue" in images


def image_name(image: str) -> str:
    """Return the last part of an image's name: "kueue" of "registry.k8s.io/kueue/kueue:v0.14.2@sha256:..."."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _calls_kueue(configuration: Json, namespace: str) -> bool:
    """Whether all webhooks of a configuration call the Service of Kueue's manager."""
    webhooks: Sequence[Json] = configuration.get("webhooks") or ()
    services = [(webhook.get("clientConfig") or {}).get("service") or {} for webhook in webhooks]
    return bool(services) and all(
        service.get("namespace") == namespace and service.get("name") == WEBHOOK_SERVICE for service in services
    )


def without_data(secret: Json) -> Json:
    """Return a Secret without what it keeps secret. kubectl's annotation may repeat the data."""
    meta, hidden = secret["metadata"], ("data", "stringData")
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key != LAST_APPLIED}
    rest = {name: value for name, value in secret.items() if name not in hidden}
    return {**rest, "metadata": {**meta, "annotations": annotations}}


def manifest(resource: Resource, tree: Json) -> Json:
    """Return what restores the object: without status and without the fields that the API server sets."""
    meta = {name: value for name, value in tree["metadata"].items() if name not in SERVER_FIELDS}
    rest = {name: value for name, value in tree.items() if name not in ("status", "metadata")}
    return {**rest, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
