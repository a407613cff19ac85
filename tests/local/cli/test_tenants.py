"""Two namespaces with queues and Jobs of the same names: every answer is about one of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from job_controller.model import Key
from queue_manager.api.api_resources import LOCAL_QUEUES, NAMESPACES, WORKLOADS
from queue_manager.cli.ps import job_table
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request
from queue_manager.visibility.pending_summary import explanation_path, local_queue_path
from tests.local.cli.conftest import JOB, User
from tests.local.cluster.conftest import EMBEDDED
from tests.local.cluster.fleet import Fleet
from tests.waiting import until

TEAMS = ("team-a", "team-b")
REQUESTS = {"team-a": "1500m", "team-b": "1700m"}  # of 2 cpu: the one that is submitted first runs


@pytest.fixture
async def teams(user: Callable[..., User]) -> User:
    """In each namespace a LocalQueue `user-queue` and a Job `train`; that of team-a runs, that of team-b waits."""
    me = user()
    async with me.up.client() as client:
        for team in TEAMS:
            with contextlib.suppress(ApiError):  # a real server has it from the test before
                await client.create(NAMESPACES, "", {"metadata": {"name": team}})
            spec = {"clusterQueue": "cluster-queue"}
            await client.create(LOCAL_QUEUES, team, {"metadata": {"name": "user-queue"}, "spec": spec})
            job = JOB.format(name="train", command="[sleep, '600']", spec="backoffLimit: 6", cpu=REQUESTS[team])
            me.says("submit", "-n", team, "-f", "-", stdin=job)
            wanted = {"team-a": "Running", "team-b": "Pending"}[team]
            await until(lambda team=team, wanted=wanted: is_in(client, team, wanted), f"{team}/train is {wanted}")
    return me


async def is_in(client: RestClient, team: str, state: str) -> bool:
    return [(row.namespace, row.state) for row in await job_table(client, team)] == [(team, state)]


async def test_each_answer_is_about_the_queue_and_job_of_one_namespace(teams: User) -> None:
    for team, running in (("team-a", True), ("team-b", False)):
        [row] = teams.json("ps", "-n", team)
        assert (row["namespace"], row["name"], row["state"]) == (team, "train", "Running" if running else "Pending")
        explained = teams.json("explain", "train", "-n", team)
        assert explained["namespace"] == team
        assert explained["code"].partition("/")[0] == ("" if running else "WAIT")
        assert teams.json("show", "train", "-n", team)["namespace"] == team
    if isinstance(teams.up, Fleet):
        return  # a real server serves positions if they are installed: see control_plane/manager/test_visibility.py
    async with teams.up.client() as client:
        positions = {team: await pending(client, team) for team in TEAMS}
        workloads = {team: (await client.list(WORKLOADS, team))[0]["metadata"]["name"] for team in TEAMS}
    assert positions == {"team-a": [], "team-b": [("team-b", workloads["team-b"])]}


@EMBEDDED
async def test_an_explanation_of_the_visibility_api_counts_the_jobs_of_other_namespaces(teams: User) -> None:
    seen = teams.json("explain", "train", "-n", "team-b")
    async with teams.up.client() as client:
        path = explanation_path(Key("team-b", "user-queue"))
        answers = {
            team: await client.transport.request(
                Request("GET", path, {"workload": (await client.list(WORKLOADS, team))[0]["metadata"]["name"]})
            )
            for team in TEAMS
        }
    assert answers["team-a"].status == 404  # its Workload is in no queue of team-b
    assert b"team-a" not in answers["team-b"].body
    tree = msgspec.json.decode(answers["team-b"].body)
    assert (tree["kind"], tree["metadata"]["namespace"]) == ("WorkloadExplanation", "team-b")
    found = tree["explanation"]
    for key in ("code", "sentence", "flavors", "position", "preemptions"):
        assert found[key] == seen[key], key
    [own] = seen["holders"]
    assert found["holders"] == [{**own, "namespace": "", "queue": "", "jobs": []}]


@EMBEDDED
async def test_queues_of_a_namespace_are_those_that_its_local_queues_name(teams: User) -> None:
    whole = {row["name"]: row for row in teams.json("queues")}["cluster-queue"]
    assert {f"{team}/user-queue" for team in TEAMS} <= set(whole["localQueues"])
    for team in TEAMS:
        [row] = teams.json("queues", "-n", team)
        assert row == {
            **whole,
            "localQueues": [f"{team}/user-queue"],
            "oldestWaitingSeconds": row["oldestWaitingSeconds"],
        }
    assert teams.json("queues", "-n", "kube-system") == []
    assert teams.says("queues", "-n", "kube-system") == "no LocalQueues in namespace kube-system\n"


async def test_a_hold_of_one_queue_leaves_its_namesake_alone(teams: User) -> None:
    assert "held" in teams.says("hold", "user-queue", "-n", "team-b")
    async with teams.up.client() as client:
        policies = {team: await stop_policy(client, team) for team in TEAMS}
    assert policies == {"team-a": "None", "team-b": "Hold"}
    assert teams.json("explain", "train", "-n", "team-b")["code"].startswith("HOLD/")
    assert teams.json("ps", "-n", "team-a")[0]["state"] == "Running"


async def pending(client: RestClient, team: str) -> list[tuple[str, str]]:
    """Namespace and name of the Workloads that the visibility API lists for the team's queue."""
    answer = await client.transport.request(Request("GET", local_queue_path(Key(team, "user-queue"))))
    assert answer.status == 200, answer.body
    tree: dict[str, Any] = msgspec.json.decode(answer.body)
    return [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in tree["items"]]


async def stop_policy(client: RestClient, team: str) -> str:
    found = await client.get(LOCAL_QUEUES, team, "user-queue")
    return str(found["spec"].get("stopPolicy", "None"))
