"""A manager that waits for the Lease answers the visibility API as the leader does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from queue_manager.engine.rest_client import RestClient
from queue_manager.operator.required_permissions import ALL, LEADER, rule, rules
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS, Manager
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.manager.service_account import account, write_kubeconfig
from tests.control_plane.manager.test_metrics_access import delegate_authentication
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

ROOT = "/apis/visibility.kueue.x-k8s.io/v1beta2"
Position = tuple[str, int, int]


@pytest.fixture
async def pair(
    api: RestClient, namespace: str, plane: ControlPlane, tmp_path: Path, start: Start
) -> tuple[Manager, Manager]:
    """A leader, and a manager that waits, both with the visibility API."""
    times = "leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 1s"
    config = f"{ALL_JOBS}leaderElection: {{resourceNamespace: {namespace}, {times}}}\n"
    who = await account(api, namespace, [*rules(ALL), rule(LEADER)])
    await delegate_authentication(api, namespace, who.name)
    token, _ = await who.token()
    managers = []
    for name, line in (("first", "ready"), ("second", "waiting: ")):
        (tmp_path / name).mkdir()
        kubeconfig = write_kubeconfig(tmp_path / name / "kubeconfig", plane.url, {"token": token}, plane)
        managers.append(await start(kubeconfig, "--visibility-port", "0", config=config, until=line))
        managers[-1].may_be_forbidden = True  # it has no role for the ConfigMap of the front proxy
    return managers[0], managers[1]


async def read_json(manager: Manager, plane: ControlPlane, path: str) -> tuple[int, dict[str, Any]]:
    [line] = [line for line in manager.lines if "/apis/visibility" in line]
    url = re.sub(r"/apis/.*", "", line.removeprefix("serving ")) + ROOT + path
    headers = {"Authorization": f"Bearer {plane.token}"}
    unverified = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(connector=unverified, headers=headers) as session, session.get(url) as answer:
        return answer.status, json.loads(await answer.read())


async def explanation(manager: Manager, plane: ControlPlane, scenario: Scenario) -> dict[str, Any]:
    """The explanation of Job d, which is the third."""
    queue = f"/namespaces/{scenario.namespace}/localqueues/lq"
    _, page = await read_json(manager, plane, f"{queue}/pendingworkloads")
    name = page["items"][2]["metadata"]["name"]
    status, found = await read_json(manager, plane, f"{queue}/explanation?workload={name}")
    assert status == 200, found
    record = dict(found["explanation"])
    assert (record["name"], record["state"], record["position"]["clusterQueue"]) == ("d", "Pending", 3)
    assert [row["jobs"] for row in record["holders"]] == [[f"{scenario.namespace}/a"]]
    return record


async def read(manager: Manager, plane: ControlPlane, path: str) -> tuple[int, list[Position]]:
    """The status, and (Job, position in the ClusterQueue, position in the LocalQueue) of each item."""
    status, tree = await read_json(manager, plane, path)
    items = tree.get("items", [])
    return status, [
        (
            item["metadata"]["ownerReferences"][0]["name"],
            item["positionInClusterQueue"],
            item["positionInLocalQueue"],
        )
        for item in items
    ]


async def occupy(scenario: Scenario) -> None:
    """Create the queues, and a Job that leaves no quota for others."""
    await scenario.queues()
    await scenario.submit("a", parallelism=4, completions=4)
    await scenario.until_admitted("a")


async def test_a_replica_that_waits_answers_with_the_positions_of_the_leader(
    pair: tuple[Manager, Manager], scenario: Scenario, plane: ControlPlane
) -> None:
    first, second = pair
    await occupy(scenario)
    for number, name in enumerate(("b", "c", "d")):
        await scenario.submit(name)
        for path in (f"/clusterqueues/{scenario.namespace}", f"/namespaces/{scenario.namespace}/localqueues/lq"):
            expected = [(name, place, place) for place, name in enumerate("bcd"[: number + 1])]
            for manager in (first, second):

                async def is_listed(manager: Manager = manager, path: str = path, expected: object = expected) -> bool:
                    return await read(manager, plane, f"{path}/pendingworkloads") == (200, expected)

                await until(is_listed, f"{expected} in {path}")
    assert await second.get("/readyz") == (200, "ok\n")
    assert await explanation(first, plane, scenario) == await explanation(second, plane, scenario)
    assert (await read(second, plane, "/clusterqueues/unknown/pendingworkloads"))[0] == 404


async def test_a_replica_answers_without_a_gap_while_it_takes_over(
    pair: tuple[Manager, Manager], scenario: Scenario, plane: ControlPlane
) -> None:
    first, second = pair
    await occupy(scenario)
    await scenario.submit("b")
    path, pending = f"/clusterqueues/{scenario.namespace}/pendingworkloads", (200, [("b", 0, 0)])

    async def is_listed() -> bool:
        return await read(second, plane, path) == pending

    await until(is_listed, "the replica has filled its caches")
    await first.kill()
    status = 'leader_election_master_status{name="c1f6bfd2.kueue.x-k8s.io"}'
    answers = []

    async def leads() -> bool:
        answers.append(await read(second, plane, path))
        return await second.metric(status) == 1 and (await second.get("/readyz"))[0] == 200

    await until(leads, "the replica leads, and its caches are filled")
    answers += [await read(second, plane, path) for _ in range(10)]
    assert answers == [pending] * len(answers)
