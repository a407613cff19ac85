"""Reads the ConfigMaps with the configuration of a manager, without importing what reads a configuration (0.1 s)."""

from __future__ import annotations

import asyncio

from queue_manager.api.api_resources import CONFIG_MAPS
from queue_manager.api.component_names import PUBLIC_NAMESPACE, PUBLISHED_CONFIG
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError


async def read_published_data(client: RestClient, namespace: str = "") -> dict[str, str]:
    """Return what the manager of the Jobs of a namespace has published, "" for that of all namespaces; {} if nothing.

    A manager of listed namespaces publishes in these, and has precedence over one of all.
    """
    places = dict.fromkeys((namespace, PUBLIC_NAMESPACE)) if namespace else (PUBLIC_NAMESPACE,)
    found = await asyncio.gather(*(read_data(client, place, PUBLISHED_CONFIG) for place in places))
    return next((data for data in found if data), {})


async def read_data(client: RestClient, namespace: str, name: str) -> dict[str, str] | None:
    """Return the data of a ConfigMap; None if it does not exist, {} if the user may not read it."""
    try:
        found = await client.get(CONFIG_MAPS, namespace, name)
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        return None if error.is_not_found else {}
    return dict(found.get("data") or {})
