"""TLS of the manager's servers: versions and cipher suites as configured, and certificates that can be replaced."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from queue_manager.configuration.webhook_and_tls_sections import CIPHER_SUITES, Tls
from queue_manager.operator.preflight import CannotStart


def server_context(tls: Tls | None) -> ssl.SSLContext:
    """A context without a certificate. TLS 1.3, unless the configuration allows TLS 1.2 or chooses its cipher suites.

    Raises CannotStart if OpenSSL supports none of the chosen cipher suites.
    """
    chosen = tls or Tls()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    suites = [name for suite in chosen.cipher_suites if (name := CIPHER_SUITES[suite])]
    older = chosen.min_version == "VersionTLS12" or (suites and not chosen.min_version)
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if older else ssl.TLSVersion.TLSv1_3
    if suites:
        try:
            context.set_ciphers(":".join(suites))
        except ssl.SSLError as error:
            raise CannotStart("tls.cipherSuites: this OpenSSL supports none of them") from error
    return context


class ServingCertificate:
    """The certificate of servers that are running. A new one holds for new connections; open ones are not dropped."""

    def __init__(self) -> None:
        self._pem = ""
        self._contexts: list[ssl.SSLContext] = []

    def attach(self, context: ssl.SSLContext) -> None:
        """Let a server present the certificate from now on."""
        self._contexts.append(context)
        if self._pem:
            load(context, self._pem)

    def present(self, pem: str) -> None:
        """Present this certificate (PEM: key, then certificate and intermediates). Raises ssl.SSLError if it is unfit.

        A separate context loads the PEM first: if that fails, all servers keep the previous certificate.
        """
        load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pem)
        self._pem = pem
        for context in self._contexts:
            load(context, pem)


def load(context: ssl.SSLContext, pem: str) -> None:
    """Load key and certificate from memory. Raises ssl.SSLError if they do not fit."""
    with _as_file(pem) as path:
        context.load_cert_chain(path)


@contextmanager
def _as_file(pem: str) -> Iterator[str]:
    """Yield a file with the PEM, as ssl reads only files; on Linux in memory, as the root folder may be read-only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, pem.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # mode 0600
            file.write(pem.encode())
            file.flush()
            yield file.name
