"""Reads what `sluice adopt` needs to know of a cluster on which Kueue runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.adoption.kueue_configuration import has_own_settings, text_of
from queue_manager.adoption.kueue_installation import (
    INSTALLED_KINDS,
    InstalledObject,
    installed_objects,
    without_data,
)
from queue_manager.adoption.losses import AdoptedObjects
from queue_manager.api import keys
from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    CRDS,
    JOBS,
    RESOURCE_FLAVORS,
    SECRETS,
    WORKLOADS,
    Resource,
)
from queue_manager.api.component_names import CONFIG_MAP
from queue_manager.api.conversion import FACETS, convert
from queue_manager.api.keys import GROUP
from queue_manager.api.types import Workload
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.installed_objects import is_installed
from queue_manager.configuration import ConfigurationError, loads
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.installation import object_names
from queue_manager.installation.conversion_removal import conversion_service
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import Settings

STORED = WORKLOADS.version
OLD = keys.V1BETA1.partition("/")[2]
OPAQUE = "Opaque"  # the type of a Secret without a type
NO_CONVERSION = "conversion webhook for"  # how the message of an API server begins


@dataclass(frozen=True)
class KueueCluster:
    """`installed`: Kueue's own objects; `config`: its ConfigMap; `crds`: the CRDs of its group.

    `replaced`: further objects that `sluice install` replaces, such as ClusterRoles, by kind.
    """

    objects: AdoptedObjects
    installed: tuple[InstalledObject, ...]
    config: Json | None
    crds: tuple[Json, ...]
    replaced: tuple[tuple[Resource, Json], ...] = ()

    @property
    def outdated(self) -> list[Json]:
        """The CRDs with objects that may be stored in an older version."""
        return [crd for crd in self.crds if has_old_versions(crd)]

    @property
    def needlessly_converted(self) -> list[Json]:
        """The CRDs with a conversion webhook of Kueue's for a kind that is the same in both versions.

        An installation of Sluice sets no conversion for them, and would leave Kueue's, which nothing answers any more.
        """
        return [crd for crd in self.crds if _is_same_in_all_versions(crd) and conversion_service(crd) is not None]

    @property
    def is_kueues(self) -> bool:
        """Whether anything of Kueue's own is installed."""
        return bool(self.installed) or self.config is not None

    @property
    def has_own_settings(self) -> bool:
        """Whether Kueue's configuration decides anything that an installation without it would not."""
        return has_own_settings(text_of(self.config))


def _is_same_in_all_versions(crd: Json) -> bool:
    kind = crd["spec"]["names"]["kind"]
    return kind in FACETS and not FACETS[kind]


def has_old_versions(crd: Json) -> bool:
    """Whether objects may be stored in another version than Sluice's."""
    return any(version != STORED for version in stored_versions(crd))


def stored_versions(crd: Json) -> list[str]:
    """Return the versions in which objects may be stored."""
    return list((crd.get("status") or {}).get("storedVersions") or ())


def is_rewritable(crd: Json) -> bool:
    """Whether the CRD stores written objects in Sluice's version (v1beta2); that of an older Kueue does not."""
    return any(version["name"] == STORED and version.get("storage") for version in crd["spec"]["versions"])


def kind_of(crd: Json) -> Resource:
    """Return the kind that a CRD defines, in Sluice's version."""
    spec, names = crd["spec"], crd["spec"]["names"]
    return Resource(spec["group"], STORED, names["plural"], names["kind"], spec["scope"] == "Namespaced")


async def read(client: RestClient, namespace: str) -> KueueCluster:
    """Read the cluster. `namespace`: where Kueue's manager runs. Raises CommandRefused if Kueue's kinds are missing."""
    crds = [crd for crd in await client.list(CRDS) if crd["spec"]["group"] == GROUP]
    if not crds:
        raise CommandRefused(
            f"the cluster has no kinds of {GROUP}: there is nothing to take over; use `sluice install`"
        )
    served = {crd["spec"]["names"]["plural"]: _versions(crd) for crd in crds}
    trees = {
        str(kind): await _list_converted(client, kind, served.get(kind.plural, {kind.version}))
        for kind in (WORKLOADS, CLUSTER_QUEUES, RESOURCE_FLAVORS, JOBS, ADMISSION_CHECKS)
    }
    workloads = [msgspec.convert(tree, Workload, strict=False) for tree in trees[str(WORKLOADS)]]
    jobs = {tree["metadata"]["uid"]: msgspec.convert(tree, Job, strict=False) for tree in trees[str(JOBS)]}
    config = await _config_map(client, namespace)
    one_way = any(STORED not in _versions(crd) for crd in crds)
    adopted = AdoptedObjects(workloads, trees, jobs, _ignored_settings(config), one_way)
    installed = tuple([item async for item in _installed(client, namespace)])
    replaced = tuple([item async for item in _replaced(client, namespace)])
    return KueueCluster(adopted, installed, config, tuple(crds), replaced)


async def _installed(client: RestClient, namespace: str) -> AsyncIterator[InstalledObject]:
    """Yield Kueue's objects. Sluice's, which have names of Kueue's, are left alone."""
    for resource in INSTALLED_KINDS:
        others = [tree for tree in await _list(client, resource) if not is_installed(tree)]
        for item in installed_objects(resource, others, namespace):
            yield item


async def _replaced(client: RestClient, namespace: str) -> AsyncIterator[tuple[Resource, Json]]:
    """Yield what `sluice install` would write over, without what `KueueCluster` has already.

    The Secret of Kueue's certificate is without its data: Kueue's manager issues a certificate anew, but only into a
    Secret that exists. One of another type than Opaque is left out, because its issuer (cert-manager) creates it.
    """
    handled = (*INSTALLED_KINDS, CRDS, CONFIG_MAPS)
    for wanted in objects(Settings(), namespace):
        resource, meta = object_names.KINDS[wanted["kind"]], wanted["metadata"]
        if resource in handled:
            continue
        found = await client.find(resource, str(meta.get("namespace") or ""), meta["name"])
        if found is None or is_installed(found):
            continue
        if resource != SECRETS:
            yield resource, found
        elif found.get("type", OPAQUE) == OPAQUE:
            yield resource, without_data(found)


def _versions(crd: Json) -> set[str]:
    return {version["name"] for version in crd["spec"]["versions"] if version.get("served")}


async def _list_converted(client: RestClient, kind: Resource, served: set[str]) -> list[Json]:
    """Return all objects of a kind in v1beta2; converted here if the CRD of an older Kueue serves only v1beta1."""
    if kind.version in served or OLD not in served:
        return await _list(client, kind)
    old = await _list(client, Resource(kind.group, OLD, kind.plural, kind.kind, kind.namespaced))
    return [convert(tree, keys.API_VERSION) for tree in old]


async def _list(client: RestClient, resource: Resource) -> list[Json]:
    """All objects of a kind; none if the cluster does not have the kind. Raises CommandRefused if no manager converts
    them.
    """
    try:
        return list(await client.list(resource))
    except ApiError as error:
        if NO_CONVERSION in error.message:
            raise CommandRefused(
                f"{resource.plural} are stored as {OLD}, and no manager converts them now; repeat the command once one "
                f"runs ({error.message})"
            ) from error
        if not error.is_not_found:
            raise
        return []


async def _config_map(client: RestClient, namespace: str) -> Json | None:
    """Return Kueue's ConfigMap; None if it is absent, or Sluice's."""
    found = await client.find(CONFIG_MAPS, namespace, CONFIG_MAP)
    return found if found is None or not is_installed(found) else None


def _ignored_settings(config: Json | None) -> tuple[str, ...]:
    """Return the settings of Kueue's configuration that have no effect, or the mistakes in it."""
    text = text_of(config)
    try:
        return loads(text, f"ConfigMap {CONFIG_MAP}").ignored if text else ()
    except ConfigurationError as error:
        return tuple(str(problem) for problem in error.problems)
