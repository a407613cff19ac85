"""Publishes the configuration that the controllers work by in ConfigMaps that their users may read.

`sluice show` and other commands read it for the deadlines of waitForPodsReady. A manager of all namespaces writes it in
kube-public, one of listed namespaces in each of these; the cluster of `sluice up` writes it in kube-public too.
BEHAVIOUR.md#q146-who-reads-the-configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping
from random import Random, SystemRandom

from tenacity import AsyncRetrying, retry_if_exception

from queue_manager.api.api_resources import CONFIG_MAPS
from queue_manager.api.component_names import NAME, NAME_LABEL, PUBLIC_NAMESPACE, PUBLISHED_CONFIG
from queue_manager.engine.call_backoff import Backoff
from queue_manager.engine.json_codec import UNDECODABLE
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError

log = logging.getLogger(__name__)

REFUSED_SECONDS = 600.0  # until the next attempt after a refusal: the missing right may have been granted meanwhile
REMEDY = (
    "the configuration is not published: sluice show has no deadlines without --config; grant get, patch and create of "
    f"ConfigMap {PUBLISHED_CONFIG} in this namespace, as the roles of `sluice install` do"
)


class ConfigPublication:
    """The ConfigMaps of one manager. `put` what they are to contain; `run` writes it, as a task of the manager."""

    def __init__(
        self, client: RestClient, namespaces: Collection[str], data: Mapping[str, str], rng: Random | None = None
    ) -> None:
        """`namespaces`: the only ones that the manager manages; (): all."""
        self._client = client
        self._places = list(namespaces) or [PUBLIC_NAMESPACE]
        self._data = data
        self._rng = rng or SystemRandom()
        self._changed = asyncio.Event()
        self._refused: set[str] = set()  # namespaces for which a warning was logged

    def put(self, data: Mapping[str, str]) -> None:
        """Replace what is published."""
        self._data = data
        self._changed.set()

    async def run(self) -> None:
        """Write the ConfigMaps now and after each `put`. Ends by being cancelled; no error of a write ends it."""
        while True:
            is_complete = await self.write()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if is_complete else REFUSED_SECONDS):
                    await self._changed.wait()

    async def write(self) -> bool:
        """Write the ConfigMaps once; return False, after a warning, if the API server refuses one."""
        self._changed.clear()
        return all([await self._is_written(namespace) for namespace in self._places])

    async def _is_written(self, namespace: str) -> bool:
        """Write one ConfigMap, however long the API server does not answer; return False if it refuses."""
        try:
            await AsyncRetrying(retry=retry_if_exception(_is_passing), wait=Backoff(self._rng), reraise=True)(
                self._write, namespace
            )
        except ApiError as error:
            if namespace not in self._refused:
                self._refused.add(namespace)
                log.warning(REMEDY, extra={"namespace": namespace, "error": error.message})
            return False
        return True

    async def _write(self, namespace: str) -> None:
        await publish(self._client, namespace, self._data)


async def publish(client: RestClient, namespace: str, data: Mapping[str, str]) -> None:
    """Write the ConfigMap of a namespace unless it has this content. Raises ApiError, OSError."""
    found = await client.find(CONFIG_MAPS, namespace, PUBLISHED_CONFIG)
    if found is None:
        meta = {"name": PUBLISHED_CONFIG, "labels": {NAME_LABEL: NAME}}
        await client.create(CONFIG_MAPS, namespace, {"metadata": meta, "data": data})
        return
    old = found.get("data") or {}
    if old != data:
        removed = dict.fromkeys(old.keys() - data.keys())
        await client.patch(CONFIG_MAPS, namespace, PUBLISHED_CONFIG, {"data": {**removed, **data}})


def _is_passing(error: BaseException) -> bool:
    """Whether another attempt may succeed: no response, a busy server, or a ConfigMap that was created meanwhile."""
    if isinstance(error, ApiError):
        return error.is_passing or error.is_conflict
    return isinstance(error, (OSError, *UNDECODABLE))
