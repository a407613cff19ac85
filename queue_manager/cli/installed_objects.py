"""The objects of an installation on a cluster, found by their label.

An installation with Roles only (`--cluster-objects`) is read with rights in its namespaces alone.
BEHAVIOUR.md#q165-upgrade-and-removal-with-roles-only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from job_controller.json_tree import Json
from queue_manager.api.api_resources import CONFIG_MAPS, CRDS, Resource
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.installation import object_names
from queue_manager.installation.upgrade_changes import Release, release_of

Live: TypeAlias = tuple[Resource, Json]
MANAGED = "--namespace="  # the flag of a manager, once for each namespace


def is_installed(obj: Json) -> bool:
    """Whether an object belongs to an installation of Sluice."""
    return bool((obj["metadata"].get("labels") or {}).get(object_names.NAME_LABEL) == object_names.NAME)


@dataclass(frozen=True, slots=True)
class RolesOnly:
    """Where an installation with Roles only is: in its namespace, with Roles in the others that it manages."""

    namespace: str
    others: Sequence[str] = ()

    @property
    def namespaces(self) -> Sequence[str]:
        """All its namespaces."""
        return (self.namespace, *self.others)

    def places(self) -> Iterator[tuple[Resource, str]]:
        """Yield each kind of its objects with a namespace that may have some."""
        for kind in object_names.KINDS.values():
            if kind.namespaced:
                yield kind, self.namespace
            if kind.namespaced and (kind.group == object_names.RBAC or kind == CONFIG_MAPS):
                yield from ((kind, other) for other in self.others)


def roles_only(namespace: str, managed: Sequence[str]) -> RolesOnly:
    """Return the place of an installation with Roles only that manages these namespaces."""
    return RolesOnly(namespace, [each for each in dict.fromkeys(managed) if each != namespace])


async def find_roles_only(client: RestClient, namespace: str) -> RolesOnly | None:
    """Return the installation with Roles only in a namespace; None if it is absent, or may not be read.

    It has a ConfigMap with cluster objects, and its Deployment names the namespaces that it manages.
    """
    if await _get(client, CONFIG_MAPS, namespace, object_names.OBJECTS_MAP) is None:
        return None
    deployment = await _get(client, object_names.KINDS["Deployment"], namespace, object_names.MANAGER)
    containers = deployment["spec"]["template"]["spec"]["containers"] if deployment is not None else ()
    flags = [flag for container in containers for flag in container.get("args") or ()]
    managed = [flag.removeprefix(MANAGED) for flag in flags if flag.startswith(MANAGED)]
    return roles_only(namespace, managed)


async def _get(client: RestClient, resource: Resource, namespace: str, name: str) -> Json | None:
    """Return an object of an installation, or None if it is absent or forbidden."""
    try:
        found = await client.get(resource, namespace, name)
    except ApiError as error:
        if error.is_not_found or error.is_forbidden:
            return None
        raise
    return found if is_installed(found) else None


async def installed(client: RestClient, where: RolesOnly | None = None) -> list[Live]:
    """Return all objects with the label of an installation, by kind in the order of `object_names.KINDS`.

    Those of installations with Roles only belong to their namespaces, and not to the one for the whole cluster.
    `where`: only those of an installation with Roles only, which has no optional kinds that its owner may not list.
    """
    if where is None:
        return without_roles_only(await all_installed(client))
    found: list[Live] = []
    for kind, namespace in where.places():
        try:
            objects = await all_of_kind(client, kind, object_names.SELECTOR, namespace)
        except ApiError as error:
            if not (error.is_forbidden and kind.group in object_names.OF_OPERATORS):
                raise
            continue
        found += [(kind, obj) for obj in objects if namespace == where.namespace or _may_be_elsewhere(kind, obj)]
    return found


async def all_installed(client: RestClient) -> list[Live]:
    """Return all objects with the label, also those of installations with Roles only."""
    return [live for kind in object_names.KINDS.values() for live in await _in_some_version(client, kind)]


async def _in_some_version(client: RestClient, kind: Resource) -> list[Live]:
    """Return the installed objects of a kind, in the newest version that the cluster serves with some."""
    for resource in object_names.versions_of(kind):
        if objects := await all_of_kind(client, resource, object_names.SELECTOR):
            return [(resource, obj) for obj in objects]
    return []


def _may_be_elsewhere(kind: Resource, obj: Json) -> bool:
    """Whether an installation with Roles only has such an object in its other namespaces."""
    return kind.group == object_names.RBAC or obj["metadata"]["name"] == object_names.PUBLISHED_CONFIG


def roles_only_homes(found: Sequence[Live]) -> list[str]:
    """Return the namespaces of the managers with Roles only."""
    return sorted(
        obj["metadata"]["namespace"]
        for kind, obj in found
        if kind == CONFIG_MAPS and obj["metadata"]["name"] == object_names.OBJECTS_MAP
    )


def without_roles_only(found: Sequence[Live]) -> list[Live]:
    """Return the objects that belong to no installation with Roles only. Its Roles in other namespaces are those that
    are bound to its service accounts, and the configuration that is published beside them.
    """
    homes = roles_only_homes(found)
    bindings = [
        (obj["metadata"]["namespace"], obj["metadata"]["name"], obj["roleRef"]["name"])
        for kind, obj in found
        if kind.kind == "RoleBinding" and any(s.get("namespace") in homes for s in obj.get("subjects") or ())
    ]
    theirs = {("RoleBinding", namespace, name) for namespace, name, _ in bindings}
    theirs |= {("Role", namespace, role) for namespace, _, role in bindings}
    theirs |= {(CONFIG_MAPS.kind, namespace, object_names.PUBLISHED_CONFIG) for namespace, _, _ in bindings}

    def is_theirs(kind: Resource, meta: Json) -> bool:
        namespace = meta.get("namespace", "")
        return namespace in homes or (kind.kind, namespace, meta["name"]) in theirs

    return [(kind, obj) for kind, obj in found if not is_theirs(kind, obj["metadata"])]


def releases(found: list[Live]) -> list[Release]:
    """Return the Helm releases of an installation.

    CRDs do not count: those that `helm uninstall` keeps still name a release that is gone.
    """
    return sorted({release for resource, obj in found if resource != CRDS and (release := release_of(obj))})


async def all_of_kind(
    client: RestClient, resource: Resource, label_selector: str = "", namespace: str = ""
) -> list[Json]:
    """Return the objects of a kind, "" for those of all namespaces; none if the cluster does not serve it."""
    try:
        return await client.list(resource, namespace, label_selector=label_selector)
    except ApiError as error:
        if error.is_not_found:
            return []
        raise
