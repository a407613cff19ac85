"""How `explain` words pods that no node takes: where nodes are fixed, and where one may be added."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from job_controller.model import Job
from queue_manager.api import keys
from queue_manager.api.types import Workload
from queue_manager.cli.arguments import parser
from queue_manager.cli.job_from_command import CommandJob
from queue_manager.lifecycle.unscheduled import Unscheduled
from queue_manager.visibility.node_advice import BIGGER_LOCAL_NODE, request_less
from queue_manager.visibility.node_fit import NodeFacts
from tests.unit.visibility.build import admitted, cluster_queue, job, local_queue, wire, workload
from tests.unit.visibility.test_explain_record import (
    EVICTED,
    GAVE_UP,
    NO_ROOM,
    STARTING,
    UNRESERVED,
    explained,
    holding,
)

REQUEST_LESS = request_less("sluice submit --replace -f FILE")
BIGGER = "one node has 1 cpu free: other pods end, if a node is that big, or a bigger node is added"


def test_pods_without_a_node_hold_quota_and_wait_for_one() -> None:
    found = explained(job(**STARTING), holding("j", "1"), unplaced=Unscheduled(1, NO_ROOM))
    assert found.sentence == "It holds its quota, and its pod waits for a node: none can take it now."
    assert (found.changes, found.message) == ([BIGGER, REQUEST_LESS], NO_ROOM)


def test_a_reactivation_alone_does_not_help_pods_that_fit_no_node() -> None:
    found = explained(job(), workload(active=False, conditions=[GAVE_UP]))
    assert found.sentence.startswith("No node could take its pods in time, so it is deactivated")
    assert found.changes == [f"{BIGGER}; then it is reactivated", REQUEST_LESS]


SMALL = [NodeFacts("small", {}, {"cpu": "500m"})]
FIXED = [NodeFacts("small", {keys.LOCAL_NODE: "true"}, {"cpu": "500m"})]
LACKS = "the only node, small, has 500m cpu allocatable; a pod requests 1"
TOO_LARGE_BEFORE = {
    "requeueHistory": {
        "attempts": [
            {"start": wire(0), "end": wire(30), "reason": "PodsReadyTimeout", "podCause": "0/1 nodes: Insufficient cpu"}
        ]
    }
}


@pytest.mark.parametrize(
    ("j", "w", "around", "sentence", "changes"),
    [
        (
            job(**STARTING),
            holding("j", "1"),
            {"unplaced": Unscheduled(1, NO_ROOM)},
            f"It holds its quota, but no node is large enough for its pods: {LACKS}.",
            [REQUEST_LESS, BIGGER_LOCAL_NODE],
        ),
        (
            job(**STARTING),
            holding("j", "1"),
            {},
            f"It holds its quota, but no node is large enough for its pods: {LACKS}.",
            [REQUEST_LESS, BIGGER_LOCAL_NODE],
        ),
        (
            job(),
            workload(),
            {},
            f"No node is large enough for its pods: {LACKS}.",
            [REQUEST_LESS, BIGGER_LOCAL_NODE],
        ),
        (
            job(),
            workload(active=False, status=TOO_LARGE_BEFORE, conditions=[GAVE_UP]),
            {},
            f"It is deactivated, and no node is large enough for its pods: {LACKS}.",
            [REQUEST_LESS, f"{BIGGER_LOCAL_NODE}; then it is reactivated"],
        ),
    ],
)
def test_pods_larger_than_each_node_of_sluice_up_can_never_start_in_whatever_state(
    j: Job, w: Workload | None, around: dict[str, Any], sentence: str, changes: list[str]
) -> None:
    found = explained(j, w, nodes=FIXED, **around)
    assert (found.code, found.next_command) == ("NEVER/ExceedsLargestNode", "sluice submit --replace -f FILE")
    assert (found.sentence, found.changes) == (sentence, changes)


def test_a_job_of_run_is_replaced_by_run() -> None:
    """It has no file. The annotation is the one that `job_from_command` writes."""
    made = CommandJob(command=["x"], queue="q", image="i", name="j").manifest("team")
    its = job(annotations=made["metadata"]["annotations"])
    found = explained(its, workload(), nodes=FIXED, default_ns="team")
    again = "sluice run --replace --name j -n default OPTIONS -- COMMAND"
    assert (found.changes[0], found.next_command) == (f"its pods request less ({again})", again)
    assert parser().parse_args(shlex.split(again)[1:]).name == "j"


def test_a_large_job_with_further_obstacles_names_the_nodes_last_and_besides_once() -> None:
    requests = {"cpu": "64", "memory": "1Gi"}
    small = [NodeFacts("small", FIXED[0].labels, {"cpu": "500m", "memory": "4Gi"})]
    found = explained(job(requests=requests), workload(requests=requests), nodes=small)
    nodes = "Also, no node is large enough for its pods: the only node, small, has 500m cpu allocatable"
    assert "Besides, it asks 64 cpu, queue limit 4. " + nodes in found.sentence
    assert found.sentence.count("Besides") == 1


def test_a_job_too_large_for_quota_and_nodes_names_both_and_neither_remedy_alone() -> None:
    found = explained(job(requests={"cpu": "64"}), workload(requests={"cpu": "64"}), nodes=FIXED)
    assert found.code == "NEVER/ExceedsMaxQuota"
    both = "Besides, no node is large enough for its pods: the only node, small, has 500m cpu allocatable"
    assert both in found.sentence
    less, more = found.changes
    assert less.endswith("(delete it, and submit it again), and no more for a pod than a node has")
    assert more == f"an admin raises the quota of ClusterQueue cq, and {BIGGER_LOCAL_NODE}"


@pytest.mark.parametrize(
    ("j", "w", "around", "code", "sentence"),
    [
        (job(), workload(), {}, "WAIT/PendingEvaluation", "It fits: the scheduler is about to admit it."),
        (
            job(**STARTING),
            holding("j", "1"),
            {"unplaced": Unscheduled(1, NO_ROOM)},
            "WAIT/Unschedulable",
            f"It holds its quota, and its pod waits for a node: no present node is large enough: {LACKS}; "
            "it starts if a larger node is added.",
        ),
        (
            job(),
            workload(status=TOO_LARGE_BEFORE),
            {},
            "WAIT/PendingEvaluation",
            "It fits: the scheduler is about to admit it. In its last attempt, no present node is large enough: "
            f"{LACKS}; it starts if a larger node is added.",
        ),
        (
            job(),
            workload(active=False, status=TOO_LARGE_BEFORE, conditions=[GAVE_UP]),
            {},
            "HOLD/DeactivatedDueToUnschedulable",
            "No node could take its pods in time, so it is deactivated: it stays out of the queue. "
            f"No present node is large enough: {LACKS}.",
        ),
    ],
)
def test_pods_larger_than_each_node_wait_where_nodes_may_be_added(
    j: Job, w: Workload, around: dict[str, Any], code: str, sentence: str
) -> None:
    found = explained(j, w, nodes=SMALL, **around)
    assert (found.code, found.sentence) == (code, sentence)


def test_pods_that_a_node_is_large_enough_for_wait() -> None:
    large = [NodeFacts("large", {}, {"cpu": "4"})]
    found = explained(job(**STARTING), holding("j", "1"), unplaced=Unscheduled(1, NO_ROOM), nodes=large)
    assert (found.code, found.changes[0]) == (
        "WAIT/Unschedulable",
        "one node has 1 cpu free: other pods end, or a node is added",
    )


def test_a_backoff_after_pods_without_a_node_says_so() -> None:
    attempt = {"start": wire(0), "end": wire(30), "reason": "PodsReadyTimeout", "cause": "Unschedulable"}
    status = {"requeueState": {"count": 1, "requeueAt": wire(160)}, "requeueHistory": {"attempts": [attempt]}}
    found = explained(job(), workload(conditions=[UNRESERVED, EVICTED], status=status))
    assert found.sentence.startswith("No node could take its pods in time, so it was evicted and backs off")


ROOMY = [NodeFacts("roomy", FIXED[0].labels, {"cpu": "4"})]
SSD: dict[str, Any] = {"pod": {"nodeSelector": {"disk": "ssd"}}}
LABEL = "a node gets the label (kubectl label node NODE disk=ssd)"
MATCH = "its nodeSelector matches a node (sluice submit --replace -f FILE)"


@pytest.mark.parametrize(
    ("j", "w", "sentence", "changes"),
    [
        (job(**SSD), workload(**SSD), "No node has the label disk=ssd of its nodeSelector.", [MATCH, LABEL]),
        (
            job(**STARTING, **SSD),
            workload(conditions=admitted(), **SSD),
            "It holds its quota, but no node has the label disk=ssd of its nodeSelector.",
            [MATCH, LABEL],
        ),
        (
            job(**SSD),
            workload(active=False, conditions=[GAVE_UP], **SSD),
            "It is deactivated, and no node has the label disk=ssd of its nodeSelector.",
            [MATCH, f"{LABEL}; then it is reactivated"],
        ),
    ],
)
def test_a_node_selector_that_matches_no_node_decides_in_whatever_state(
    j: Job, w: Workload, sentence: str, changes: list[str]
) -> None:
    found = explained(j, w, nodes=ROOMY)
    assert (found.code, found.sentence, found.changes) == ("NEVER/NoMatchingNode", sentence, changes)


def test_pods_that_match_no_node_and_are_too_large_for_each_name_both() -> None:
    found = explained(job(**SSD), workload(**SSD), nodes=FIXED)
    assert found.code == "NEVER/NoMatchingNode"
    assert found.sentence == (
        f"No node has the label disk=ssd of its nodeSelector, and no node is large enough for its pods: {LACKS}."
    )
    assert found.changes == [
        "its nodeSelector matches a node and its pods request less (sluice submit --replace -f FILE)",
        f"{LABEL}, and {BIGGER_LOCAL_NODE}",
    ]


def test_a_resource_that_no_node_of_sluice_up_can_have_is_not_to_be_added() -> None:
    gpu = {"requests": {"cpu": "1", "gpu": "1"}}
    found = explained(job(**gpu), workload(**gpu), nodes=ROOMY)
    assert found.code == "NEVER/NoMatchingFlavor"
    assert found.sentence.endswith("no quota for gpu. Besides, no node has gpu; a pod requests 1.")
    assert found.changes == ["it does not request gpu"]
    above = cluster_queue(namespaceSelector={}, quotas={"f": {"cpu": "4", "gpu": "4"}})
    covered = explained(job(**gpu), workload(**gpu), nodes=ROOMY, above=above)
    assert (covered.code, covered.sentence) == ("NEVER/ExceedsLargestNode", "No node has gpu; a pod requests 1.")
    assert covered.changes == ["it does not request gpu (sluice submit --replace -f FILE)"]


def test_a_job_too_large_for_quota_whose_node_selector_matches_no_node_names_both() -> None:
    large = {"requests": {"cpu": "64"}, **SSD}
    found = explained(job(**large), workload(**large), nodes=[NodeFacts("big", FIXED[0].labels, {"cpu": "96"})])
    assert found.code == "NEVER/ExceedsMaxQuota"
    assert "Besides, no node has the label disk=ssd of its nodeSelector." in found.sentence
    less, more = found.changes
    assert less.endswith(", and its nodeSelector matches a node")
    assert more.endswith(f", and {LABEL}")


NO_CLASS = "PriorityClass golden, which its pods name, does not exist"


@pytest.mark.parametrize(
    ("nodes", "code", "sentence", "changes"),
    [
        (
            ROOMY,
            "NEVER/Misconfigured",
            f"{NO_CLASS}.",
            [
                "its pods name another PriorityClass (sluice submit --replace -f FILE)",
                "an admin creates PriorityClass golden",
            ],
        ),
        (
            FIXED,
            "NEVER/Misconfigured",
            f"{NO_CLASS}, and no node is large enough for its pods: {LACKS}.",
            [
                "its pods name another PriorityClass and its pods request less (sluice submit --replace -f FILE)",
                f"an admin creates PriorityClass golden, and {BIGGER_LOCAL_NODE}",
            ],
        ),
    ],
)
def test_a_missing_priority_class_of_pods_is_the_reason_before_and_after_admission(
    nodes: list[NodeFacts], code: str, sentence: str, changes: list[str]
) -> None:
    found = explained(job(), workload(), nodes=nodes, missing_class="golden")
    assert (found.code, found.sentence, found.changes) == (code, sentence, changes)
    started = explained(job(**STARTING), holding("j", "1"), nodes=nodes, missing_class="golden")
    assert (started.code, started.changes) == (code, changes)
    assert started.sentence.startswith(
        "It holds its quota, but PriorityClass golden, which its pods name, does not exist"
    )


def test_a_job_that_was_never_admitted_has_no_last_attempt() -> None:
    found = explained(job(**SSD), workload(**SSD), nodes=ROOMY, local=local_queue(stop="Hold"))
    assert found.code == "NEVER/NoMatchingNode"
    assert found.sentence == (
        "No node has the label disk=ssd of its nodeSelector. LocalQueue q is held (sluice release q)."
    )
