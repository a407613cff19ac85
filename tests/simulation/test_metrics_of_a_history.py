"""What a scrape returns after a history of submission, admission, preemption, timeout, requeue and deactivation.

The expected series are in metrics_of_a_history.txt, without the prefix `kueue_` and the label replica_role. Buckets are
left out: sum and number of observations are compared.
"""

from __future__ import annotations

import asyncio
import platform
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from queue_manager.api.api_resources import WORKLOADS
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.cluster import NS, Cluster, cluster

CONFIG = """metrics: {enableClusterQueueResources: true}
waitForPodsReady: {timeout: 60s, requeuingStrategy: {backoffBaseSeconds: 10, backoffLimitCount: 1}}
"""
PODS = {
    "done": PodScript(ready_after=1.0, ends_after=10.0),
    "high": PodScript(ready_after=1.0, ends_after=20.0),
    "stuck": PodScript(ready_after=None, ends_after=None),
}
LOW, HIGH = ({"kueue.x-k8s.io/priority-class": name} for name in ("low", "high"))
EXPECTED = (Path(__file__).parent / "metrics_of_a_history.txt").read_text().splitlines()
ROLE = 'replica_role="standalone"'
BUILD = "build_info"


async def history(c: Cluster) -> None:
    """Times are seconds since the first Job."""
    await c.queues("2", preemption={"withinClusterQueue": "LowerPriority"})
    await c.apply_class("low", 1)
    await c.apply_class("high", 100)
    await c.submit("done", "2", labels=LOW)  # runs 10 s
    await asyncio.sleep(30)
    await c.submit("long", "2", labels=LOW)  # ready at once
    await asyncio.sleep(10)
    await c.submit("high", "2", labels=HIGH)  # 40: preempts long, and runs until 60, when long is admitted again
    await asyncio.sleep(60)
    meta = (await c.workload("long"))["metadata"]
    await c.client.patch(WORKLOADS, NS, meta["name"], {"spec": {"active": False}})  # 100: after 40 s of running
    await asyncio.sleep(10)
    await c.submit("stuck")  # never ready: evicted at 170, requeued at 180, deactivated at 240
    await asyncio.sleep(300)
    await c.submit("big", "3")  # more than the whole quota
    await asyncio.sleep(10)


@pytest.fixture(scope="module")
def scraped() -> list[str]:
    async def scenario() -> str:
        async with cluster(CONFIG, **PODS) as c:
            await history(c)
            return c.world.metrics.exposition()

    return [line for line in run_virtual(scenario()).splitlines() if line.startswith("kueue_")]


def test_each_series_has_the_value_that_the_history_implies(scraped: list[str]) -> None:
    assert all(ROLE in line for line in scraped)
    found = [re.sub(f"{ROLE},|,?{ROLE}", "", line).removeprefix("kueue_") for line in scraped]
    compared = [line for line in found if "_bucket{" not in line and not line.startswith(BUILD)]
    assert sorted(compared) == sorted(EXPECTED)


def test_the_largest_bucket_of_a_histogram_has_all_observations(scraped: list[str]) -> None:
    counts = {line.replace("_count{", "{") for line in scraped if "_count{" in line}
    largest = {line.replace("_bucket{", "{") for line in scraped if 'le="+Inf"' in line}
    assert len(counts) > 20
    assert {re.sub(r'\ble="[^"]*",', "", line) for line in largest} == counts


def test_the_version_that_runs_is_served(scraped: list[str]) -> None:
    [line] = [line for line in scraped if line.startswith(f"kueue_{BUILD}")]
    labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
    assert labels["git_version"] == f"v{version('sluice')}"
    assert labels["compiler"] == f"{platform.python_implementation()} {platform.python_version()}"
    assert re.fullmatch(r"\w+/\w+", labels["platform"])
    assert line.endswith(" 1.0")
