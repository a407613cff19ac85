"""Kueue's metrics of Workloads, with their names and labels."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import job_controller
import queue_manager
from queue_manager import assets
from queue_manager.api import metric_families
from queue_manager.api.api_resources import JOBS, LOCAL_QUEUES, WORKLOADS
from queue_manager.api.metric_families import FAMILIES, TABLES, render
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.cluster import NS, Cluster, cluster

HANGS = PodScript(ready_after=None, ends_after=None)
LABELS = {
    "build_info": "git_version git_commit build_date go_version compiler platform",
    "admission_attempts_total": "result",
    "admission_attempt_duration_seconds": "result",
    "pending_workloads": "cluster_queue status",
    "pending_scheduling_hashes": "cluster_queue status",
    "local_queue_pending_workloads": "name namespace status",
    "finished_workloads": "cluster_queue",
    "local_queue_finished_workloads": "name namespace",
    "finished_workloads_total": "cluster_queue priority_class",
    "local_queue_finished_workloads_total": "name namespace priority_class",
    "quota_reserved_workloads_total": "cluster_queue priority_class",
    "local_queue_quota_reserved_workloads_total": "name namespace priority_class",
    "admitted_workloads_total": "cluster_queue priority_class",
    "local_queue_admitted_workloads_total": "name namespace priority_class",
    "execution_time_seconds": "cluster_queue priority_class",
    "local_queue_execution_time_seconds": "name namespace priority_class",
    "quota_reserved_wait_time_seconds": "cluster_queue priority_class",
    "local_queue_quota_reserved_wait_time_seconds": "name namespace priority_class",
    "admission_wait_time_seconds": "cluster_queue priority_class",
    "local_queue_admission_wait_time_seconds": "name namespace priority_class",
    "ready_wait_time_seconds": "cluster_queue priority_class",
    "local_queue_ready_wait_time_seconds": "name namespace priority_class",
    "admitted_until_ready_wait_time_seconds": "cluster_queue priority_class",
    "local_queue_admitted_until_ready_wait_time_seconds": "name namespace priority_class",
    "pods_ready_to_evicted_time_seconds": "cluster_queue reason underlying_cause",
    "workload_creation_latency_seconds": "job_kind",
    "evicted_workloads_total": "cluster_queue priority_class reason underlying_cause",
    "local_queue_evicted_workloads_total": "name namespace priority_class reason underlying_cause",
    "evicted_workloads_once_total": "cluster_queue priority_class reason underlying_cause",
    "workload_eviction_latency_seconds": "cluster_queue reason",
    "reserving_active_workloads": "cluster_queue",
    "local_queue_reserving_active_workloads": "name namespace",
    "admitted_active_workloads": "cluster_queue",
    "local_queue_admitted_active_workloads": "name namespace",
    "cluster_queue_status": "cluster_queue status",
    "local_queue_status": "active name namespace",
    "unadmitted_workloads": "cluster_queue reason underlying_cause",
    "local_queue_unadmitted_workloads": "cluster_queue name namespace reason underlying_cause",
    "cluster_queue_resource_pending": "cluster_queue resource",
    "cluster_queue_resource_reservation": "cluster_queue cohort flavor resource",
    "cluster_queue_resource_usage": "cluster_queue cohort flavor resource",
    "cluster_queue_nominal_quota": "cluster_queue cohort flavor resource",
    "cluster_queue_borrowing_limit": "cluster_queue cohort flavor resource",
    "cluster_queue_lending_limit": "cluster_queue cohort flavor resource",
    "local_queue_resource_reservation": "flavor name namespace resource",
    "local_queue_resource_usage": "flavor name namespace resource",
    "cohort_subtree_admitted_workloads_total": "cohort priority_class",
    "cohort_subtree_admitted_active_workloads": "cohort",
    "cohort_subtree_quota": "cohort flavor resource",
    "cohort_subtree_resource_reservations": "cohort flavor resource",
    "cluster_queue_weighted_share": "cluster_queue cohort",
    "cohort_weighted_share": "cohort",
    "local_queue_admission_fair_sharing_usage": "cluster_queue name namespace",
    "cohort_info": "cohort parent_cohort root_cohort",
    "cluster_queue_info": "cluster_queue parent_cohort root_cohort",
}
"""What one finished, one evicted and one waiting Workload leave behind, with all that can be switched on."""


async def busy(c: Cluster) -> None:
    """a has ended, b ran and was deactivated, d timed out, e is pending."""
    await c.queues("1", cohortName="team", admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"})
    await c.submit("a")
    await asyncio.sleep(10)
    await c.submit("b")
    await asyncio.sleep(5)
    meta = (await c.workload("b"))["metadata"]
    await c.client.patch(WORKLOADS, NS, meta["name"], {"spec": {"active": False}})
    await asyncio.sleep(5)
    await c.submit("d")
    await c.submit("e", cpu="500m")
    await asyncio.sleep(70)


PREEMPTIONS = "kueue_preempted_workloads_total"
SKIPS = "kueue_admission_cycle_preemption_skips"
CONFIG = """metrics: {enableClusterQueueResources: true}
waitForPodsReady: {timeout: 60s}
fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare]}
admissionFairSharing: {usageHalfLifeTime: 1h, usageSamplingInterval: 1m}
"""
PODS = {"a": PodScript(0.2, 3.0), "d": HANGS}


@pytest.fixture(scope="module")
def lines() -> list[str]:
    async def scenario() -> list[str]:
        async with cluster(CONFIG, **PODS) as c:
            await busy(c)
            return c.world.metrics.exposition().splitlines()

    return run_virtual(scenario())


def test_each_metric_has_the_labels_of_kueue_and_the_role_of_the_replica(lines: list[str]) -> None:
    seen: dict[str, set[str]] = {}
    for line in lines:
        found = re.match(r"kueue_(\w+?)(_bucket|_sum|_count)?\{(.*)\} ", line)
        if found:
            names = set(re.findall(r'(\w+)="', found[3])) - ({"le"} if found[2] else set())
            seen.setdefault(found[1], set()).add(" ".join(sorted(names)))
    expected = {name: {" ".join(sorted([*labels.split(), "replica_role"]))} for name, labels in LABELS.items()}
    assert seen == expected


def test_each_metric_has_a_help_text(lines: list[str]) -> None:
    described = {line.split()[2] for line in lines if line.startswith("# HELP") and len(line.split()) > 3}
    assert described == {line.split()[2] for line in lines if line.startswith("# TYPE")}


def test_each_metric_has_the_type_and_the_labels_that_its_family_declares(lines: list[str]) -> None:
    declared = {family.name: family for family in FAMILIES}
    types = dict(line.split()[2:] for line in lines if line.startswith("# TYPE"))
    assert types == {name: declared[name].kind for name in types}
    series = re.compile(r"(\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? [^ ]+").fullmatch
    for found in filter(None, map(series, lines)):
        names = set(re.findall(r'(\w+)="', found[2] or "")) - {"le"}
        assert names == set(declared[found[1]].labels), found[0]


def test_no_family_is_declared_that_nothing_counts(lines: list[str]) -> None:
    """All families of the queue are in the exposition, except those of admission checks and preemptions; the others
    are named in the code.
    """
    seen = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    checks = "admission_checks_wait_time_seconds"
    queue = {family.name for title in list(TABLES)[:2] for family in TABLES[title]}
    unseen = {f"kueue_{checks}", f"kueue_local_queue_{checks}", PREEMPTIONS, SKIPS}
    assert queue - seen == unseen
    packages = (Path(job_controller.__file__).parent, Path(queue_manager.__file__).parent)
    files = {file for package in packages for file in package.rglob("*.py")} - {Path(metric_families.__file__)}
    code = "".join(file.read_text() for file in files)
    others = {family.name for family in FAMILIES} - queue
    assert not [name for name in others if re.sub("^(workqueue|job_controller)_", "", name) not in code]


def test_the_table_in_the_documentation_is_up_to_date() -> None:
    assert (assets.config() / "METRICS.md").read_text() == render()


@pytest.mark.parametrize(
    "expected",
    [
        'kueue_finished_workloads{cluster_queue="cq",replica_role="standalone"} 1.0',
        'kueue_local_queue_finished_workloads{name="lq",namespace="ns",replica_role="standalone"} 1.0',
        'kueue_unadmitted_workloads{cluster_queue="cq",reason="NoReservation",replica_role="standalone",'
        'underlying_cause="Deactivated"} 1.0',
        'kueue_cluster_queue_resource_pending{cluster_queue="cq",replica_role="standalone",resource="cpu"} 1.0',
        'kueue_local_queue_resource_usage{flavor="default",name="lq",namespace="ns",replica_role="standalone",'
        'resource="cpu"} 0.5',
        'kueue_local_queue_evicted_workloads_total{name="lq",namespace="ns",priority_class="",'
        'reason="PodsReadyTimeout",replica_role="standalone",underlying_cause="WaitForStart"} 1.0',
        'kueue_pods_ready_to_evicted_time_seconds_count{cluster_queue="cq",reason="Deactivated",'
        'replica_role="standalone",underlying_cause=""} 1.0',
        'kueue_workload_creation_latency_seconds_count{job_kind="Job",replica_role="standalone"} 4.0',
        'kueue_cohort_subtree_admitted_workloads_total{cohort="team",priority_class="",replica_role="standalone"} 4.0',
        'kueue_cohort_info{cohort="team",parent_cohort="",replica_role="standalone",root_cohort="team"} 1.0',
        'kueue_pending_scheduling_hashes{cluster_queue="cq",replica_role="standalone",status="active"} 0.0',
    ],
)
def test_counters_and_gauges_have_the_values_of_the_scenario(lines: list[str], expected: str) -> None:
    name = expected.partition("{")[0]
    assert expected in lines, [line for line in lines if line.startswith(name)]


def test_a_pods_ready_timeout_is_not_counted_as_time_of_readiness(lines: list[str]) -> None:
    """Its pods never became ready."""
    assert not any("pods_ready_to_evicted" in line and "PodsReadyTimeout" in line for line in lines)


def test_the_causes_of_pending_workloads_follow_their_conditions() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1")
            await c.submit("a")
            await c.submit("b")
            await c.submit("huge", cpu="100")
            await c.submit("lost", queue="nowhere")
            await asyncio.sleep(5)
            c.world.metrics.exposition()

            def count(cause: str, cluster_queue: str = "cq") -> float:
                own = {"cluster_queue": cluster_queue, "reason": "NoReservation", "underlying_cause": cause}
                return c.world.metrics.value("kueue_unadmitted_workloads", own)

            assert count("WaitingForQuota") == 1
            assert count("ExceedsMaxQuota") == 1
            assert count("Misconfigured", "") == 1
            await c.client.delete(JOBS, NS, "huge", propagation="Background")
            await asyncio.sleep(5)
            assert "ExceedsMaxQuota" not in c.world.metrics.exposition()

    run_virtual(scenario())


def test_only_selected_local_queues_have_metrics() -> None:
    async def scenario() -> None:
        chosen = "metrics: {localQueueMetrics: {enable: true, localQueueSelector: {matchLabels: {team: a}}}}\n"
        async with cluster(chosen) as c:
            await c.queues()
            await c.local_queue("other")
            await c.client.patch(LOCAL_QUEUES, NS, "lq", {"metadata": {"labels": {"team": "a"}}})
            await c.submit("x")
            await c.submit("y", queue="other")
            await asyncio.sleep(5)
            text = c.world.metrics.exposition()
            assert set(re.findall(r'kueue_local_queue_\w+\{.*?\bname="(\w+)"', text)) == {"lq"}

    run_virtual(scenario())


def test_a_preemption_is_counted_once_as_such_and_once_as_an_eviction() -> None:
    async def scenario() -> None:
        async with cluster(high=PodScript(0.2, 3.0)) as c:
            await c.queues("1", preemption={"withinClusterQueue": "LowerPriority"})
            await c.apply_class("high", 100)
            await c.submit("low")
            await c.until(c.running, ["low"])
            await c.submit("high", labels={"kueue.x-k8s.io/priority-class": "high"})
            await c.until(c.running, ["high"])
            metrics = c.world.metrics
            rule = {"preempting_cluster_queue": "cq", "reason": "InClusterQueue"}
            assert metrics.value(PREEMPTIONS, rule) == 1
            evicted = {"cluster_queue": "cq", "reason": "Preempted", "underlying_cause": "", "priority_class": ""}
            assert metrics.value("kueue_evicted_workloads_total", evicted) == 1
            writes = "sluice_workload_status_writes_total"
            assert metrics.value(writes, {"cause": "preemption"}) == 2  # the victim's, and what its preemptor waits for

    run_virtual(scenario())
