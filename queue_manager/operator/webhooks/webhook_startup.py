"""Puts the parts of the webhooks together, starts them, and closes them in order."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from queue_manager.api import crd_conversion
from queue_manager.api.conversion import conversion_review
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.addresses import Address
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Transport
from queue_manager.lifecycle.workload_settings import settings_of
from queue_manager.operator.preflight import CannotStart
from queue_manager.operator.required_permissions import Need
from queue_manager.operator.tls import ServingCertificate, server_context
from queue_manager.operator.unserved_paths import UnservedPathTransport
from queue_manager.operator.webhooks import https_server
from queue_manager.operator.webhooks.admission import ClusterAdmission
from queue_manager.operator.webhooks.ca_injection import OwnServices
from queue_manager.operator.webhooks.certificate_keeper import (
    CertificateFiles,
    CertificateKeeper,
    ManagedCertificate,
    Presenter,
)
from queue_manager.operator.webhooks.certificate_secret import CertificateSecret
from queue_manager.operator.webhooks.cluster_contexts import ClusterContexts
from queue_manager.operator.webhooks.https_server import Answer, Closing, PureAnswer, in_thread
from queue_manager.operator.webhooks.kopf_admission import KopfAdmission
from queue_manager.operator.webhooks.webhook_permissions import CA_INJECTION, certificate_secret

FURTHER_ROUTES: Mapping[str, PureAnswer] = {crd_conversion.PATH: conversion_review.answer}
"""Reviews of other kinds by their path."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")  # for a webhook configuration with a URL, and for port forwarding


def needs(config: KueueConfig, namespace: str) -> dict[str, list[Need]]:
    """The permissions that the webhooks need, by namespace."""
    management = config.internal_cert_management
    if not management.enable:
        return {}
    return {"": list(CA_INJECTION), namespace: [certificate_secret(management.webhook_secret_name)]}


def serving_names(services: OwnServices) -> tuple[str, ...]:
    """The names in the certificate: the Services as the API server calls them, and loopback."""
    served = (services.webhook, services.conversion, services.visibility, services.metrics)
    return (*(f"{name}.{services.namespace}.svc" for name in served), *LOOPBACK)


class Webhooks:
    """`async with Webhooks(...)` listens; `attach` lets kopf answer. Raises CannotStart if it cannot."""

    def __init__(
        self,
        transport: Transport,
        config: KueueConfig,
        namespace: str,
        address: Address,
        listed_namespaces: Collection[str] = (),
    ) -> None:
        """`namespace`: where the manager, its Services and its Secret are. `listed_namespaces`: reviews are about
        objects in these, and of kinds without a namespace; (): all.
        """
        self.url = ""
        self.metrics = MetricRegistry()
        self.certificate = ServingCertificate()
        self._address = address
        self._config = config
        self._stack = AsyncExitStack()
        clock = SystemClock()
        # The metrics of this runtime are not served: the term's runtime has families of the same names.
        self._runtime = Runtime(
            UnservedPathTransport(transport), clock, random.SystemRandom(), namespaces=listed_namespaces
        )
        self._contexts = ClusterContexts(self._runtime, settings_of(config))
        self._kopf = KopfAdmission(ClusterAdmission(self._contexts))
        self._keeper = _keeper(self._runtime.client, config, namespace, Presenter(self.certificate, self.metrics))
        self._runtime.task(self._keeper.run)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._keeper.start()
            context = server_context(self._config.tls)
            self.certificate.attach(context)
            async with AsyncExitStack() as listening:
                listening.push_async_callback(await self._listen(context))
                await self._fill_caches(stack)
                # Entered last, so closed first: reviews in flight read the caches.
                await stack.enter_async_context(listening.pop_all())
            self._stack = stack.pop_all()
        return self

    async def _listen(self, context: ssl.SSLContext) -> Closing:
        """Serve, and return what closes the server. Reviews are refused until `attach`; conversions are not.

        The caches are filled only then: while objects are stored as v1beta1, an API server requests their conversion
        in order to list them, and this may be the only replica.
        """
        routes: dict[str, Answer] = {path: in_thread(answer) for path, answer in FURTHER_ROUTES.items()}
        routes |= self._kopf.routes
        try:
            self.url, close = await https_server.serve(self._address, context, routes, self.metrics)
        except OSError as error:
            where = f"{self._address.host or ''}:{self._address.port}"
            raise CannotStart(f"cannot serve webhooks on {where}: {error.strerror or error}") from error
        return close

    async def _fill_caches(self, stack: AsyncExitStack) -> None:
        seconds = self._config.controller.cache_sync_timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds or None):
                await stack.enter_async_context(self._runtime)
        except TimeoutError:
            names = ", ".join(self._runtime.unsynced())
            raise CannotStart(f"could not list {names} for the webhooks within {seconds:.0f} s") from None

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Answer the reviews in flight, accept no more, and stop. A second call has no effect."""
        await self._stack.pop_all().aclose()

    def attach(self, kopf: Any, registry: Any, settings: Any) -> None:
        """Register the handlers in kopf."""
        self._kopf.attach(kopf, registry, settings)

    def reconfigure(self, config: KueueConfig) -> None:
        """Apply a new configuration whose changes need no restart."""
        self._contexts.reconfigure(settings_of(config))

    def unready(self) -> str:
        """Why reviews cannot be answered, "" if they can."""
        return "" if self._kopf.serving.is_set() else "the webhooks are starting"


def _keeper(client: RestClient, config: KueueConfig, namespace: str, presenter: Presenter) -> CertificateKeeper:
    management = config.internal_cert_management
    if not management.enable:
        return CertificateFiles(Path(config.webhook.cert_dir), presenter)
    services = OwnServices(namespace, management.webhook_service_name)
    secret = CertificateSecret(client, namespace, management.webhook_secret_name)
    return ManagedCertificate(client, secret, services, serving_names(services), SystemClock(), presenter)
