"""The serving certificate of the embedded API server, issued by a CA of its own for the loopback names.

kubectl sends a token only over TLS. So the server on loopback presents a certificate, and the kubeconfig contains the
CA that issued it. Both certificates and the key of the serving one are in one file of the data directory (mode 0600),
which is replaced atomically. The key of the CA is discarded after signing, so it cannot issue further certificates.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from job_controller.ports import Clock
from queue_manager.engine.certificates import alternative_names, issue
from queue_manager.local.private_files import write_private

log = logging.getLogger(__name__)

NAMES = ("localhost", "127.0.0.1", "::1")
RENEW_BEFORE = timedelta(days=30)
CHECK_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The certificate and key that the server presents, and the CA that its clients trust."""

    file: Path  # PEM: key and certificate of the server, certificate of the CA
    authority: str  # PEM of the CA's certificate

    def context(self) -> ssl.SSLContext:
        """A new TLS context for the server. TLS 1.3 only, which every client of the kubeconfig supports."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # kubectl is a new process each time and resumes no session
        context.load_cert_chain(self.file)
        return context


def provide(file: Path, now: datetime) -> ServerCertificate:
    """Return the server's certificate from `file`; a new one if the file is missing, damaged or about to expire.

    Raises OSError if the file cannot be read or written.
    """
    with suppress(FileNotFoundError, ValueError):
        pem = file.read_bytes()
        certificates = x509.load_pem_x509_certificates(pem)
        if _is_usable(pem, certificates, now):
            return ServerCertificate(file, _text(certificates[-1]))
    return _issue(file, now)


async def keep_current(identity: ServerCertificate, clock: Clock, present: Callable[[ServerCertificate], None]) -> None:
    """Check every hour, without end, whether the identity is about to expire, and pass a renewed one to `present`."""
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        try:
            renewed = provide(identity.file, clock.now())
            if renewed != identity:
                present(renewed)
                identity = renewed
        except OSError as error:  # for example a full disk: weeks remain for further attempts
            log.error("the certificate of the API server could not be renewed: %s", error)


def _is_usable(pem: bytes, certificates: list[x509.Certificate], now: datetime) -> bool:
    server = certificates[0]
    key = load_pem_private_key(pem, None)
    return (
        len(certificates) == 2
        and server.not_valid_before_utc <= now <= server.not_valid_after_utc - RENEW_BEFORE
        and server.public_key() == key.public_key()
        and server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value == alternative_names(NAMES)
    )


def _issue(file: Path, now: datetime) -> ServerCertificate:
    issued = issue("sluice API server", NAMES, now)
    write_private(file, issued.pem + issued.authority)
    return ServerCertificate(file, issued.authority)


def _text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
