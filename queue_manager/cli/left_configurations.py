"""Reads which managers of listed namespaces have left what they published (`operator.config_publication`).

`sluice uninstall` deletes it. A manager that was started by hand leaves it when it ends, and users who may not read its
Lease cannot know that it has.
"""

from __future__ import annotations

from queue_manager.api.api_resources import CONFIG_MAPS
from queue_manager.api.component_names import PUBLIC_NAMESPACE, PUBLISHED_CONFIG, PUBLISHED_LEASE
from queue_manager.cli.lease_reading import LeaseReading
from queue_manager.cli.published_data import has_ended, read_published_data
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.visibility.diagnosis.snapshot import LeftConfiguration


async def read_left_configurations(client: RestClient, namespace: str, not_read: list[str]) -> list[LeftConfiguration]:
    """Return what managers have published in single namespaces and may have left, while one of all namespaces runs.

    `namespace`: the only one that is read; "": all. What the user may not read is added to `not_read`.
    """
    of_all = await read_published_data(client)
    if not of_all.get(PUBLISHED_LEASE) or not await LeaseReading(client).has_publisher(of_all):
        return []
    try:
        found = await client.list(CONFIG_MAPS, namespace, field_selector=f"metadata.name={PUBLISHED_CONFIG}")
    except ApiError as error:
        if not error.is_forbidden:
            raise
        not_read.append("what managers of single namespaces have published (forbidden)")
        return []
    published = {each["metadata"]["namespace"]: each.get("data") or {} for each in found}
    return [
        LeftConfiguration(place, data.get(PUBLISHED_LEASE, ""))
        for place, data in published.items()
        if data and place != PUBLIC_NAMESPACE
        if not data.get(PUBLISHED_LEASE) or await has_ended(client, data, beside=of_all)
    ]
