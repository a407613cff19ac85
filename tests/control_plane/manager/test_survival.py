"""Outages between the manager and the API server that must neither end the manager nor lose a Job."""

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

from queue_manager.api.api_resources import CRDS, JOBS, WORKLOADS
from queue_manager.configuration import loads
from queue_manager.engine import kubeconfig as kubeconfigs
from queue_manager.engine.renewing_transport import ClusterTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.operator.leadership_terms import Controllers
from tests.control_plane.conftest import install_kinds
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS, Manager
from tests.control_plane.manager.proxy import WRITES, Proxy
from tests.control_plane.manager.scenario import Scenario, is_true
from tests.control_plane.manager.service_account import account, write_kubeconfig
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = [pytest.mark.control_plane, pytest.mark.usefixtures("running_pods")]

LISTS_OF_JOBS = 'reflector_lists_total{resource="jobs.batch"}'
SMALL = ("namespaces", "limitranges", "priorityclasses.scheduling.k8s.io")


async def test_a_restart_of_the_api_server(
    scenario: Scenario, kubeconfig: Path, start: Start, plane: ControlPlane
) -> None:
    """Jobs from before and after the restart end, in the same manager process."""
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


async def test_compacted_history(
    scenario: Scenario, proxied: Path, proxy: Proxy, start: Start, plane: ControlPlane
) -> None:
    """A watch gets 410 Gone: the manager lists anew and finds what it missed."""
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
    await restart(plane)  # the watch cache of the API server drops its history as well
    assert await manager.metric(LISTS_OF_JOBS) == 1
    proxy.down = False
    await scenario.until_finished("missed")
    assert await manager.metric(LISTS_OF_JOBS) == 2


async def test_a_busy_server(scenario: Scenario, proxied: Path, proxy: Proxy, start: Start) -> None:
    """429 with Retry-After, for reads and writes."""
    await start(proxied)
    await scenario.queues()
    proxy.refuse(429, 30, to=lambda request: request.method in WRITES)
    proxy.refuse(429, 10, to=lambda request: request.method not in WRITES)
    proxy.cut_watches()
    await scenario.submit("a", parallelism=2, completions=2)
    await scenario.until_finished("a")
    assert proxy.refused > 10


async def test_a_failing_server(scenario: Scenario, proxied: Path, proxy: Proxy, start: Start) -> None:
    """500 for every second request, for a while."""
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


async def test_a_deleted_and_recreated_definition(
    scenario: Scenario, proxied: Path, proxy: Proxy, start: Start, plane: ControlPlane, api: RestClient
) -> None:
    """A Job created while no Workload could be created gets its Workload; a cached 404 is not kept."""
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


async def test_broken_watches(scenario: Scenario, proxied: Path, proxy: Proxy, start: Start) -> None:
    """Connections are reset: watches continue from their last version without listing anew."""
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


async def test_silent_watches(scenario: Scenario, proxied: Path, proxy: Proxy) -> None:
    """Open connections without data are closed after a timeout (2 s here, 150 s by default) and opened anew."""
    transport = ClusterTransport(lambda: kubeconfigs.load(proxied))
    controllers = Controllers(transport, loads(ALL_JOBS), silence=2.0)
    task = asyncio.create_task(controllers.run())
    await controllers.ready.wait()
    await scenario.queues()
    proxy.stalled, begun = True, proxy.watches_begun
    await scenario.submit("a")  # this event is held back, and the connection stays silent

    async def given_up() -> bool:
        return proxy.watches_begun > begun

    await until(given_up, "it connects anew")
    proxy.stalled = False
    await scenario.until_finished("a")
    controllers.stop()
    await task
    await transport.close()


async def test_an_expired_token(
    scenario: Scenario, start: Start, plane: ControlPlane, api: RestClient, tmp_path: Path
) -> None:
    """Its file gets the next token, as the kubelet does; requests answered with 401 are repeated."""
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
    await scenario.submit("meanwhile")  # requests are answered with 401 from now on
    file.write_text((await who.token())[0])
    await scenario.until_finished("meanwhile")
    assert await manager.get("/readyz") == (200, "ok\n")


async def test_a_rotated_kubeconfig(
    scenario: Scenario, start: Start, plane: ControlPlane, proxy: Proxy, api: RestClient, tmp_path: Path
) -> None:
    """Another user and another address: requests and watches move there, and the old address may disappear."""
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


async def test_a_credential_plugin_is_run_again_when_its_token_expires(
    scenario: Scenario, start: Start, plane: ControlPlane, api: RestClient, tmp_path: Path
) -> None:
    who = await account(api, scenario.namespace)
    token, secret = await who.token()
    answer, plugin = tmp_path / "answer.json", tmp_path / "plugin.py"
    plugin.write_text(f"print(open({str(answer)!r}).read())")

    def set_token(token: str) -> None:
        status = {"token": token}
        version = "client.authentication.k8s.io/v1"
        answer.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))

    set_token(token)
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
    set_token((await who.token())[0])
    await who.invalidate(secret)
    await until_refused(plane, token)
    await scenario.submit("b")
    await scenario.until_finished("b")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_with_writes_in_flight_takes_five_seconds_and_loses_nothing(
    scenario: Scenario, proxied: Path, proxy: Proxy, start: Start, number: signal.Signals
) -> None:
    """The server has executed writes whose responses never arrive; after the next start each pod is counted once."""
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


async def test_kills_while_jobs_run(scenario: Scenario, kubeconfig: Path, start: Start) -> None:
    """kill -9 and another start, five times: every pod is counted once."""
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


# --- outages ---


async def restart(plane: ControlPlane) -> None:
    """Restart the API server in a thread: the test's own kubelet needs the event loop."""
    await asyncio.to_thread(plane.stop_api_server)
    await asyncio.to_thread(plane.start_api_server)


async def compact(plane: ControlPlane, revision: int) -> None:
    """Compact etcd up to this revision."""
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

    await until(refused, "the old token is refused")  # the API server caches the verdict on a token for ten seconds
