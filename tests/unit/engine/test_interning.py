"""Equal values of cached objects are one object in memory, and no value changes."""

from __future__ import annotations

from typing import Any

import msgspec

from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine import interning
from queue_manager.engine.interning import sharer


def workload(name: str, image: str = "a", **status: Any) -> Workload:
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"queueName": "q", "podSets": [{"name": "main", "count": 2, "template": template}]}
    tree = {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": status}
    return msgspec.json.decode(msgspec.json.encode(tree), type=Workload)


def test_alike_workloads_share_their_pod_sets():
    share = sharer(WORKLOADS, Workload)
    first, alike, other = workload("first"), workload("alike"), workload("other", image="b")
    for each in (first, alike, other):
        share(each, None)
    assert alike.spec.pod_sets is first.spec.pod_sets
    assert other.spec.pod_sets == workload("other", image="b").spec.pod_sets


def test_a_workload_keeps_its_spec_when_only_the_status_changes():
    share = sharer(WORKLOADS, Workload)
    before, after, edited = workload("w"), workload("w", accumulatedPastExecutionTimeSeconds=1), workload("w", "b")
    share(before, None)
    share(after, before)
    share(edited, after)
    assert after.spec is before.spec
    assert after.status.accumulated_past_execution_time_seconds == 1
    assert edited.spec == workload("w", "b").spec


def test_the_pool_of_pod_sets_is_bounded(monkeypatch):
    monkeypatch.setattr(interning, "MAX_POD_SETS", 2)
    share = sharer(WORKLOADS, Workload)
    found = [workload("w", image=str(i % 4)) for i in range(8)]
    for each in found:
        share(each, None)
    assert found[4].spec.pod_sets is not found[0].spec.pod_sets
    assert found[4].spec == found[0].spec
