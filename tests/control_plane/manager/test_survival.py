"""What must not end the manager, nor cost a Job: outages of every kind between it and the API server."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import ssl
import sys
from pathlib import Path

import aiohttp
import pytest

from queue_manager.api.resources import CRDS, JOBS, WORKLOADS
from queue_manager.configuration import loads
from queue_manager.engine import kubeconfig as kubeconfigs
from queue_manager.engine.client import Client
from queue_manager.engine.transport import ApiError
from queue_manager.operator.controllers import Controllers
from queue_manager.operator.renewing_transport import ClusterTransport
from tests.control_plane.conftest import install_kinds
from tests.control_plane.manager.account import account, write_kubeconfig
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS, Manager, until
from tests.control_plane.manager.proxy import WRITES, Proxy
from tests.control_plane.manager.scenario import Scenario, is_true
from tests.control_plane.server import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.usefixtures("running_pods")]

LISTS_OF_JOBS = 'reflector_lists_total{resource="jobs.batch"}'
SMALL = ("namespaces", "limitranges", "priorityclasses.scheduling.k8s.io")
INVALID_WITHIN = 15.0  # seconds; the API server believes a token it has seen for ten


async def test_a_restart_of_the_api_server(
    scenario: Scenario, kubeconfig: Path, start: Start, plane: ControlPlane
) -> None:
    """Jobs from before and after it end, and it is the same process that sees to it."""
    manager = await start(kubeconfig)
    manager.may_be_forbidden = True
    await scenario.queues()
    await scenario.submit("before", parallelism=2, completions=4)
    await scenario.until_admitted("before")
    await restart(plane)
    await scenario.submit("after")
    await scenario.until_finished("before", "after")
    assert (await scenario.job("before"))["status"]["succeeded"] == 4
    assert await manager.get("/readyz") == (200, "ok\n")

    async def listed_anew() -> bool:
        return all([await manager.metric(f'reflector_lists_total{{resource="{name}"}}') >= 2 for name in SMALL])

    await until(listed_anew, "collections in which nothing happens are followed again as well")


async def test_history_that_was_compacted_away(
    scenario: Scenario, proxied: Path, proxy: Proxy, start: Start, plane: ControlPlane
) -> None:
    """410 Gone: it lists anew and finds what it missed."""
    manager = await start(proxied)
    manager.may_be_forbidden = True
    await scenario.queues()
    await scenario.submit("a")
    await scenario.until_finished("a")
    proxy.down = True
    proxy.cut_watches()
    await scenario.submit("missed")
    await scenario.api.delete(JOBS, scenario.namespace, "a", propagation="Background")
    await compact(plane, int((await scenario.job("missed"))["metadata"]["resourceVersion"]))
    await restart(plane)  # the API server's own cache of events forgets as well
    assert await manager.metric(LISTS_OF_JOBS) == 1
    proxy.down = False
    await scenario.until_finished("missed")
    assert await manager.metric(LISTS_OF_JOBS) == 2


async def test_a_server_that_is_too_busy(scenario: Scenario, proxied: Path, proxy: Proxy, start: Start) -> None:
    """429 with Retry-After, to reads and to writes."""
    await start(proxied)
    await scenario.queues()
    proxy.refuse(429, 30, to=lambda request: request.method in WRITES)
    proxy.refuse(429, 10, to=lambda request: request.method not in WRITES)
    proxy.cut_watches()
    await scenario.submit("a", parallelism=2, completions=2)
    await scenario.until_finished("a")
    assert proxy.refused > 10


async def test_a_server_that_fails(scenario: Scenario, proxied: Path, proxy: Proxy, start: Start) -> None:
    """500 to every second request for a while."""
    dice = random.Random(4)
    await start(proxied)
    await scenario.queues()
    proxy.refuse(500, 40, to=lambda request: dice.random() < 0.5)
    proxy.cut_watches()
    for name in ("a", "b", "c"):
        await scenario.submit(name, parallelism=2, completions=2)
    await scenario.until_finished("a", "b", "c")
    assert proxy.refused > 5
    for name in ("a", "b", "c"):
        assert (await scenario.job(name))["status"]["succeeded"] == 2


async def test_a_definition_that_is_deleted_and_made_again(
    scenario: Scenario, proxied: Path, proxy: Proxy, start: Start, plane: ControlPlane, api: Client
) -> None:
    """A Job from the time when no Workload could be made gets its own; no answer that there is none lasts."""
    await start(proxied)
    await scenario.queues()
    await api.delete(CRDS, "", "workloads.kueue.x-k8s.io")
    try:

        async def not_served() -> bool:
            try:
                await api.list(WORKLOADS, scenario.namespace)
            except ApiError as error:
                return error.status == 404
            return False

        await until(not_served, "workloads are no longer served")
        proxy.requests.clear()
        await scenario.submit("between")

        async def tried() -> bool:
            return ("POST", WORKLOADS.path(scenario.namespace)) in proxy.requests

        await until(tried, "a Workload was to be made for it")
    finally:
        await asyncio.to_thread(install_kinds, plane)
    await scenario.until_finished("between")


async def test_watches_that_break(scenario: Scenario, proxied: Path, proxy: Proxy, start: Start) -> None:
    """Reset connections: it goes on from where it was, without listing anew."""
    manager = await start(proxied)
    await scenario.queues()
    for name in ("a", "b", "c"):
        assert proxy.cut_watches() > 0
        await scenario.submit(name)
        await scenario.until_finished(name)

        async def watching() -> bool:
            return proxy.watches > 5

        await until(watching, "it watches again")
    assert await manager.metric(LISTS_OF_JOBS) == 1


async def test_watches_that_fall_silent(scenario: Scenario, proxied: Path, proxy: Proxy) -> None:
    """Connections that stay and say nothing are given up after a time (here: 2 s, else 150) and made anew."""
    transport = ClusterTransport(lambda: kubeconfigs.load(proxied))
    controllers = Controllers(transport, loads(ALL_JOBS), silence=2.0)
    task = asyncio.create_task(controllers.run())
    await controllers.ready.wait()
    await scenario.queues()
    proxy.stalled, begun = True, proxy.watches_begun
    await scenario.submit("a")  # this news gets stuck, and the connection with it

    async def given_up() -> bool:
        return proxy.watches_begun > begun

    await until(given_up, "it connects anew")
    proxy.stalled = False
    await scenario.until_finished("a")
    controllers.stop()
    await task
    await transport.close()


async def test_a_token_that_expires(
    scenario: Scenario, start: Start, plane: ControlPlane, api: Client, tmp_path: Path
) -> None:
    """Its file gets the next token, as the kubelet would see to; what is answered with 401 is repeated."""
    who = await account(api, scenario.namespace)
    token, secret = await who.token()
    file = tmp_path / "token"
    file.write_text(token)
    config = write_kubeconfig(tmp_path / "kubeconfig", plane.url, {"tokenFile": str(file)}, plane)
    manager = await start(config)
    await scenario.queues()
    await scenario.submit("a")
    await scenario.until_finished("a")
    await who.invalidate(secret)
    await until_refused(plane, token)
    await scenario.submit("meanwhile")  # whatever it tries now is answered with 401
    file.write_text((await who.token())[0])
    await scenario.until_finished("meanwhile")
    assert await manager.get("/readyz") == (200, "ok\n")


async def test_a_kubeconfig_that_is_rotated(
    scenario: Scenario, start: Start, plane: ControlPlane, proxy: Proxy, api: Client, tmp_path: Path
) -> None:
    """Another user and another address: requests and watches move there, and the old address can go."""
    who = await account(api, scenario.namespace)
    token, secret = await who.token()
    config = write_kubeconfig(tmp_path / "kubeconfig", proxy.url, {"token": token})
    manager = await start(config)
    await scenario.queues()
    await scenario.submit("a")
    await scenario.until_finished("a")
    write_kubeconfig(config, plane.url, {"token": (await who.token())[0]}, plane)
    await who.invalidate(secret)
    await scenario.submit("b")
    await scenario.until_finished("b")

    async def moved() -> bool:
        return proxy.watches == 0

    await until(moved, "the watches through the old address are closed")
    proxy.down = True
    await scenario.submit("c")
    await scenario.until_finished("c")
    assert await manager.get("/readyz") == (200, "ok\n")


async def test_a_plugin_gives_the_token_and_is_asked_again_when_that_expires(
    scenario: Scenario, start: Start, plane: ControlPlane, api: Client, tmp_path: Path
) -> None:
    who = await account(api, scenario.namespace)
    token, secret = await who.token()
    answer, plugin = tmp_path / "answer.json", tmp_path / "plugin.py"
    plugin.write_text(f"print(open({str(answer)!r}).read())")

    def tell(token: str) -> None:
        status = {"token": token}
        version = "client.authentication.k8s.io/v1"
        answer.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))

    tell(token)
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(plugin)],
        "interactiveMode": "Never",
    }
    config = write_kubeconfig(tmp_path / "kubeconfig", plane.url, {"exec": command}, plane)
    await start(config)
    await scenario.queues()
    await scenario.submit("a")
    await scenario.until_finished("a")
    tell((await who.token())[0])
    await who.invalidate(secret)
    await until_refused(plane, token)
    await scenario.submit("b")
    await scenario.until_finished("b")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_with_work_in_flight_takes_less_than_five_seconds_and_loses_nothing(
    scenario: Scenario, proxied: Path, proxy: Proxy, start: Start, number: signal.Signals
) -> None:
    """The server has executed writes whose answers never come; the next start counts each pod once."""
    manager = await start(proxied)
    await scenario.queues()
    await scenario.submit("a", parallelism=2, completions=4)
    proxy.hold_writes = True

    async def in_flight() -> bool:
        return len(proxy.held) > 0

    await until(in_flight, "a write is under way")
    assert await manager.stop(number) < 5
    proxy.hold_writes = False
    await start(proxied)
    await scenario.until_finished("a")
    assert (await scenario.job("a"))["status"]["succeeded"] == 4
    assert len(await scenario.pods("a")) == 4
    assert len(await scenario.api.list(WORKLOADS, scenario.namespace)) == 1


async def test_a_kill_in_the_middle_of_everything(scenario: Scenario, kubeconfig: Path, start: Start) -> None:
    """kill -9 and another start, five times while Jobs run: every pod is counted once."""
    await scenario.queues()
    for name in ("a", "b", "c"):
        await scenario.submit(name, parallelism=2, completions=4)
    for _ in range(5):
        manager: Manager = await start(kubeconfig)
        written = await manager.metric('workqueue_adds_total{name="job"}')

        async def busy(manager: Manager = manager, written: float = written) -> bool:
            return await manager.metric('workqueue_adds_total{name="job"}') >= written + 3 or await done(scenario)

        await until(busy, "it works")
        await manager.kill()
    await start(kubeconfig)
    await scenario.until_finished("a", "b", "c")
    for name in ("a", "b", "c"):
        assert (await scenario.job(name))["status"]["succeeded"] == 4
        assert len(await scenario.pods(name)) == 4


async def done(scenario: Scenario) -> bool:
    return all([is_true(await scenario.job(name), "Complete") for name in ("a", "b", "c")])


# --- what happens to servers ---


async def restart(plane: ControlPlane) -> None:
    """Off the event loop, which the test's own kubelet needs."""
    await asyncio.to_thread(plane.stop_api_server)
    await asyncio.to_thread(plane.start_api_server)


async def compact(plane: ControlPlane, revision: int) -> None:
    """Have etcd forget everything before this revision."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{plane.etcd}/v3/kv/compaction", json={"revision": str(revision), "physical": True}) as answer,
    ):
        assert answer.status == 200, await answer.text()


async def until_refused(plane: ControlPlane, token: str) -> None:
    async def refused() -> bool:
        trusting: ssl.SSLContext = plane.ssl_context()
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session,
            session.get(f"{plane.url}/version", headers=headers) as answer,
        ):
            return answer.status == 401

    await until(refused, "the old token is refused", INVALID_WITHIN)
