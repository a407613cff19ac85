"""The data of the ConfigMap in which a manager publishes the configuration that it works by. Pure.

All users may read it, so it has no secret: `notifications` is left out, and so is a history.url that names a database,
because both may contain a password or a token. Besides the configuration it has what a reader needs before that:

    controller_manager_config.yaml   every field with its effective value
    lease                            NAMESPACE/NAME of the Lease that the manager holds; "" without leader election
    holder                           the holderIdentity by which the manager holds it
    namespaces                       the only ones that the manager manages, with commas; "": all
    leftOut                          the fields that are set and left out, with commas
    clusterObjects                   "true": the manager has the kinds without a namespace from files
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from queue_manager.api.component_names import PUBLISHED_CONFIG, PUBLISHED_HOLDER, PUBLISHED_LEASE
from queue_manager.configuration.config_as_yaml import as_yaml
from queue_manager.configuration.config_map import KEY
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.loading import loads

NAMESPACES, LEFT_OUT, FROM_FILES = "namespaces", "leftOut", "clusterObjects"
FILE_STORE = "sqlite:"


def published_data(
    config: KueueConfig,
    namespaces: Collection[str] = (),
    lease: tuple[str, str] | None = None,
    *,
    holder: str = "",
    has_other_users: bool = True,
    has_objects_from_files: bool = False,
) -> dict[str, str]:
    """Return the data of the ConfigMap. `lease`: namespace and name of the Lease; None without leader election.

    `holder`: the identity by which the manager holds the Lease. It differs after each start, so a reader knows by the
    Lease whether the manager that has published this still runs.

    `namespaces`: the only ones that the manager manages; (): all. `has_other_users`: False for the cluster of
    `sluice up`, whose one user has the file; `sluice history` finds the store by that.
    """
    place, name = lease or ("", config.leader_election.resource_name)
    election = config.leader_election.model_copy(
        update={"leader_elect": lease is not None, "resource_namespace": place, "resource_name": name}
    )
    secrets = secret_fields(config) if has_other_users else []
    readable = without_secrets(config) if secrets else config
    effective = readable.model_copy(update={"leader_election": election})
    return {
        KEY: as_yaml(effective),
        PUBLISHED_LEASE: f"{place}/{name}" if lease is not None else "",
        PUBLISHED_HOLDER: holder,
        NAMESPACES: ",".join(namespaces),
        LEFT_OUT: ",".join(secrets),
        FROM_FILES: "true" if has_objects_from_files else "",
    }


def secret_fields(config: KueueConfig) -> list[str]:
    """Return which fields are set that may contain a password or a token."""
    has_database = bool(config.history.url) and not config.history.url.startswith(FILE_STORE)
    found = {"history.url": has_database, "notifications": config.notifications is not None}
    return [field for field, is_set in found.items() if is_set]


def without_secrets(config: KueueConfig) -> KueueConfig:
    """Return the configuration without `secret_fields`."""
    changes: dict[str, object] = {"notifications": None}
    if "history.url" in secret_fields(config):
        changes["history"] = config.history.model_copy(update={"url": ""})
    return config.model_copy(update=changes)


def config_in(data: Mapping[str, str]) -> KueueConfig:
    """Return the configuration in the data. Raises ConfigurationError, as for that of a newer version."""
    return loads(data.get(KEY, ""), PUBLISHED_CONFIG, namespaces=listed_in(data))


def listed_in(data: Mapping[str, str]) -> list[str]:
    """Return the only namespaces that the manager manages; []: all."""
    return [namespace for namespace in data.get(NAMESPACES, "").split(",") if namespace]
