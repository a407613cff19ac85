"""Keeps the certificate of the webhook server up to date while the process runs, from one of two sources.

    ManagedCertificate    our own, in a Secret: issued, renewed, and written into every caBundle
    CertificateFiles      of another controller, such as cert-manager, in a mounted directory

Both check every few seconds, and never end the process once it has a certificate: whatever fails is logged and tried
again, and the certificate in use stays. Open connections are kept (`tls.ServingCertificate`).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from job_controller.ports import Clock
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.operator.preflight import CannotStart
from queue_manager.operator.tls import ServingCertificate
from queue_manager.operator.webhooks.ca_injection import OwnServices, inject
from queue_manager.operator.webhooks.certificate_rotation import expiry
from queue_manager.operator.webhooks.certificate_secret import CertificateSecret

log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0


class CertificateKeeper(Protocol):
    """A source of the certificate."""

    async def start(self) -> None:
        """Present a certificate. Raises CannotStart without one."""
        ...

    async def run(self) -> None:
        """Keep it up to date until cancelled."""
        ...


class Presenter:
    """Presents a certificate if it differs from the last one, and reports when it expires."""

    def __init__(self, serving: ServingCertificate, metrics: MetricRegistry) -> None:
        self._serving = serving
        self._metrics = metrics
        self._pem = ""

    def present(self, pem: str) -> None:
        """Present this PEM (key, then certificates) if it is new. Raises ValueError or ssl.SSLError if it is unfit."""
        if pem == self._pem:
            return
        expires = expiry(pem)
        self._serving.present(pem)
        if self._pem:
            log.info("presents a new certificate", extra={"expires": expires.isoformat()})
        self._pem = pem
        labels = {"certificate": "webhook"}
        self._metrics.set("sluice_certificate_expiry_timestamp_seconds", labels, expires.timestamp())


class ManagedCertificate:
    """The certificate in a Secret. `names`: of the server."""

    def __init__(
        self,
        client: RestClient,
        secret: CertificateSecret,
        services: OwnServices,
        names: Sequence[str],
        clock: Clock,
        presenter: Presenter,
    ) -> None:
        self._client = client
        self._secret = secret
        self._services = services
        self._names = tuple(names)
        self._clock = clock
        self._presenter = presenter
        self._trusted = ""  # the bundle that all clients have

    async def start(self) -> None:
        """Issue the certificate, or take that of another replica."""
        try:
            await self.renew()
        except ApiError as error:
            raise CannotStart(f"{self._secret} for the certificate of the webhooks: {error.message}") from error
        except OSError as error:
            raise CannotStart(f"{self._secret} for the certificate of the webhooks: {error}") from error

    async def run(self) -> None:
        """Do what is due every CHECK_SECONDS, until cancelled. Failures are logged, and retried at the next check."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.renew()
            except (ApiError, OSError, ValueError) as error:
                log.warning("the certificate of the webhooks could not be checked", extra={"error": str(error)})

    async def renew(self) -> None:
        """Do what is due now: write the Secret, present its certificate, write the caBundles."""
        state = await self._secret.advance(self._names, self._clock.now(), self._trusted)
        assert state.serving is not None
        self._presenter.present(state.serving.pem)
        self._trusted = state.bundle if await inject(self._client, state.bundle, self._services) else ""


class CertificateFiles:
    """tls.crt and tls.key in a directory, which are replaced by their owner."""

    def __init__(self, folder: Path, presenter: Presenter) -> None:
        self._folder = folder
        self._presenter = presenter

    async def start(self) -> None:
        """Present the certificate of the directory. Raises CannotStart if it is absent or not valid."""
        try:
            self.renew()
        except OSError as error:
            what = f"webhook.certDir: {error.filename or self._folder}: {error.strerror or error}"
            raise CannotStart(f"{what}; internalCertManagement.enable: true issues a certificate") from error
        except ValueError as error:
            raise CannotStart(f"webhook.certDir: {self._folder}: not a certificate and its key: {error}") from error

    async def run(self) -> None:
        """Present replaced files until cancelled. While only one of them is replaced, the certificate in use stays."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                self.renew()
            except (OSError, ValueError) as error:
                log.warning("the changed certificate cannot be used, keeping the old one", extra={"error": str(error)})

    def renew(self) -> None:
        """Present the certificate in the files. ssl.SSLError is an OSError."""
        try:
            self._presenter.present("".join((self._folder / name).read_text() for name in ("tls.key", "tls.crt")))
        except ssl.SSLError as error:
            raise ValueError(str(error)) from error
