"""The queue's configuration as a ConfigMap in the cluster, with the name that Kueue's installation uses.

`sluice up` writes it, so that `sluice show` knows the deadlines of waitForPodsReady without the file.
"""

from __future__ import annotations

import asyncio
import logging

from queue_manager.api.api_resources import CONFIG_MAPS, NAMESPACES, Resource
from queue_manager.api.component_names import CONFIG_MAP, NAMESPACE
from queue_manager.configuration import ConfigurationError, KueueConfig, loads
from queue_manager.configuration.config_as_yaml import as_yaml
from queue_manager.configuration.config_map import KEY
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError

log = logging.getLogger(__name__)


class Publisher:
    """Writes the ConfigMap of one cluster."""

    def __init__(self, client: RestClient) -> None:
        self._client = client
        self._tasks: set[asyncio.Task[None]] = set()

    async def publish(self, config: KueueConfig) -> None:
        """Write the ConfigMap, and create its namespace if absent. Errors are logged."""
        data = {KEY: as_yaml(config)}
        try:
            await self._create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
            if not await self._create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": CONFIG_MAP}, "data": data}):
                await self._client.patch(CONFIG_MAPS, NAMESPACE, CONFIG_MAP, {"data": data})
        except (ApiError, OSError):
            log.warning("the configuration is not published; sluice show needs --config", exc_info=True)

    def schedule(self, config: KueueConfig) -> None:
        """Start `publish` as a task, for callers that are not coroutines."""
        task = asyncio.create_task(self.publish(config))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _create(self, resource: Resource, namespace: str, tree: dict[str, object]) -> bool:
        """Create the object; return False if it already exists."""
        try:
            await self._client.create(resource, namespace, tree)
        except ApiError as error:
            if not error.is_conflict:
                raise
            return False
        return True


async def published(client: RestClient) -> KueueConfig | None:
    """Return the published configuration, or None if it is absent, unreadable for the user, or of another version."""
    try:
        found = await client.get(CONFIG_MAPS, NAMESPACE, CONFIG_MAP)
        return loads(str((found.get("data") or {}).get(KEY, "")), CONFIG_MAP)
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
    except ConfigurationError:
        pass
    return None
