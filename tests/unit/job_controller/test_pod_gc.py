"""Pod garbage collection and stale disruptions: decisions, and the controllers on the embedded API server in virtual
time.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from job_controller.model import Pod
from job_controller.pod_gc import GcNode, Removal, failed_patch, missing_nodes, out_of_quarantine, removals
from job_controller.stale_disruption import announced_at, clearing_patch
from queue_manager.api.api_resources import NODES, PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH
from queue_manager.hosting.job_controller_port import attach_job_controller
from queue_manager.hosting.pod_controllers import attach_pod_controllers
from queue_manager.local.server.in_process import LocalTransport
from tests.unit.job_controller.build import at, pod, wire
from tests.unit.job_controller.test_on_the_api_server import Cluster, Tree, types, virtually

NO_NODES: dict[str, GcNode] = {}


def node(name: str = "node", *taints: str, ready: bool = True) -> dict[str, GcNode]:
    tree = {
        "metadata": {"name": name},
        "spec": {"taints": [{"key": key, "effect": "NoExecute"} for key in taints]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }
    return {name: msgspec.convert(tree, GcNode)}


def reasons(found: list[Removal]) -> list[tuple[str, str]]:
    return [(removal.pod.metadata.name, removal.reason) for removal in found]


# --- decisions ---


def test_missing_node_is_in_quarantine_for_forty_seconds() -> None:
    pods = [pod("a", node="lost"), pod("b")]
    first = missing_nodes({}, pods, ["node"], at(0))
    later = missing_nodes(first, pods, ["node"], at(39))
    assert (first, out_of_quarantine(later, at(39)), out_of_quarantine(later, at(40))) == (
        {"lost": at(0)},
        [],
        ["lost"],
    )


def test_node_that_comes_back_starts_its_quarantine_anew() -> None:
    pods = [pod("a", node="lost")]
    back = missing_nodes({"lost": at(0)}, pods, ["lost"], at(20))
    assert missing_nodes(back, pods, [], at(30)) == {"lost": at(30)}


def test_quarantine_takes_no_longer_when_the_clock_is_set_back() -> None:
    pods, day = [pod("a", node="lost")], 86_400
    back = missing_nodes({"lost": at(day)}, pods, [], at(10))
    assert out_of_quarantine(missing_nodes(back, pods, [], at(50)), at(50)) == ["lost"]


def test_pods_of_a_node_that_is_gone_are_orphans() -> None:
    found = removals([pod("a", node="lost"), pod("b")], node(), ["lost"])
    assert reasons(found) == [("a", "orphaned")]


def test_deleting_pod_that_was_never_bound_is_removed() -> None:
    found = removals([pod("a", "Pending", node="", deleted=0), pod("b", "Pending", node="")], NO_NODES, [])
    assert reasons(found) == [("a", "unscheduled")]


@pytest.mark.parametrize(
    ("nodes", "deleted", "removed"),
    [
        (node("node", "node.kubernetes.io/out-of-service", ready=False), 0.0, True),
        (node("node", "node.kubernetes.io/out-of-service"), 0.0, False),
        (node("node", ready=False), 0.0, False),
        (node("node", "node.kubernetes.io/out-of-service", ready=False), None, False),
    ],
)
def test_deleting_pod_is_removed_only_from_a_node_out_of_service(
    nodes: dict[str, GcNode], deleted: float | None, removed: bool
) -> None:
    found = removals([pod("a", deleted=deleted)], nodes, [])
    assert reasons(found) == ([("a", "out-of-service")] if removed else [])


def test_of_too_many_ended_pods_evicted_ones_go_first_and_then_the_oldest() -> None:
    evicted = pod("evicted", "Failed", created=9)
    evicted = msgspec.structs.replace(evicted, status=msgspec.structs.replace(evicted.status, reason="Evicted"))
    pods = [pod("new", "Succeeded", created=5), pod("old", "Failed", created=1), evicted, pod("running")]
    assert reasons(removals(pods, node(), [], threshold=1)) == [("evicted", "terminated"), ("old", "terminated")]


@pytest.mark.parametrize("threshold", [0, 3])
def test_ended_pods_stay_below_the_threshold_and_without_one(threshold: int) -> None:
    assert removals([pod("a", "Succeeded"), pod("b", "Failed")], node(), [], threshold) == []


def test_only_orphaned_pods_get_disruption_target() -> None:
    orphan, other = (
        failed_patch(Removal(pod("a"), reason), at(7.5))  # type: ignore[arg-type]
        for reason in ("orphaned", "unscheduled")
    )
    assert other == {"metadata": {"uid": "a"}, "status": {"phase": "Failed"}}
    assert orphan is not None
    assert msgspec.to_builtins(orphan["status"]["conditions"]) == [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastProbeTime": None,
            "lastTransitionTime": wire(at(7)),
        }
    ]


def test_an_orphan_keeps_the_first_cause_of_its_disruption() -> None:
    """KEP-3329: the condition is not updated if it is True already."""
    assert failed_patch(Removal(disrupted("Mine"), "orphaned"), at(7)) == {
        "metadata": {"uid": "a"},
        "status": {"phase": "Failed"},
    }
    taken_back = pod("a", conditions=[("DisruptionTarget", "False")])
    again = failed_patch(Removal(taken_back, "orphaned"), at(7))
    assert again is not None
    assert again["status"]["conditions"][0]["reason"] == "DeletionByPodGC"


def test_terminal_pod_keeps_its_phase() -> None:
    assert failed_patch(Removal(pod("a", "Succeeded"), "orphaned"), at(0)) is None


def disrupted(reason: str = "EvictionByEvictionAPI", phase: str = "Running", **more: Any) -> Pod:
    found = pod("a", phase, **more)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": wire(at(0))}
    status = {**msgspec.to_builtins(found.status), "conditions": [condition]}
    return msgspec.convert({**msgspec.to_builtins(found), "status": status}, Pod)


def test_disruption_counts_from_its_announcement() -> None:
    assert announced_at(disrupted()) == at(0)


@pytest.mark.parametrize(
    "kept",
    [
        disrupted("TerminationByKubelet"),
        disrupted(phase="Failed"),
        disrupted(deleted=5),
        pod("a"),
        pod("a", conditions=[("DisruptionTarget", "False"), ("Initialized", "True")]),
    ],
    ids=["by the kubelet", "ended", "being deleted", "not announced", "taken back"],
)
def test_disruption_in_progress_is_never_stale(kept: Pod) -> None:
    assert announced_at(kept) is None


def test_clearing_empties_reason_and_message() -> None:
    patch = clearing_patch(disrupted(), at(120.9))
    assert patch["metadata"] == {"uid": "a", "resourceVersion": "1"}  # the condition may have been renewed
    (condition,) = patch["status"]["conditions"]
    assert condition == {
        "type": "DisruptionTarget",
        "status": "False",
        "reason": None,
        "message": None,
        "lastTransitionTime": at(120),
    }


# --- on the API server ---


@asynccontextmanager
async def keeping(cluster: Cluster, **options: Any) -> Any:
    runtime = Runtime(LocalTransport(cluster.server, "system:sluice"), cluster.clock, Random(3))
    attach_job_controller(runtime)
    attach_pod_controllers(runtime, **options)
    async with runtime:
        yield runtime


async def bound_to(cluster: Cluster, name: str) -> Tree:
    """The only pod, bound and running."""

    async def there() -> bool:
        return bool(await cluster.pods())

    await cluster.until(there)
    pod_name = (await cluster.pods())[0]["metadata"]["name"]
    target = {"kind": "Node", "name": name}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod_name}, "target": target}
    await cluster.user.create(PODS, "default", binding, name=pod_name, subresource="binding")
    return await report(cluster, pod_name, {"phase": "Running"})


def disruption(pod: Tree) -> Tree:
    return next(c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget")


async def report(cluster: Cluster, name: str, status: Tree) -> Tree:
    patch = {"status": status}
    return await cluster.user.patch(PODS, "default", name, patch, subresource="status", content_type=STRATEGIC_PATCH)


@virtually
async def test_job_continues_after_its_node_is_deleted() -> None:
    cluster = Cluster()
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
    async with keeping(cluster) as runtime:
        await cluster.user.create(NODES, "", {"metadata": {"name": "n"}})
        await cluster.submit(backoffLimit=0, podFailurePolicy=policy)
        first = await bound_to(cluster, "n")
        await cluster.user.delete(NODES, "", "n")
        began = cluster.clock.now()

        async def replaced() -> bool:
            return any(pod["metadata"]["uid"] != first["metadata"]["uid"] for pod in await cluster.pods())

        await cluster.until(replaced)
        assert timedelta(seconds=40) <= cluster.clock.now() - began <= timedelta(seconds=90)
        reported = [tree for _, kind, tree in cluster.history if kind == "pods" and tree["status"]["phase"] == "Failed"]
        condition = disruption(reported[0])
        assert (condition["reason"], condition["message"]) == ("DeletionByPodGC", "PodGC: node no longer exists")
        labels = {"namespace": "default", "reason": "orphaned"}
        assert runtime.metrics.value("pod_gc_collector_force_delete_pods_total", labels) == 1
        assert "failed" not in (await cluster.job())["status"]


@virtually
async def test_pod_deleted_before_it_was_bound_is_ended_so_that_its_job_goes_on() -> None:
    cluster = Cluster()
    async with keeping(cluster):
        await cluster.submit(podReplacementPolicy="Failed")

        async def there() -> bool:
            return bool(await cluster.pods())

        await cluster.until(there)
        (first,) = await cluster.pods()
        await cluster.user.delete(PODS, "default", first["metadata"]["name"])

        async def counted() -> bool:
            return (await cluster.job())["status"].get("failed", 0) == 1

        await cluster.until(counted, seconds=25)


@virtually
async def test_ended_pods_beyond_the_threshold_are_deleted() -> None:
    cluster = Cluster()
    async with keeping(cluster, terminated_pods=1):
        await cluster.submit(completions=3, parallelism=3)

        async def three() -> bool:
            return len(await cluster.pods()) == 3

        await cluster.until(three)
        for tree in await cluster.pods():
            await report(cluster, tree["metadata"]["name"], {"phase": "Succeeded"})
        status = await cluster.finished()

        async def one() -> bool:
            return len(await cluster.pods()) == 1

        await cluster.until(one, seconds=45)
        assert (status["succeeded"], types(status)) == (3, ["SuccessCriteriaMet", "Complete"])


@virtually
async def test_stale_disruption_target_is_cleared_after_two_minutes() -> None:
    cluster = Cluster()
    async with keeping(cluster):
        await cluster.user.create(NODES, "", {"metadata": {"name": "n"}})
        await cluster.submit()
        tree = await bound_to(cluster, "n")
        name = tree["metadata"]["name"]
        now = wire(cluster.clock.now().replace(microsecond=0))
        reported = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "m",
            "lastTransitionTime": now,
        }
        await report(cluster, name, {"conditions": [reported]})
        began = cluster.clock.now()

        async def cleared() -> bool:
            return bool(disruption(await cluster.user.get(PODS, "default", name))["status"] == "False")

        await cluster.until(cleared)
        assert timedelta(seconds=119) <= cluster.clock.now() - began <= timedelta(seconds=121)
        condition = disruption(await cluster.user.get(PODS, "default", name))
        assert "reason" not in condition
        assert "message" not in condition


@virtually
async def test_renewed_disruption_target_is_stale_two_minutes_later() -> None:
    cluster = Cluster()
    async with keeping(cluster):
        await cluster.user.create(NODES, "", {"metadata": {"name": "n"}})
        await cluster.submit()
        name = (await bound_to(cluster, "n"))["metadata"]["name"]

        async def announce() -> None:
            since = wire(cluster.clock.now().replace(microsecond=0))
            reported = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "m"}
            await report(cluster, name, {"conditions": [{**reported, "lastTransitionTime": since}]})

        async def cleared() -> bool:
            return bool(disruption(await cluster.user.get(PODS, "default", name))["status"] == "False")

        await announce()
        await asyncio.sleep(100)
        await announce()
        began = cluster.clock.now()
        await cluster.until(cleared)
        assert timedelta(seconds=119) <= cluster.clock.now() - began <= timedelta(seconds=121)


@virtually
async def test_stale_disruption_target_is_cleared_when_the_clock_was_set_back() -> None:
    """After two minutes, although the announcement was written a day ahead of the clock."""
    cluster = Cluster()
    async with keeping(cluster):
        await cluster.user.create(NODES, "", {"metadata": {"name": "n"}})
        await cluster.submit()
        name = (await bound_to(cluster, "n"))["metadata"]["name"]
        reported = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m"}
        ahead = wire(cluster.clock.now().replace(microsecond=0) + timedelta(days=1))
        await report(cluster, name, {"conditions": [{**reported, "lastTransitionTime": ahead}]})

        async def cleared() -> bool:
            return bool(disruption(await cluster.user.get(PODS, "default", name))["status"] == "False")

        await cluster.until(cleared, seconds=121)
