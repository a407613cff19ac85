"""The certificate of the embedded API server: which clients trust it, and when it is renewed."""

from __future__ import annotations

import asyncio
import ssl
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from queue_manager.engine.certificates import VALID
from queue_manager.engine.clock import SystemClock
from queue_manager.local import loopback_certificate
from queue_manager.local.loopback_certificate import NAMES, RENEW_BEFORE, ServerCertificate, keep_current, provide
from queue_manager.local.server.http_server import serve
from tests.frozen_time import freeze_time
from tests.local.server.world import World

NOW = SystemClock().now()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "serving.pem"


@pytest.mark.parametrize("name", NAMES)
async def test_a_client_with_the_ca_trusts_the_server_under_each_name(file: Path, name: str) -> None:
    identity = provide(file, NOW)
    host = "::1" if name == "::1" else "127.0.0.1"
    listening = await serve(World().server, identity.context(), token="t", host=host)
    port = int(listening.url.rpartition(":")[2])
    trust = ssl.create_default_context(cadata=identity.authority)
    trust.verify_flags |= ssl.VERIFY_X509_STRICT  # the default of Python 3.13
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=trust, server_hostname=name)
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
        writer.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection(host, port, ssl=ssl.create_default_context(), server_hostname=name)
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection(host, port, ssl=trust, server_hostname="example.org")
    finally:
        await listening.close()


def test_the_file_is_private_and_does_not_contain_the_key_of_the_ca(file: Path) -> None:
    provide(file, NOW)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().count("PRIVATE KEY-----") == 2  # begin and end of the server's
    assert [entry.name for entry in file.parent.iterdir()] == ["serving.pem"]


@pytest.mark.parametrize(
    ("later", "kept"),
    [
        (timedelta(), True),
        (VALID - RENEW_BEFORE - timedelta(hours=1), True),
        (VALID - RENEW_BEFORE + timedelta(hours=1), False),
        (VALID + timedelta(days=400), False),
        (timedelta(days=-300), True),  # the clock was set back
        (timedelta(days=-400), False),
    ],
)
def test_it_is_renewed_before_it_expires_and_kept_until_then(file: Path, later: timedelta, kept: bool) -> None:
    first = provide(file, NOW)
    assert (provide(file, NOW + later) == first) is kept


@pytest.mark.parametrize("damage", ["", "no PEM", "half", "another key"])
def test_a_damaged_file_is_replaced(file: Path, damage: str) -> None:
    first = provide(file, NOW)
    text = file.read_text()
    other = provide(file.with_name("other.pem"), NOW).file.read_text()
    _, end, certificate = text.partition("-----END PRIVATE KEY-----")
    another_key = other.partition(end)[0] + end + certificate
    file.write_text({"half": text[: len(text) // 2], "another key": another_key}.get(damage, damage))
    second = provide(file, NOW)
    assert second != first
    second.context()  # raises if key and certificate do not match
    assert provide(file, NOW) == second


async def test_a_running_program_presents_the_renewed_certificate(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_certificate, "CHECK_SECONDS", 0.01)
    presented = asyncio.Queue[ServerCertificate]()
    first = provide(file, NOW)
    with freeze_time(NOW, real_asyncio=True) as clock:
        keeping = asyncio.create_task(keep_current(first, SystemClock(), presented.put_nowait))
        clock.move_to(NOW + VALID - timedelta(days=1))
        async with asyncio.timeout(20):
            renewed = await presented.get()
        assert renewed != first
        assert renewed == provide(file, SystemClock().now())
        keeping.cancel()


async def test_a_full_disk_does_not_end_the_program(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A month is left for retries."""
    monkeypatch.setattr(loopback_certificate, "CHECK_SECONDS", 0.01)
    presented = asyncio.Queue[ServerCertificate]()
    first = provide(file, NOW)

    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    with freeze_time(NOW + VALID, real_asyncio=True):
        with monkeypatch.context() as broken:
            broken.setattr(loopback_certificate, "write_private", full)
            keeping = asyncio.create_task(keep_current(first, SystemClock(), presented.put_nowait))
            async with asyncio.timeout(20):
                while "No space left" not in caplog.text:
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            assert await presented.get() != first
        keeping.cancel()
