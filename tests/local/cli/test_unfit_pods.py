"""That all commands and the client judge a Job alike whose pods fit no node, by their size or nodeSelector, within its
quota.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from queue_manager.api.api_resources import NODES
from queue_manager.api.keys import LOCAL_NODE
from queue_manager.client import Client, NeverStarts
from tests.local.cli.conftest import JOB, User
from tests.local.cli.test_causes import quota_of
from tests.local.cluster.conftest import EMBEDDED
from tests.waiting import until

LACKS = "cpu allocatable; a pod requests 17"
SECONDS = 60


def too_large(name: str) -> str:
    return JOB.format(name=name, command="[sleep, '600']", spec="backoffLimit: 6", cpu="17")


def explained(me: User, name: str) -> tuple[int, str, str]:
    done = me.run("explain", name, "-o", "json")
    found = json.loads(done.stdout)
    return done.returncode, found["code"], found["sentence"]


def agree(me: User, suffix: str) -> None:
    """Each command calls a new Job, and `big`, which exists, one that never starts."""
    never = "can never start: the only node,"
    name = f"submitted-{suffix}"
    submitted = me.run("submit", "-f", "-", "-o", "json", stdin=too_large(name))
    (row,) = json.loads(submitted.stdout)
    assert (submitted.returncode, row["never"], row["note"].startswith(never)) == (2, True, True)
    assert row["note"].endswith(LACKS)
    for each in ("big", name):
        code, reason, sentence = explained(me, each)
        assert (code, reason, LACKS in sentence) == (2, "NEVER/ExceedsLargestNode", True)
        waited = me.run("wait", each, "-o", "json", "--timeout", "60s")
        (outcome,) = json.loads(waited.stdout)
        assert (waited.returncode, outcome["result"], LACKS in outcome["reason"]) == (2, "never", True)
        assert me.json("show", each)["noNode"].endswith(LACKS)
        assert LACKS in " ".join(me.says("show", each).split())
    rows = {row["name"]: row["noNode"].endswith(LACKS) for row in me.json("ps") if row["name"] != "filler"}
    assert rows == dict.fromkeys(rows, True)
    assert {"big", name} <= rows.keys()
    problems = json.loads(me.run("doctor", "-o", "json").stdout)["problems"]
    assert [LACKS in one["sentence"] for one in problems if one["code"] == "TooLargePods"] == [True]
    options = ("--name", f"run-{suffix}", "--image", "local", "--cpu", "17", "--kubeconfig", str(me.up.kubeconfig))
    ran = me.run("run", *options, "--", "true")
    assert (ran.returncode, never in ran.stderr) == (2, True), ran.stderr
    both = me.run("submit", "--wait", "-f", "-", stdin=too_large(f"awaited-{suffix}"))
    assert both.returncode == 2


def client_agrees(me: User, suffix: str) -> None:
    client = Client.from_kubeconfig(me.up.kubeconfig)
    tree = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"client-{suffix}"},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "local",
                            "command": ["true"],
                            "resources": {"requests": {"cpu": "17"}},
                        }
                    ],
                }
            }
        },
    }
    with pytest.raises(NeverStarts, match=LACKS):
        client.submit(tree, queue="user-queue")
    with pytest.raises(NeverStarts, match=LACKS):
        client.wait("big", timeout=SECONDS)


async def never_comes_before_a_hold(me: User) -> None:
    """Of a node, and of the queue's limit of 17 cpu."""
    me.run("submit", "-f", "-", stdin=JOB.format(name="vast", command="['true']", spec="backoffLimit: 6", cpu="64"))
    me.says("hold", "user-queue")

    def reasons() -> dict[str, str]:
        lines = me.says("ps", "--state", "pending").replace("\n  ", " ").splitlines()
        return {line.split()[1]: line for line in lines}

    held = "LocalQueue user-queue is held (sluice release user-queue)"
    await until(lambda: held in reasons()["vast"], "the hold is known")
    assert "can never start: asks 64 cpu, queue limit 17; " in reasons()["vast"]
    assert "can never start: the only node," in reasons()["big"]
    me.says("release", "user-queue")
    me.says("cancel", "vast")


@EMBEDDED
async def test_all_commands_agree_on_a_pod_larger_than_each_node_of_sluice_up(user: Callable[..., User]) -> None:
    """First while another Job holds quota that they need, then after one was admitted."""
    me = user()
    await quota_of(me, "17")
    me.submit("filler", cpu="1")
    await me.until_state("filler", "Running")
    me.run("submit", "-f", "-", stdin=too_large("big"))
    await me.until_state("big", "Pending")
    agree(me, "busy")
    await asyncio.to_thread(client_agrees, me, "busy")
    await never_comes_before_a_hold(me)
    me.says("cancel", "filler")
    await me.until_state("big", "Starting")
    agree(me, "free")
    await asyncio.to_thread(client_agrees, me, "free")


@EMBEDDED
async def test_a_pod_larger_than_each_node_waits_if_nodes_may_be_added(user: Callable[..., User]) -> None:
    """Without the label that `sluice up` gives its nodes they are those of any other cluster."""
    me = user()
    await quota_of(me, "17")
    async with me.up.client() as client:
        for node in await client.list(NODES):
            patch = {"metadata": {"labels": {LOCAL_NODE: None}}}
            await client.patch(NODES, "", node["metadata"]["name"], patch)
    me.submit("filler", cpu="1")
    await me.until_state("filler", "Running")
    me.submit("big", cpu="17")
    await me.until_state("big", "Pending")
    assert explained(me, "big")[:2] == (0, "WAIT/WaitingForQuota")
    assert me.run("wait", "big", "--timeout", "1s").returncode == 1
    me.says("cancel", "filler")
    await until(lambda: explained(me, "big")[1] == "WAIT/Unschedulable", "its pod found no node")
    code, _, sentence = explained(me, "big")
    assert (code, sentence.endswith(f"{LACKS}; it starts if a larger node is added.")) == (0, True)
    assert me.json("show", "big")["noNode"].endswith(LACKS)


@EMBEDDED
async def test_all_commands_agree_on_a_node_selector_that_matches_no_node(user: Callable[..., User]) -> None:
    """While another Job holds the quota. It starts once a node has the label."""
    me = user()
    await quota_of(me, "1")
    me.submit("filler", cpu="1")
    await me.until_state("filler", "Running")
    picky = JOB.format(name="picky", command="[sleep, '600']", spec="backoffLimit: 6", cpu="1")
    picky = picky.replace("    spec:\n", "    spec:\n      nodeSelector: {disk: ssd}\n", 1)
    lacks = "no node has the label disk=ssd of its nodeSelector"
    submitted = me.run("submit", "-f", "-", stdin=picky)
    assert (submitted.returncode, f"can never start: {lacks}" in " ".join(submitted.stdout.split())) == (2, True)
    await me.until_state("picky", "Pending")
    code, reason, sentence = explained(me, "picky")
    assert (code, reason, sentence) == (2, "NEVER/NoMatchingNode", f"N{lacks[1:]}.")
    assert {row["name"]: row["noNode"] for row in me.json("ps")} == {"filler": "", "picky": lacks}
    assert f"can never start: {lacks}" in " ".join(me.says("show", "picky").split())
    assert me.run("wait", "picky", "--timeout", "60s").returncode == 2
    problems = json.loads(me.run("doctor", "-o", "json").stdout)["problems"]
    assert [one["code"] for one in problems if lacks in one["sentence"]] == ["NoMatchingNode"]
    async with me.up.client() as client:
        for node in await client.list(NODES):
            await client.patch(NODES, "", node["metadata"]["name"], {"metadata": {"labels": {"disk": "ssd"}}})
    assert explained(me, "picky")[1] == "WAIT/WaitingForQuota"
    me.says("cancel", "filler")
    await me.until_state("picky", "Running")
