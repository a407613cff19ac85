"""The quota that the first queue gets: capacity of the nodes less the quota of other queues."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.local.first_queue import NodeQuota, left_over, quota_message


def queue_with(*quotas: tuple[str, str | int]) -> dict[str, object]:
    resources = [{"name": name, "nominalQuota": text} for name, text in quotas]
    return {"spec": {"resourceGroups": [{"flavors": [{"name": "f", "resources": resources}]}]}}


@pytest.mark.parametrize(
    ("others", "left"),
    [
        ([], NodeQuota("4", "8Gi")),
        ([{"spec": {}}], NodeQuota("4", "8Gi")),
        ([queue_with(("cpu", 1)), queue_with(("cpu", "500m"), ("memory", "1Gi"))], NodeQuota("2500m", "7Gi")),
        ([queue_with(("cpu", "9"), ("nvidia.com/gpu", 8))], NodeQuota("0", "8Gi")),
    ],
)
def test_left_over_quota(others: list[dict[str, object]], left: NodeQuota) -> None:
    assert left_over(NodeQuota("4", "8Gi"), others) == left


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({}, "quota is 4 cpu, 8Gi memory: all that the nodes have"),
        (
            {"b": queue_with(("cpu", 1)), "a": queue_with(("cpu", "500m"), ("memory", "1Gi"))},
            "quota is 2500m cpu, 7Gi memory: the nodes have 4 cpu, 8Gi memory, "
            "other ClusterQueues, active or not, and Cohorts have 1500m cpu, 1Gi memory (a, b)",
        ),
        (
            {str(number): queue_with(("cpu", 1)) for number in range(7)},
            "quota is 0 cpu, 8Gi memory: the nodes have 4 cpu, 8Gi memory, "
            "other ClusterQueues, active or not, and Cohorts have 7 cpu, 0 memory (0, 1, 2, 3, 4 and 2 more)",
        ),
    ],
)
def test_the_quota_message_gives_the_sum(others: dict[str, Any], message: str) -> None:
    nodes = NodeQuota("4", "8Gi")
    assert quota_message(left_over(nodes, others.values()), nodes, others) == message
