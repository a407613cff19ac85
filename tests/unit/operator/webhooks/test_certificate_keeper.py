"""Certificates are replaced while connections are open; a certificate that cannot be used never replaces one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from job_controller.json_tree import Json
from queue_manager.configuration.addresses import Address
from queue_manager.engine.certificates import Issued, issue
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.operator.preflight import CannotStart
from queue_manager.operator.tls import ServingCertificate, server_context
from queue_manager.operator.webhooks import certificate_keeper, https_server
from queue_manager.operator.webhooks.certificate_keeper import CertificateFiles, Presenter
from tests.waiting import until

NOW = datetime.now(UTC)
EXPIRY = "sluice_certificate_expiry_timestamp_seconds"


def write(folder: Path, issued: Issued) -> None:
    """As a controller of certificates, which renames: a reader sees the old or the new file."""
    for name, text in (("tls.key", issued.key), ("tls.crt", issued.certificate)):
        (folder / f"{name}.new").write_text(text)
        (folder / f"{name}.new").rename(folder / name)


def new(days: int = 0) -> Issued:
    return issue("test", ["localhost", "127.0.0.1"], NOW + timedelta(days=days))


class Server:
    """A server with certificates from files. `authority` is what its clients trust."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metrics = MetricRegistry()
        self.serving = ServingCertificate()
        self.files = CertificateFiles(folder, Presenter(self.serving, self.metrics))
        self.url = ""

    @property
    def expiry(self) -> float:
        return self.metrics.value(EXPIRY, {"certificate": "webhook"})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path)
    write(tmp_path, FIRST)
    await server.files.start()
    context = server_context(None)
    server.serving.attach(context)

    async def echo(review: Json) -> Json:
        if review.get("slow"):
            await release.wait()
        return review

    release = server.release = asyncio.Event()  # type: ignore[attr-defined]
    server.url, close = await https_server.serve(Address("127.0.0.1", 0), context, {"/echo": echo}, server.metrics)
    yield server
    release.set()
    await close()


FIRST, SECOND = new(), new(days=1)


def client(issued: Issued) -> aiohttp.ClientSession:
    """A client that trusts the CA of this certificate."""
    context = ssl.create_default_context(cadata=issued.authority)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


async def echo(session: aiohttp.ClientSession, server: Server, **review: Json) -> Json:
    async with session.post(f"{server.url}/echo", json=review) as answer:
        assert answer.status == 200
        return await answer.json()


async def test_a_new_certificate_holds_for_new_connections_only(server: Server) -> None:
    async with client(FIRST) as old, client(SECOND) as later:
        slow = asyncio.create_task(echo(old, server, slow=True, number=1))
        await echo(old, server, number=2)
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await echo(later, server)
        write(server.folder, SECOND)
        server.files.renew()
        assert await echo(later, server, number=3) == {"number": 3}
        server.release.set()  # type: ignore[attr-defined]
        assert await slow == {"slow": True, "number": 1}  # the connection of before is still open
        assert await echo(old, server, number=4) == {"number": 4}


async def test_changed_files_are_found_without_a_signal(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_keeper, "CHECK_SECONDS", 0.01)
    before = server.expiry
    following = asyncio.create_task(server.files.run())
    write(server.folder, SECOND)
    await until(lambda: server.expiry == before + timedelta(days=1).total_seconds(), "the new files are in use")
    following.cancel()


@pytest.mark.parametrize("text", ["", "no certificate", FIRST.authority])
async def test_files_that_do_not_fit_keep_the_old_certificate(server: Server, text: str) -> None:
    before = server.expiry
    (server.folder / "tls.crt").write_text(text)
    with pytest.raises(ValueError, match=r".*"):
        server.files.renew()
    assert server.expiry == before
    async with client(FIRST) as session:
        assert await echo(session, server, number=1) == {"number": 1}


DAMAGED: tuple[dict[str, str], ...] = (
    {},
    {"tls.key": FIRST.key},
    {"tls.key": FIRST.key, "tls.crt": SECOND.certificate},
    {"tls.key": "x", "tls.crt": "y"},
)


@pytest.mark.parametrize("files", DAMAGED, ids=range(len(DAMAGED)))
async def test_a_manager_without_usable_files_does_not_start(files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(CannotStart, match=r"^webhook.certDir: "):
        await Server(tmp_path).files.start()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/echo", b"{}", 200), ("/echo", b"[]", 400), ("/echo", b"{", 400), ("/nothing", b"{}", 404)],
)
async def test_only_reviews_under_known_paths_are_answered(server: Server, path: str, body: bytes, status: int) -> None:
    async with client(FIRST) as session, session.post(server.url + path, data=body) as answer:
        assert answer.status == status
    if path == "/echo":
        labels = {"webhook": path, "code": str(status)}
        assert server.metrics.value("controller_runtime_webhook_requests_total", labels) == 1
        assert server.metrics.value("controller_runtime_webhook_latency_seconds", {"webhook": path}) == 1
