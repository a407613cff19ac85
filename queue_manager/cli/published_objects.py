"""Reads the queue's objects as the manager of a namespace's Jobs does: those without a namespace perhaps from files.

A manager with Roles only has ClusterQueues, flavors and classes from files (`local.cluster_objects`), and publishes
that it has. Its installation keeps the files as the ConfigMap `sluice-cluster-objects` beside its Lease. A user who may
read that ConfigMap is answered from it, without rights in the whole cluster.
BEHAVIOUR.md#q182-answers-about-cluster-objects-from-files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queue_manager.api.component_names import OBJECTS_MAP, PUBLISHED_LEASE
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.published_data import read_data, read_published_data
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.published_form import FROM_FILES, listed_in
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError

if TYPE_CHECKING:
    from queue_manager.local.cluster_objects import ClusterObjectServer


@dataclass(frozen=True, slots=True)
class ManagersView:
    """What a manager works with. `client`: reads it. `namespaces`: the only ones in which it manages Jobs; (): all."""

    client: RestClient
    namespaces: tuple[str, ...] = ()


async def managers_view(client: RestClient, namespace: str, config: KueueConfig | None = None) -> ManagersView:
    """Return the view of the manager of a namespace's Jobs; that of the API server if its files cannot be read.

    `config`: of that manager; None if it is not known.
    """
    data = await read_published_data(client, namespace)
    listed = listed_in(data)
    if not data.get(FROM_FILES) or namespace not in listed:
        return ManagersView(client)
    home = data.get(PUBLISHED_LEASE, "").partition("/")[0] or namespace
    texts = await read_data(client, home, OBJECTS_MAP)
    objects = await _objects(client, texts, listed, config or KueueConfig()) if texts else None
    if objects is None:
        return ManagersView(client)
    return ManagersView(RestClient(objects.beside(client.transport)), tuple(listed))


async def _objects(
    client: RestClient, texts: Mapping[str, str], namespaces: list[str], config: KueueConfig
) -> ClusterObjectServer | None:
    """Return the objects of the texts, with the labels of the namespaces; None if a part is wrong or not readable."""
    from queue_manager.cli.cluster_object_files import read_texts  # imports the embedded API server

    try:
        objects = await read_texts(texts, OBJECTS_MAP, config)
        await objects.read_namespaces(client, namespaces)
    except CommandRefused:
        return None
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        return None
    return objects
