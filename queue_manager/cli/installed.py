"""The objects of an installation on a cluster, found by their label."""

from __future__ import annotations

from typing import TypeAlias

from job_controller.json_tree import Json
from queue_manager.api.resources import CRDS, Resource
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport import ApiError
from queue_manager.installation import object_names
from queue_manager.installation.upgrade_changes import Release, release_of

Live: TypeAlias = tuple[Resource, Json]


def is_installed(obj: Json) -> bool:
    """Whether an object belongs to an installation of Sluice."""
    return bool((obj["metadata"].get("labels") or {}).get(object_names.NAME_LABEL) == object_names.NAME)


async def installed(client: RestClient) -> list[Live]:
    """Return all objects with the label of an installation, by kind in the order of `object_names.KINDS`."""
    kinds = object_names.KINDS.values()
    return [(kind, obj) for kind in kinds for obj in await all_of_kind(client, kind, object_names.SELECTOR)]


def releases(found: list[Live]) -> list[Release]:
    """Return the Helm releases of an installation.

    CRDs do not count: those that `helm uninstall` keeps still name a release that is gone.
    """
    return sorted({release for resource, obj in found if resource != CRDS and (release := release_of(obj))})


async def all_of_kind(client: RestClient, resource: Resource, label_selector: str = "") -> list[Json]:
    """Return the objects of a kind; none if the cluster does not serve it."""
    try:
        return await client.list(resource, label_selector=label_selector)
    except ApiError as error:
        if error.is_not_found:
            return []
        raise
