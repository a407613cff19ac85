"""What `sluice doctor` says of Jobs that wait for what only a user changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from job_controller.model import Pod
from queue_manager.api.keys import ADMISSION_GATED_BY, LOCAL_NODE, PASS_BY, PRIORITY_CLASS
from queue_manager.api.types import Workload
from queue_manager.configuration import KueueConfig
from queue_manager.visibility.diagnosis.examination import examine, needs_confirmation
from queue_manager.visibility.diagnosis.problem import Problem
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from queue_manager.visibility.node_fit import NodeFacts
from tests.unit.visibility.build import (
    admitted,
    at,
    cluster_queue,
    cond,
    flavor,
    job,
    local_queue,
    owner,
    wire,
    workload,
)

QUEUE = cluster_queue(namespaceSelector={})
HUGE = {"requests": {"cpu": "64"}}
OPEN = ClusterSnapshot(
    now=at(100),
    local_queues=[local_queue()],
    cluster_queues=[QUEUE],
    cohorts=[],
    flavors=[flavor()],
    nodes=[NodeFacts("n", {}, {"cpu": "4"}), NodeFacts("m", {}, {"cpu": "4"}, is_cordoned=True)],
)
HELD = [local_queue(stop="HoldAndDrain")]
STOPPED = [cluster_queue(namespaceSelector={}, stopPolicy="Hold")]
CORDONED = [NodeFacts(name, {}, {"cpu": "4"}, is_cordoned=True) for name in ("n", "m")]


def pending(*names: str, **more: Any) -> dict[str, Any]:
    return {
        "jobs": [job(name, **more) for name in names],
        "workloads": [workload(name, **more) for name in names],
    }


def after_an_attempt(pod_cause: str, **of_job: Any) -> dict[str, Any]:
    attempt = {"start": wire(0), "end": wire(30), "reason": "PodsReadyTimeout", "podCause": pod_cause}
    gave_up = cond("Evicted", reason="DeactivatedDueToRequeuingLimitExceeded", seconds=30)
    status = {"requeueHistory": {"attempts": [attempt]}, "conditions": [gave_up]}
    return {
        "jobs": [job("j", **of_job)],
        "workloads": [workload("j", status=status, active=False)],
    }


TAINTED = "0/2 nodes are available: 2 node(s) had untolerated taint {team: a}."
FULL = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {team: a}."
SOME = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."


def unplaced(*names: str, why: str = TAINTED) -> list[Pod]:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    meta = {"namespace": "default", "ownerReferences": owner("j")}
    tree = {"status": {"phase": "Pending", "conditions": [refused]}}
    return [msgspec.convert({**tree, "metadata": {**meta, "name": name}}, Pod) for name in names]


def found(**change: Any) -> tuple[str, str, str, str, str]:
    [problem] = examine(replace(OPEN, **change))
    return problem.severity, problem.code, problem.place, problem.sentence, problem.command


def test_a_job_that_never_fits_is_named_with_its_cause() -> None:
    assert found(**pending("huge", **HUGE)) == (
        "warning",
        "NeverStarts",
        "job/huge -n default",
        "Job default/huge of ClusterQueue cq can never start: asks 64 cpu, queue limit 4; "
        "request less, or have an admin change the queue.",
        "sluice explain default/huge; sluice cancel default/huge",
    )


def test_many_jobs_that_never_fit_are_one_finding() -> None:
    _, _, _, sentence, _ = found(**pending("b", "a", "c", **HUGE))
    assert sentence.startswith("3 Jobs of ClusterQueue cq can never start, such as default/a: asks 64 cpu")


def strict(*, priority: int = -1, annotations: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Job huge of a StrictFIFO queue, before or behind Jobs a and b, which have the priority."""
    queue = cluster_queue(**{"namespaceSelector": {}, "queueingStrategy": "StrictFIFO", **spec})
    queue.metadata.annotations.update(annotations or {})
    huge, small = pending("huge", **HUGE), pending("a", "b")
    return {
        "cluster_queues": [queue],
        "config": KueueConfig(),
        "jobs": [*small["jobs"], *huge["jobs"]],
        "workloads": [*(with_priority(each, priority) for each in small["workloads"]), *huge["workloads"]],
    }


def with_priority(its: Workload, priority: int) -> Workload:
    return msgspec.structs.replace(its, spec=msgspec.structs.replace(its.spec, priority=priority))


def test_a_job_that_never_fits_is_named_with_those_that_it_blocks() -> None:
    """The example is the one that blocks, although another one is first by name."""
    objects = strict()
    never = pending("a2", **HUGE)
    objects["jobs"] += never["jobs"]
    objects["workloads"] += [with_priority(each, -2) for each in never["workloads"]]
    _, _, place, sentence, command = found(**objects)
    assert (place, command) == ("job/huge -n default", "sluice explain default/huge; sluice cancel default/huge")
    assert sentence.startswith("2 Jobs of ClusterQueue cq can never start, such as default/huge: asks 64 cpu")
    assert sentence.endswith(". 3 Jobs wait behind default/huge, since its queue is StrictFIFO.")


@pytest.mark.parametrize(
    "change",
    [
        {"queueingStrategy": "BestEffortFIFO"},
        {"annotations": {PASS_BY: "true"}},
        {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}},
    ],
)
def test_a_job_that_never_fits_blocks_no_others_where_they_may_pass_it(change: dict[str, Any]) -> None:
    assert "behind" not in found(**strict(**change))[3]


def test_a_job_that_never_fits_blocks_no_others_if_it_is_not_the_first_one() -> None:
    assert "behind" not in found(**strict(priority=1))[3]


def test_a_job_that_its_queue_does_not_select_blocks_no_others() -> None:
    objects = strict(namespaceSelector={"matchLabels": {"team": "a"}})
    problems = examine(replace(OPEN, namespaces={"default": {"team": "b"}}, **objects))
    assert [problem.code for problem in problems] == ["NeverStarts"]
    assert "behind" not in problems[0].sentence


def test_a_job_that_is_gated_blocks_no_others() -> None:
    objects = strict()
    objects["workloads"][-1].metadata.annotations[ADMISSION_GATED_BY] = "quota-check"
    assert "behind" not in found(**objects)[3]


def test_a_job_of_a_queue_that_does_not_exist_never_starts() -> None:
    _, code, place, sentence, _ = found(local_queues=[], **pending("a"))
    assert (code, place) == ("NeverStarts", "job/a -n default")
    assert "LocalQueue q does not exist in namespace default" in sentence


def test_a_job_of_a_priority_class_that_does_not_exist_never_starts() -> None:
    """It has no Workload. Nothing is found while the classes are unknown, or once it is created just now."""
    waiting = {"jobs": [job("j", suspend=True, labels={PRIORITY_CLASS: "urgnt"})], "workloads": []}
    assert found(**waiting, priority_classes=frozenset({"urgent"})) == (
        "warning",
        "NeverStarts",
        "job/j -n default",
        "Job default/j of ClusterQueue cq can never start: WorkloadPriorityClass urgnt does not exist; "
        "did you mean urgent?; correct its label kueue.x-k8s.io/priority-class, or have an admin create it.",
        "sluice explain default/j; sluice cancel default/j",
    )
    for known in (None, frozenset({"urgnt"})):
        assert examine(replace(OPEN, **waiting, priority_classes=known)) == []


def test_a_stopped_job_whose_pods_name_a_missing_class_never_starts() -> None:
    """Between two attempts, or deactivated; of one that holds quota the refusal of its pods is found."""
    its = job("j", suspend=True, pod={"priorityClassName": "golden"})
    for stopped in (
        workload("j", active=False, conditions=[cond("Evicted", reason="Deactivated")]),
        workload("j", conditions=[cond("Evicted", reason="PodsReadyTimeout")]),
    ):
        objects = {"jobs": [its], "workloads": [stopped]}
        _, code, _, sentence, _ = found(**objects, pod_classes=frozenset({"gold"}))
        assert code == "NeverStarts"
        assert "PriorityClass golden does not exist; did you mean gold?" in sentence
        assert examine(replace(OPEN, **objects, pod_classes=frozenset({"golden"}))) == []


@pytest.mark.parametrize(
    ("queues", "place", "word", "argument"),
    [
        ({"local_queues": HELD}, "localqueue/q -n default", "drained", "default/q"),
        ({"cluster_queues": STOPPED}, "clusterqueue/cq", "held", "cq/cq"),
        ({"local_queues": HELD, "cluster_queues": STOPPED}, "localqueue/q -n default", "drained", "default/q"),
    ],
)
def test_a_stopped_queue_is_named_with_the_jobs_that_wait(
    queues: dict[str, Any], place: str, word: str, argument: str
) -> None:
    assert found(**queues, **pending("b", "a")) == (
        "warning",
        "StoppedQueue",
        place,
        f"It is {word}, and 2 Jobs, such as default/a, wait until it is released.",
        f"sluice release {argument}",
    )


def test_a_job_that_never_fits_is_found_in_a_stopped_queue_too() -> None:
    problems = examine(replace(OPEN, local_queues=HELD, **pending("huge", **HUGE)))
    assert [problem.code for problem in problems] == ["NeverStarts", "StoppedQueue"]


def test_cordoned_nodes_are_named_with_the_pods_that_wait() -> None:
    assert found(nodes=CORDONED, pods=unplaced("b", "a")) == (
        "error",
        "CordonedNodes",
        "node/m",
        "All 2 nodes are cordoned, so 2 pods, such as default/a, find no node.",
        "kubectl uncordon m n",
    )


def test_one_cordoned_node_is_named_with_the_pods_that_it_could_have_taken() -> None:
    assert found(pods=unplaced("a", why=SOME)) == (
        "warning",
        "CordonedNodes",
        "node/m",
        "1 of 2 nodes is cordoned, and pod default/a finds no node.",
        "kubectl uncordon m",
    )


def test_between_attempts_cordoned_nodes_are_named_with_the_jobs_that_found_none() -> None:
    severity, code, _, sentence, _ = found(nodes=CORDONED, **after_an_attempt("0/2 nodes: node(s) were unschedulable"))
    assert (severity, code) == ("error", "CordonedNodes")
    assert sentence == "All 2 nodes are cordoned, so the pods of Job default/j found no node."


def test_pods_that_no_node_can_take_are_one_finding_by_cause() -> None:
    assert found(pods=unplaced("b", "a"))[:4] == (
        "warning",
        "UnplacedPods",
        "pod/a -n default",
        "2 pods, such as default/a, find no node (0/2 nodes: node(s) had untolerated taint {team: a}).",
    )


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({LOCAL_NODE: "true"}, "can never start on the present nodes"),
        ({}, "found no node, and none is large enough"),
    ],
)
def test_jobs_whose_pods_are_larger_than_each_node_are_named_with_the_largest_node(
    labels: dict[str, str], why: str
) -> None:
    small = [NodeFacts("n", labels, {"cpu": "500m"})]
    problems = examine(replace(OPEN, nodes=small, **after_an_attempt("0/1 nodes: Insufficient cpu")))
    assert [(p.place, p.sentence, p.command) for p in problems if p.code == "TooLargePods"] == [
        (
            "job/j -n default",
            f"Job default/j {why}: the only node, n, has 500m cpu allocatable; a pod requests 1.",
            "sluice explain default/j; sluice submit --replace -f FILE",
        )
    ]


def test_a_job_of_run_that_is_too_large_is_replaced_by_run() -> None:
    objects = after_an_attempt("0/1 nodes: Insufficient cpu", annotations={"sluice/created-by": "run"})
    problems = examine(replace(OPEN, nodes=[NodeFacts("n", {}, {"cpu": "500m"})], **objects))
    (command,) = [problem.command for problem in problems if problem.code == "TooLargePods"]
    assert command == "sluice explain default/j; sluice run --replace --name j -n default OPTIONS -- COMMAND"


def test_jobs_whose_node_selector_matches_no_node_are_one_finding() -> None:
    """While one of them is pending, and the pod of the other has found no node."""
    ssd: dict[str, Any] = {"pod": {"nodeSelector": {"disk": "ssd"}}}
    started = job("j", suspend=False, status={"active": 1, "startTime": wire(10)}, **ssd)
    workloads = [workload("j", conditions=admitted(), **ssd), workload("k", **ssd)]
    pods = unplaced("j-1", why="0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
    nodes = [NodeFacts("n", {LOCAL_NODE: "true"}, {"cpu": "4"})]
    assert found(nodes=nodes, jobs=[started, job("k", **ssd)], workloads=workloads, pods=pods) == (
        "warning",
        "NoMatchingNode",
        "job/j -n default",
        "2 Jobs, such as default/j, can never start on the present nodes: "
        "no node has the label disk=ssd of its nodeSelector.",
        "sluice explain default/j; sluice submit --replace -f FILE",
    )


def test_a_pod_without_a_node_counts_only_if_found_twice() -> None:
    assert needs_confirmation(examine(replace(OPEN, pods=unplaced("a"))))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"local_queues": HELD},
        {"cluster_queues": STOPPED},
        {"nodes": CORDONED},
        {"pods": unplaced("a", why=FULL)},
        after_an_attempt("0/2 nodes: Insufficient cpu"),
        {"nodes": CORDONED, **after_an_attempt("exit 3")},
        {"nodes": CORDONED, **after_an_attempt("0/2 nodes: node(s) were unschedulable", conditions=[cond("Complete")])},
        pending("fits"),
        {"local_queues": HELD, **pending("off", active=False)},
    ],
    ids=[
        "nothing",
        "a held queue",
        "a stopped queue",
        "cordoned nodes",
        "a full node",
        "a node that was full",
        "an attempt that failed",
        "a Job that has ended",
        "a Job that waits for quota",
        "deactivated",
    ],
)
def test_what_no_job_waits_for_is_no_finding(change: dict[str, Any]) -> None:
    none: list[Problem] = []
    assert examine(replace(OPEN, **change)) == none
