"""TLS of the manager's servers, as configured."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

import pytest

from queue_manager.configuration.webhook_and_tls_sections import CIPHER_SUITES, Tls
from queue_manager.engine.certificates import issue
from queue_manager.operator.tls import load, server_context

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
ISSUED = issue("test", ["127.0.0.1"], datetime.now(UTC))
ECDSA = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


@pytest.mark.parametrize(
    ("tls", "minimum"),
    [
        (None, V13),
        (Tls(), V13),
        (Tls(min_version="VersionTLS13"), V13),
        (Tls(min_version="VersionTLS12"), V12),
        (Tls(cipher_suites=(ECDSA,)), V12),
        (Tls(cipher_suites=("TLS_AES_128_GCM_SHA256",)), V13),
    ],
)
def test_the_oldest_version_is_the_configured_one(tls: Tls | None, minimum: ssl.TLSVersion) -> None:
    assert server_context(tls).minimum_version == minimum


@pytest.mark.parametrize("suite", [name for name, openssl in CIPHER_SUITES.items() if openssl])
def test_every_cipher_suite_is_one_of_openssl(suite: str) -> None:
    names = {cipher["name"] for cipher in server_context(Tls(cipher_suites=(suite,))).get_ciphers()}
    assert CIPHER_SUITES[suite] in names
    assert names & set(CIPHER_SUITES.values()) == {CIPHER_SUITES[suite]}


async def negotiated(tls: Tls | None, maximum: ssl.TLSVersion) -> tuple[str, str]:
    """The version and cipher suite of a connection. Raises OSError."""
    context = server_context(tls)
    load(context, ISSUED.pem)
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0, ssl=context)
    client = ssl.create_default_context(cadata=ISSUED.authority)
    client.maximum_version = maximum
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=client)
        found = writer.get_extra_info("ssl_object")
        writer.close()
        return found.version(), found.cipher()[0]


async def test_a_client_of_an_older_version_is_refused_by_default() -> None:
    assert (await negotiated(None, V13))[0] == "TLSv1.3"
    with pytest.raises(OSError):  # noqa: PT011  # an alert or the end of the connection, whichever is read first
        await negotiated(None, V12)


async def test_a_chosen_cipher_suite_is_used() -> None:
    assert await negotiated(Tls(cipher_suites=(ECDSA,)), V12) == ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256")


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(ssl.SSLError):
        load(server_context(None), ISSUED.certificate)
