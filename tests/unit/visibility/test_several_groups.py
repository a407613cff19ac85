"""What `explain` says where several resource groups, flavors that do not match, or fewer pods decide."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.types import Workload
from queue_manager.visibility.explain_record import Explanation
from tests.unit.queueing import builders
from tests.unit.visibility.build import admitted, cluster_queue, flavor, job, workload
from tests.unit.visibility.test_explain_record import explained, holding

CPU = {"c1": {"cpu": "4"}}
MEMORY = {"m": {"memory": "1Gi"}}


def in_groups(waiting: Workload, *groups: dict[str, dict[str, str]], running: list[Workload] | None = None) -> Any:
    above = builders.cluster_queue("cq", groups=groups)
    names = [name for group in groups for name in group]
    return explained(job(), waiting, running or [], above=above, flavors=[flavor(name) for name in names])


def test_all_that_it_requests_too_much_of_is_named() -> None:
    found = in_groups(workload(requests={"cpu": "8", "memory": "8Gi"}), CPU, MEMORY)
    assert found.sentence == (
        "It requests 8 cpu and 8Gi memory, and ClusterQueue cq can never use more than 4 cpu of flavor c1 and 1Gi "
        "memory of flavor m."
    )
    assert "it requests at most 4 cpu of flavor c1 and 1Gi memory of flavor m" in found.changes[0]


def test_each_group_must_release_what_it_lacks() -> None:
    """Of the first group the second flavor has free cpu, so no cpu is lacking."""
    assigned = {"name": "main", "flavors": {"cpu": "c1", "memory": "m"}, "resourceUsage": {}, "count": 1}
    admission = {"clusterQueue": "cq", "podSetAssignments": [assigned]}
    conditions, requests = admitted(), {"cpu": "4", "memory": "768Mi"}
    running = workload("r", conditions=conditions, status={"admission": admission}, requests=requests)
    both = CPU | {"c2": {"cpu": "8"}}
    found = in_groups(workload(requests={"cpu": "3", "memory": "512Mi"}), both, MEMORY, running=[running])
    assert found.changes[0] == "running Workloads release 256Mi memory of flavor m"
    found = in_groups(workload(requests={"cpu": "3", "memory": "512Mi"}), CPU, MEMORY, running=[running])
    assert found.changes[0] == "running Workloads release 3 cpu of flavor c1 and 256Mi memory of flavor m"


def test_more_quota_of_a_flavor_that_does_not_match_is_no_way_out() -> None:
    """Flavor c1 is full, and its nodes do not match either."""
    other = flavor("c1", nodeLabels={"pool": "a"})
    assigned = {"name": "main", "flavors": {"cpu": "c1"}, "resourceUsage": {}, "count": 1}
    admission = {"clusterQueue": "cq", "podSetAssignments": [assigned]}
    conditions = admitted()
    running = workload("r", conditions=conditions, status={"admission": admission}, requests={"cpu": "4"})
    waiting = workload(pod={"nodeSelector": {"pool": "b"}})
    above = cluster_queue(quotas=CPU, namespaceSelector={})
    found = explained(job(), waiting, [running], above=above, flavors=[other])
    assert [row.verdict for row in found.flavors] == ["flavor c1 doesn't match node affinity"]
    assert (found.code, found.holders) == ("NEVER/NoMatchingFlavor", [])


@pytest.mark.parametrize(
    ("running", "sentence", "change"),
    [
        (
            "4",
            "Its pod set a requests 1 cpu, and ClusterQueue cq has 0 cpu of flavor f free.",
            "running Workloads release 1 cpu of flavor f, and what its other pod sets lack",
        ),
        (
            "3",
            "Its pod sets do not fit together into the free quota of ClusterQueue cq: couldn't assign flavors to pod "
            "set b: insufficient unused quota for cpu in flavor f, 1 more needed.",
            "running Workloads release enough",
        ),
    ],
)
def test_several_pod_sets_lack_quota_each_or_together(running: str, sentence: str, change: str) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    pod_sets = [{"name": name, "count": 1, "template": {"spec": {"containers": [container]}}} for name in ("a", "b")]
    found = explained(job(), workload(podSets=pod_sets), [holding("r", running)])
    assert (found.sentence, found.changes) == (sentence, [change])


def partial(least: int, running: str) -> Explanation:
    """A Workload of 8 pods of one cpu each, in a queue of 4 cpus."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    pod_set = {"name": "main", "count": 8, "minCount": least, "template": {"spec": {"containers": [container]}}}
    return explained(job(), workload(podSets=[pod_set]), [holding("r", running)])


def test_with_partial_admission_the_fewest_pods_decide() -> None:
    waits, never = partial(2, "3"), partial(5, "0")
    assert waits.code == "WAIT/WaitingForQuota"
    assert waits.sentence == "It requests 2 cpu for 2 of its 8 pods, and ClusterQueue cq has 1 cpu of flavor f free."
    assert waits.changes[0] == "running Workloads release 1 cpu of flavor f"
    assert never.code == "NEVER/ExceedsMaxQuota"
    assert never.sentence.startswith("It requests 5 cpu for 5 of its 8 pods, and ClusterQueue cq can never use more")
    assert never.changes == [
        "it requests at most 4 cpu of flavor f (delete it, and submit it again)",
        "its annotation kueue.x-k8s.io/job-min-parallelism is at most 4",
        "an admin raises the quota of ClusterQueue cq",
    ]
