"""Reads the ConfigMaps with the configuration of a manager, without importing what reads a configuration (0.1 s)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from queue_manager.api.api_resources import CONFIG_MAPS
from queue_manager.api.component_names import PUBLIC_NAMESPACE, PUBLISHED_CONFIG, PUBLISHED_LEASE
from queue_manager.cli.lease_reading import LeaseReading
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError


async def read_published_data(client: RestClient, namespace: str = "") -> dict[str, str]:
    """Return what the manager of the Jobs of a namespace has published, "" for that of all namespaces; {} if nothing.

    A manager of listed namespaces publishes in these, and has precedence over one of all unless it has ended.
    """
    places = dict.fromkeys((PUBLIC_NAMESPACE, namespace or PUBLIC_NAMESPACE))
    of_all, *own = await asyncio.gather(*(read_data(client, place, PUBLISHED_CONFIG) for place in places))
    listed = own[0] if own else None
    if listed and of_all and await has_ended(client, listed, beside=of_all):
        return of_all
    return listed or of_all or {}


async def has_ended(client: RestClient, listed: Mapping[str, str], *, beside: Mapping[str, str]) -> bool:
    """Whether the manager that has published `listed` does not hold its Lease any more, while that of `beside` may run.

    False if the user may not read the Lease of the first, or if one of them has published that it needs none.
    """
    if not listed.get(PUBLISHED_LEASE) or not beside.get(PUBLISHED_LEASE):
        return False
    reading = LeaseReading(client)
    if await reading.has_publisher(listed) or not reading.all_read:
        return False
    return await reading.has_publisher(beside) or not reading.all_read


async def read_data(client: RestClient, namespace: str, name: str) -> dict[str, str] | None:
    """Return the data of a ConfigMap; None if it does not exist, {} if the user may not read it."""
    try:
        found = await client.get(CONFIG_MAPS, namespace, name)
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        return None if error.is_not_found else {}
    return dict(found.get("data") or {})
