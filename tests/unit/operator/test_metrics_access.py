"""Metrics over TLS: who gets them, and what a scrape costs the API server."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import aiohttp
import orjson
import pytest

from queue_manager.cli.manager import serve_probes, tls_context
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.addresses import Address, parse
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Relay, Request, Response
from queue_manager.operator import metrics_access, probes
from queue_manager.operator.delegated_auth import DelegatedAuth, Identity, read_front_proxy
from queue_manager.operator.metrics_access import CachedAuth
from queue_manager.operator.preflight import CannotStart

TOKENS = {"of-prometheus": "prometheus", "of-alice": "alice"}
ANYWHERE = Address("0.0.0.0", 0)


class Reviews(Relay):
    """An API server that knows two tokens; prometheus may get /metrics."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.down = False
        self.status: object = None  # answered to every review, if set

    async def request(self, request: Request) -> Response:
        if self.down:
            raise ConnectionError("down")
        kind = request.path.rpartition("/")[2]
        self.asked[kind] += 1
        spec: dict[str, Any] = orjson.loads(request.body or b"")["spec"]
        if kind == "tokenreviews":
            user = TOKENS.get(spec["token"])
            status: dict[str, Any] = {"authenticated": user is not None}
            status |= {"user": {"username": user, "groups": ["system:authenticated"]}} if user else {}
        else:
            may = {"path": "/metrics", "verb": "get"}
            status = {"allowed": spec["user"] == "prometheus" and spec["nonResourceAttributes"] == may}
        return Response(201, {}, orjson.dumps({"status": self.status or status}))


class Scraper:
    """A client of metrics that are served over TLS; the probes are on a port of their own."""

    def __init__(self, urls: list[str], api: Reviews) -> None:
        [self.metrics] = [url.replace("0.0.0.0", "127.0.0.1") for url in urls if url.endswith("/metrics")]
        self.probes = [url for url in urls if not url.endswith("/metrics")]
        self.api = api

    async def get(self, token: str = "", url: str = "", method: str = "GET") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connector = aiohttp.TCPConnector(ssl=False)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, url or self.metrics, headers=headers) as answer,
        ):
            return answer.status, await answer.text()


@pytest.fixture
async def scraper() -> AsyncIterator[Scraper]:
    api, registry = Reviews(), MetricRegistry()
    registry.inc("workqueue_adds_total", {"name": "q"})
    async with AsyncExitStack() as stack:
        served = {ANYWHERE: ["metrics"], Address("127.0.0.1", 0): ["health"]}
        answers = probes.routes(KueueConfig(), registry, lambda: "")
        context = partial(tls_context, KueueConfig(), None)
        yield Scraper(await serve_probes(stack, served, answers, RestClient(api), context), api)


@pytest.mark.parametrize(
    ("token", "status", "text"),
    [
        ("of-prometheus", 200, 'workqueue_adds_total{name="q"} 1.0\n'),
        ("of-alice", 403, "Authorization denied for user alice\n"),
        ("wrong", 401, "Unauthorized\n"),
        ("", 401, "Unauthorized\n"),
    ],
)
async def test_metrics_are_for_users_who_may_get_them(scraper: Scraper, token: str, status: int, text: str) -> None:
    found = await scraper.get(token)
    assert found[0] == status
    assert found[1].endswith(text)
    assert status == 200 or "workqueue" not in found[1]


async def test_metrics_are_served_over_tls_only_and_probes_over_plain_http(scraper: Scraper) -> None:
    assert scraper.metrics.startswith("https://")
    with pytest.raises(aiohttp.ClientError):
        await scraper.get("of-prometheus", scraper.metrics.replace("https", "http"))
    assert [url.partition(":")[0] for url in scraper.probes] == ["http", "http"]
    assert [await scraper.get(url=url) for url in scraper.probes] == [(200, "ok\n")] * 2
    assert not scraper.api.asked


async def test_further_scrapes_ask_the_api_server_nothing(scraper: Scraper) -> None:
    for token in ("of-prometheus", "of-alice", "wrong") * 3:
        await scraper.get(token)
    assert scraper.api.asked == {"tokenreviews": 3, "subjectaccessreviews": 2}


async def test_a_permission_to_get_is_none_to_head(scraper: Scraper) -> None:
    assert (await scraper.get("of-prometheus"))[0] == 200
    assert (await scraper.get("of-prometheus", method="HEAD"))[0] == 403


async def test_without_an_answer_of_the_api_server_nobody_gets_metrics(scraper: Scraper) -> None:
    scraper.api.down = True
    assert (await scraper.get("of-prometheus"))[0] == 503
    assert (await scraper.get())[0] == 401
    scraper.api.down = False
    assert (await scraper.get("of-prometheus"))[0] == 200


@pytest.mark.parametrize("status", [[1], {"authenticated": "yes"}, {"authenticated": True, "user": {"groups": 1}}])
async def test_an_answer_of_another_shape_is_no_permission(scraper: Scraper, status: object) -> None:
    scraper.api.status = status
    assert (await scraper.get("of-prometheus"))[0] == 503


@pytest.mark.parametrize("names", ["-1", "{", "[1]"])
async def test_front_proxy_names_that_cannot_be_read_allow_nobody(names: str, caplog: pytest.LogCaptureFixture) -> None:
    """An empty list would allow every client whose certificate the CA has signed."""
    data = {"requestheader-client-ca-file": "pem", "requestheader-allowed-names": names}
    assert await read_front_proxy(RestClient(ConfigMaps(data))) is None
    assert "requestheader-allowed-names" in caplog.text


class ConfigMaps(Relay):
    """An API server that has one ConfigMap."""

    def __init__(self, data: dict[str, str]) -> None:
        self._data = data

    async def request(self, request: Request) -> Response:
        return Response(200, {}, json.dumps({"data": self._data}).encode())


@pytest.mark.parametrize(
    ("user", "seconds", "asked"),
    [
        ("prometheus", metrics_access.ALLOWED_SECONDS, 2),
        ("prometheus", metrics_access.ALLOWED_SECONDS - 1, 1),
        ("alice", metrics_access.DENIED_SECONDS, 2),
        ("alice", metrics_access.DENIED_SECONDS - 1, 1),
    ],
)
async def test_a_permission_is_asked_again_when_it_is_old(user: str, seconds: float, asked: int) -> None:
    api, now = Reviews(), [1000.0]
    auth = CachedAuth(DelegatedAuth(RestClient(api), None), lambda: now[0])
    attributes = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    assert await auth.allows(Identity(user), attributes) is (user == "prometheus")
    now[0] += seconds
    assert await auth.allows(Identity(user), attributes) is (user == "prometheus")
    assert api.asked["subjectaccessreviews"] == asked


async def test_a_token_that_is_revoked_is_refused_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    api, now = Reviews(), [1000.0]
    auth = CachedAuth(DelegatedAuth(RestClient(api), None), lambda: now[0])
    headers = {"Authorization": "Bearer of-alice"}
    assert await auth.identify(headers, None)  # type: ignore[arg-type] # one value per header
    monkeypatch.delitem(TOKENS, "of-alice")
    now[0] += metrics_access.TOKEN_SECONDS - 1
    assert await auth.identify(headers, None)  # type: ignore[arg-type]
    now[0] += 1
    assert await auth.identify(headers, None) is None  # type: ignore[arg-type]


async def test_tokens_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_access, "MAX_ENTRIES", 2)
    api = Reviews()
    auth = CachedAuth(DelegatedAuth(RestClient(api), None), lambda: 0.0)
    for token in ("a", "b", "c", "c", "b", "a"):
        await auth.identify({"Authorization": f"Bearer {token}"}, None)  # type: ignore[arg-type]
    assert api.asked["tokenreviews"] == 4


@pytest.mark.parametrize(
    ("text", "secure"),
    [
        (":8443", True),
        ("0.0.0.0:8443", True),
        ("[::]:8443", True),
        ("manager.example:8443", True),
        ("127.0.0.1:8443", False),
        ("[::1]:8443", False),
        ("localhost:8443", False),
    ],
)
def test_metrics_are_plain_only_on_loopback(text: str, secure: bool) -> None:
    address = parse(text)
    assert probes.over_tls({address: ["metrics"]}) == (address if secure else None)
    assert probes.over_tls({address: ["health"]}) is None


def test_metrics_over_tls_do_not_share_the_address_of_the_probes() -> None:
    with pytest.raises(CannotStart, match=r"metrics\.bindAddress: the probes are served there"):
        probes.over_tls({parse(":8081"): ["health", "metrics"]})
    assert probes.over_tls({parse("127.0.0.1:8081"): ["health", "metrics"]}) is None
