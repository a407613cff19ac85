"""Lists objects that the user may not be allowed to read: what depends on them is then left out, instead of refused."""

from __future__ import annotations

from queue_manager.api.api_resources import Resource
from queue_manager.engine.rest_client import O, RestClient
from queue_manager.engine.transport_protocol import ApiError


async def list_permitted(
    client: RestClient,
    resource: Resource,
    type: type[O],
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
) -> list[O] | None:
    """Return the objects, or None if the user may not read them."""
    try:
        return await client.list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector, type=type
        )
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return None


async def list_all_or_own(client: RestClient, resource: Resource, type: type[O], namespace: str) -> list[O]:
    """Return the objects of all namespaces, or of this one if the user may not read the others."""
    found = await list_permitted(client, resource, type)
    return found if found is not None else await client.list(resource, namespace, type=type)


async def seen(client: RestClient, resource: Resource, type: type[O]) -> list[O] | None:
    """Return the objects, or None if the user may not read them or the kind does not exist."""
    try:
        return await list_permitted(client, resource, type)
    except ApiError as error:
        if not error.is_not_found:
            raise
        return None
