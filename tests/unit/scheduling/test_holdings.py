"""What a Workload holds by its own status."""

import msgspec

from queue_manager.api.types import Workload
from queue_manager.scheduling.state import holding_of
from queue_manager.scheduling.tree import FlavorResource
from tests.unit.queueing.builders import condition

CPU = FlavorResource("default", "cpu")


def held(wanted: int, assigned: int, reclaimed: int) -> int:
    """Milli-cpus of a Workload of `wanted` pods of one cpu each, of which `assigned` were admitted."""
    flavors = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": str(assigned)}}
    tree = {
        "metadata": {"name": "w", "namespace": "ns", "uid": "u"},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": wanted, "template": {}}]},
        "status": {
            "conditions": [condition("QuotaReserved", "True")],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{**flavors, "count": assigned}]},
            "reclaimablePods": [{"name": "main", "count": reclaimed}],
        },
    }
    holding = holding_of(msgspec.convert(tree, Workload))
    assert holding is not None
    return holding.usage[CPU]


def test_pods_that_are_done_hold_nothing() -> None:
    assert held(wanted=4, assigned=4, reclaimed=1) == 3000


def test_pods_that_were_done_before_the_admission_are_not_given_back_twice() -> None:
    """Four pods, two of which had succeeded when it was evicted: two were assigned, and two run."""
    assert held(wanted=4, assigned=2, reclaimed=2) == 2000
    assert held(wanted=4, assigned=2, reclaimed=3) == 1000


def test_a_partial_admission_keeps_what_its_pods_still_need() -> None:
    assert held(wanted=10, assigned=4, reclaimed=5) == 4000
    assert held(wanted=10, assigned=4, reclaimed=8) == 2000
