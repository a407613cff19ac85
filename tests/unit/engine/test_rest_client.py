"""The client, its transport, and how it finds the cluster."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml

from job_controller.model import ObjectMeta, Pod
from queue_manager.api.api_resources import PODS
from queue_manager.engine.cache import Cache
from queue_manager.engine.exec_plugin import CredentialsError
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.kubeconfig import RENEW_AFTER_SECONDS, KubeconfigError, load
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.renewing_transport import ClusterTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.selector_matching import matcher
from queue_manager.engine.transport_protocol import ApiError, Request
from queue_manager.engine.write_trail import WRITE_DURATION
from queue_manager.operator import kopf_process
from tests.frozen_time import freeze_time
from tests.unit.engine.loopback import Loopback, pod, status

Served = tuple[Loopback, HttpTransport]


async def test_reads_and_writes_trees_and_structs(served: Served) -> None:
    client = RestClient(served[1])
    made = await client.create(PODS, "default", pod("a"))
    assert made["metadata"]["uid"]
    read = await client.get(PODS, "default", "a", type=Pod)
    assert (read.kind, read.metadata.name) == ("Pod", "a")
    await client.replace(PODS, read)
    changed = await client.patch(PODS, "default", "a", {"status": {"phase": "Running"}}, type=Pod)
    assert changed.status.phase == "Running"
    assert [obj.metadata.name for obj in await client.list(PODS, type=Pod)] == ["a"]
    await client.delete(PODS, "default", "a", uid=read.metadata.uid, propagation="Foreground", grace_period=0)
    assert served[0].bodies[-1] == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": read.metadata.uid},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }


async def test_find_returns_none_only_for_what_does_not_exist(served: Served) -> None:
    client = RestClient(served[1])
    await client.create(PODS, "default", pod("a"))
    found = await client.find(PODS, "default", "a", type=Pod)
    assert found is not None
    assert found.metadata.name == "a"
    assert await client.find(PODS, "default", "b") is None
    served[0].refusals.append(status(403, "Forbidden", "not you"))
    with pytest.raises(ApiError, match="not you"):
        await client.find(PODS, "default", "a")


async def test_the_duration_of_each_write_is_counted_by_verb_and_resource(served: Served) -> None:
    metrics = MetricRegistry()
    client = RestClient(served[1], metrics)
    await client.create(PODS, "default", pod("a"))
    await client.list(PODS)
    await client.patch(PODS, "default", "a", {"status": {"phase": "Running"}})
    served[0].refusals.append(status(409, "Conflict", "changed"))
    with pytest.raises(ApiError):
        await client.replace(PODS, await client.get(PODS, "default", "a"))
    served[0].refusals.append(status(422, "Invalid", "invalid"))
    with pytest.raises(ApiError):
        await client.patch(PODS, "default", "a", {"status": {}}, subresource="status")
    await client.delete(PODS, "default", "a")
    expected = [("create", "pods"), ("patch", "pods"), ("patch", "pods/status"), ("delete", "pods")]
    lines = [line for line in metrics.exposition().splitlines() if line.startswith(f"{WRITE_DURATION}_count")]
    assert lines == [f'{WRITE_DURATION}_count{{resource="{name}",verb="{verb}"}} 1.0' for verb, name in expected]


async def test_a_struct_without_kind_is_sent_with_it(served: Served) -> None:
    await RestClient(served[1]).create(PODS, "default", Pod(metadata=ObjectMeta(name="a", namespace="default")))
    assert (served[0].bodies[0]["apiVersion"], served[0].bodies[0]["kind"]) == ("v1", "Pod")


async def test_list_reads_all_pages(served: Served) -> None:
    served[0].page = 2
    for name in "abcde":
        served[0].put(pod(name))
    listed = await RestClient(served[1]).list(PODS)
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in listed] == [("Pod", name) for name in "abcde"]


async def test_a_refusal_is_an_api_error_with_its_reason(served: Served) -> None:
    with pytest.raises(ApiError) as caught:
        await RestClient(served[1]).get(PODS, "default", "none")
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")


async def test_a_429_with_retry_after_is_retried(served: Served) -> None:
    server, transport = served
    server.refusals.append(status(429, "TooManyRequests", "busy", {"Retry-After": "0"}))
    await RestClient(transport).create(PODS, "default", pod("a"))
    assert len(server.requests) == 2


async def test_a_429_without_retry_after_is_raised(served: Served) -> None:
    server, transport = served
    server.refusals.append(status(503, "ServiceUnavailable", "down"))
    with pytest.raises(ApiError):
        await RestClient(transport).create(PODS, "default", pod("a"))
    assert len(server.requests) == 1


async def test_no_server_is_an_os_error() -> None:
    transport = HttpTransport("http://127.0.0.1:1")
    with pytest.raises(OSError, match="Cannot connect"):
        await transport.request(Request("GET", "/"))
    with pytest.raises(OSError, match="Cannot connect"):
        async with transport.stream("/"):
            pass
    await transport.close()


async def test_the_wait_behind_a_stalled_request_is_part_of_the_timeout() -> None:
    stalled = asyncio.Event()
    held: list[asyncio.StreamWriter] = []

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)  # Python 3.13 closes a writer without references
        await reader.readuntil(b"\r\n\r\n")
        stalled.set()

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    transport = HttpTransport(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", max_in_flight=1)
    first = asyncio.create_task(transport.request(Request("GET", "/", timeout=600)))
    await stalled.wait()
    with pytest.raises(TimeoutError):
        await transport.request(Request("GET", "/", timeout=0.1))
    assert not first.done()
    first.cancel()
    await transport.close()
    server.close()


async def test_a_cache_with_a_selector_learns_only_what_it_selects(served: Served) -> None:
    client = RestClient(served[1])
    cache: Cache[Pod] = Cache("pods")
    client.attach_cache(cache, PODS, Pod, label_selector="team=red", field_selector="spec.nodeName=n1")
    await client.create(PODS, "default", pod("other", labels={"team": "blue"}, spec={"nodeName": "n1"}))
    await client.create(PODS, "default", pod("a", labels={"team": "red"}, spec={"nodeName": "n1"}))
    assert [obj.metadata.name for obj in cache] == ["a"]
    await client.patch(PODS, "default", "a", {"spec": {"nodeName": "n2"}})
    assert len(cache) == 0


async def test_the_write_that_removes_the_last_finalizer_is_the_last(served: Served) -> None:
    client = RestClient(served[1])
    cache: Cache[Pod] = Cache("pods")
    client.attach_cache(cache, PODS, Pod)
    await client.create(PODS, "default", pod("a"))
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
    await client.patch(PODS, "default", "a", {"metadata": leaving})
    assert len(cache) == 1
    await client.patch(PODS, "default", "a", {"metadata": {"finalizers": None}})
    assert len(cache) == 0


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,b!=2", True),
        ("a=2", False),
        ("a!=1", False),
        ("c!=1", True),
        ("a", True),
        ("!a", False),
        ("!c", True),
        ("a in (1,2),b in (x)", True),
        ("a notin (1, 2)", False),
        ("c notin (1)", True),
        ("b=", False),
        ("example.com/x=y.z", True),
    ],
)
def test_label_selectors(selector: str, selected: bool) -> None:
    tree = {"metadata": {"labels": {"a": "1", "b": "x", "example.com/x": "y.z"}}}
    match = matcher(selector, "")
    assert (match is None or match(tree)) is selected


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("spec.nodeName=n", True),
        ("spec.nodeName!=n", False),
        ("spec.none=", True),
        ("spec.on=true,metadata.name=a", True),
    ],
)
def test_field_selectors(selector: str, selected: bool) -> None:
    match = matcher("", selector)
    assert match is not None
    assert match({"metadata": {"name": "a"}, "spec": {"nodeName": "n", "on": True}}) is selected


# --- kubeconfig --------------------------------------------------------------------------------------------


def kubeconfig(directory: Path, cluster: dict[str, object], user: dict[str, object]) -> Path:
    tree = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = directory / "config"
    path.write_text(yaml.safe_dump(tree))
    return path


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"tokenFile": "token"}, "Bearer from-file"),
        ({"username": "me", "password": "pw"}, "Basic " + base64.b64encode(b"me:pw").decode()),
        ({}, ""),
    ],
)
async def test_credentials_of_a_kubeconfig_are_sent(tmp_path: Path, user: dict[str, object], expected: str) -> None:
    (tmp_path / "token").write_text("from-file\n")
    assert await load(kubeconfig(tmp_path, {}, user)).authorization() == expected


async def test_a_token_from_a_plugin(tmp_path: Path) -> None:
    credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"secret"}}'
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [credential]}
    path = kubeconfig(tmp_path, {}, {"exec": {**plugin, "interactiveMode": "Never"}})
    assert await load(path).authorization() == "Bearer secret"


def test_client_certificates_as_data_and_as_files(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=me", "-days", "1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run([*command, *subject], check=True, capture_output=True)
    encoded = {name: base64.b64encode(path.read_bytes()).decode() for name, path in (("c", certificate), ("k", key))}
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": "cert.pem"}
    as_files = {"client-certificate": "cert.pem", "client-key": str(key)}
    as_data = {"client-certificate-data": encoded["c"], "client-key-data": encoded["k"]}
    for user in (as_files, as_data):
        access = load(kubeconfig(tmp_path, cluster, user))
        assert access.ssl is not None
        assert len(access.ssl.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("cluster", "user", "context", "text"),
    [
        ({}, {}, "elsewhere", "contexts has no entry 'elsewhere'; there are: 'here'"),
        ({"server": "127.0.0.1"}, {}, None, "has no http"),
        (
            {"server": "https://x", "certificate-authority-data": "%"},
            {},
            None,
            "certificate-authority-data is not base64",
        ),
        (
            {"server": "https://x", "certificate-authority-data": "uA=="},
            {},
            None,
            "certificate-authority is not a PEM certificate: it is not text",
        ),
        (
            {"server": "https://x", "certificate-authority-data": "eA=="},
            {},
            None,
            "certificate-authority is not a PEM certificate: ",
        ),
        (
            {"server": "https://x"},
            {"client-certificate-data": "eA==", "client-key-data": "eA=="},
            None,
            "client-certificate and client-key: ",
        ),
        ({"server": "https://x"}, {"client-key-data": "eA=="}, None, "must be given together"),
        ({}, {"token": 12345}, None, r"is not a kubeconfig: .*`int` - at `\$.users\[0\].user.token`"),
        ({}, ["token"], None, r"is not a kubeconfig: .*`array` - at `\$.users\[0\].user`"),
        ({"certificate-authority": 5}, {}, None, r"`\$.clusters\[0\].cluster.certificate-authority`"),
        ({}, {"as": "a", "as-user-extra": {"k": None}}, None, r"user.as-user-extra\[...\]`"),
        ({}, {"exec": {"command": "c", "apiVersion": "v", "env": [{}]}}, None, r"user.exec.env\[0\]`"),
        ({"proxy-url": "socks5://me:secret@p:1"}, {}, None, "has to be http or https: 'p:1'"),
        ({}, {"token": "t", "as-groups": ["g"]}, None, "need `as`, which is not set"),
    ],
)
def test_mistakes_in_a_kubeconfig_are_reported(
    tmp_path: Path, cluster: dict[str, object], user: dict[str, object], context: str | None, text: str
) -> None:
    with pytest.raises(KubeconfigError, match=text):
        load(kubeconfig(tmp_path, cluster, user), context)


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, list[str]]]:
    """A URL and the heads of the requests that arrive there; all get the same response."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    server.close()


async def ask_twice(path: Path) -> None:
    """A request for a response and one for a stream."""
    transport = HttpTransport.from_kubeconfig(path)
    await transport.request(Request("GET", "/x"))
    async with transport.stream("/x"):
        pass
    await transport.close()


async def test_impersonation_headers_are_sent_with_each_request(tmp_path: Path) -> None:
    """Without them the user's own rights would apply."""
    who = {"token": "t", "as": "ann", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"x.io/Y": ["1", "2"]}}
    async with listening() as (url, asked):
        await ask_twice(kubeconfig(tmp_path, {"server": url}, who))
    expected = {
        *("Impersonate-User: ann", "Impersonate-Uid: 7", "Impersonate-Group: a", "Impersonate-Group: b"),
        *("Impersonate-Extra-x.io%2FY: 1", "Impersonate-Extra-x.io%2FY: 2", "Authorization: Bearer t"),
    }
    assert len(asked) == 2
    for request in asked:
        assert expected <= set(request.splitlines())


async def test_requests_go_through_the_configured_proxy(tmp_path: Path) -> None:
    async with listening() as (url, asked):
        await ask_twice(kubeconfig(tmp_path, {"server": "http://far.invalid:6443", "proxy-url": url}, {"token": "t"}))
    assert [request.split("\r\n")[0] for request in asked] == ["GET http://far.invalid:6443/x HTTP/1.1"] * 2


async def test_a_proxy_gets_neither_credentials_nor_impersonation(tmp_path: Path) -> None:
    """It forwards what is encrypted for the server, as with kopf's session."""
    async with listening() as (url, asked):
        who = {"token": "t", "as": "ann"}
        path = kubeconfig(tmp_path, {"server": "https://far.invalid", "proxy-url": url}, who)
        with pytest.raises(ConnectionError):
            await ask_twice(path)
        transport = ClusterTransport(lambda: load(path))
        async with await kopf_process._session(transport) as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get("https://far.invalid/apis")
            await session.get(url)
        await transport.close()
    *connects, plain = asked
    assert [request.split("\r\n")[0] for request in connects] == ["CONNECT far.invalid:443 HTTP/1.1"] * len(connects)
    assert connects
    assert not any("Authorization" in request or "Impersonate" in request for request in connects)
    assert {"Authorization: Bearer t", "Impersonate-User: ann"} <= set(plain.splitlines())


async def test_a_kubeconfig_that_becomes_invalid_leaves_the_old_one_in_use(served: Served, tmp_path: Path) -> None:
    """An error would stop the manager, which follows the file."""
    path = kubeconfig(tmp_path, {"server": served[1].base_url}, {"token": "t"})
    transport = ClusterTransport(lambda: load(path))
    for server in ("https://127.0.0.1:99999", "https://127.0.0.1:64a", "https://[::1:6443", ""):
        kubeconfig(tmp_path, {"server": server}, {"token": "renewed"})
        transport.check_files()
        assert transport.access.server == served[1].base_url
    assert (await transport.request(Request("GET", PODS.path("default")))).status == 200
    await transport.close()


async def test_from_kubeconfig_talks_to_the_server(served: Served, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"server": served[1].base_url}, {"token": "t"})
    transport = HttpTransport.from_kubeconfig(path)
    answers = await asyncio.gather(*(RestClient(transport).create(PODS, "default", pod(f"p{n}")) for n in range(20)))
    await transport.close()
    assert len({answer["metadata"]["resourceVersion"] for answer in answers}) == 20


async def test_closing_a_transport_ends_its_streams(served: Served) -> None:
    """With aiohttp alone the reader would wait without end."""
    server, transport = served
    server.put(pod("a"))

    async def watch_until_the_end() -> None:
        async with transport.stream(PODS.path(), query={"watch": "1", "resourceVersion": "100"}) as chunks:
            async for _ in chunks:
                await transport.close()

    async with asyncio.timeout(5):
        with pytest.raises(ConnectionError):
            await watch_until_the_end()


async def test_a_token_file_is_read_anew_when_its_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("old")
    authorization = load(kubeconfig(tmp_path, {}, {"tokenFile": "t"})).authorization
    assert await authorization() == "Bearer old"
    (tmp_path / "t").write_text("new")
    assert await authorization() == "Bearer old"
    authorization.renew()
    assert await authorization() == "Bearer new"


async def test_an_empty_token_file_leaves_the_last_token(tmp_path: Path) -> None:
    """The file is being rewritten. Without a token the answer would be 403, which renews nothing."""
    (tmp_path / "t").write_text("one")
    authorization = load(kubeconfig(tmp_path, {}, {"tokenFile": "t"})).authorization
    assert await authorization() == "Bearer one"
    (tmp_path / "t").write_text("")
    authorization.renew()
    assert await authorization() == "Bearer one"
    (tmp_path / "t").write_text("two")
    assert await authorization() == "Bearer two"
    (tmp_path / "t").write_text("")
    with pytest.raises(CredentialsError, match="t: is empty"):
        await load(kubeconfig(tmp_path, {}, {"tokenFile": "t"})).authorization()


async def test_a_token_file_is_read_each_minute_and_may_be_missing_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "t"
    file.write_text("old")
    authorization = load(kubeconfig(tmp_path, {}, {"tokenFile": "t"})).authorization
    with freeze_time("2026-01-01") as clock:
        assert await authorization() == "Bearer old"
        file.write_text("new")
        clock.tick(RENEW_AFTER_SECONDS - 1)
        assert await authorization() == "Bearer old"
        clock.tick(1)
        assert await authorization() == "Bearer new"
        file.unlink()
        clock.tick(RENEW_AFTER_SECONDS)
        assert await authorization() == "Bearer new"


def test_an_access_names_the_files_it_was_read_from(tmp_path: Path) -> None:
    cluster = {"certificate-authority": "ca.crt", "server": "http://x"}
    path = kubeconfig(tmp_path, cluster, {"token": "t", "client-key": "key", "client-key-data": "eA=="})
    assert load(path).files == (path, tmp_path / "ca.crt")
