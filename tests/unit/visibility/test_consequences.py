"""Consequences that an operator's command announces."""

from __future__ import annotations

import pytest

from queue_manager.api.types import ClusterQueue, LocalQueue, Workload
from queue_manager.visibility.consequences import Load, load_of, on_deactivation, on_reactivation, on_stop
from tests.unit.visibility.build import ADMISSION, admitted, cluster_queue, cond, local_queue, workload

OPEN, ABOVE = local_queue(), cluster_queue()


@pytest.mark.parametrize(
    ("held", "queue", "above", "says"),
    [
        (workload(), OPEN, ABOVE, "back in line of q, with a new budget of retries"),
        (workload(), None, None, "waits: there is no LocalQueue q in namespace default"),
        (workload(), OPEN, None, "waits: there is no ClusterQueue cq"),
        (workload(), local_queue(stop="Hold"), ABOVE, "waits: LocalQueue q is held (sluice release q)"),
        (
            workload(),
            OPEN,
            cluster_queue(stopPolicy="HoldAndDrain"),
            "waits: ClusterQueue cq is held (sluice release cq/cq)",
        ),
        (
            workload(),
            OPEN,
            cluster_queue(status={"conditions": [cond("Active", "False", "Terminating", "it is terminating")]}),
            "waits: ClusterQueue cq: it is terminating",
        ),
        (
            workload(conditions=admitted()),
            OPEN,
            ABOVE,
            "its pods are still being stopped; then it is back in line with a new budget of retries",
        ),
        (
            workload(annotations={"kueue.x-k8s.io/admission-gated-by": "a,b"}),
            OPEN,
            ABOVE,
            "waits for its admission gates: a,b",
        ),
    ],
)
def test_a_reactivation_announces_the_queue_or_the_obstacle(
    held: Workload, queue: LocalQueue | None, above: ClusterQueue | None, says: str
) -> None:
    assert on_reactivation(held, queue, above) == says


def test_a_deactivation_announces_a_stop_or_leaving_the_queue() -> None:
    runs = workload(status={"admission": ADMISSION})
    assert on_deactivation(runs, "j") == "its pods are stopped and its quota is given back; undo: sluice reactivate j"
    assert on_deactivation(workload(), "ns/j") == "it leaves the line; undo: sluice reactivate ns/j"


def test_the_load_of_a_queue_excludes_ended_and_deactivated_workloads() -> None:
    workloads = [
        workload("a"),
        workload("b", status={"admission": ADMISSION}),
        workload("c", active=False),
        workload("d", conditions=[cond("Finished")], status={"admission": ADMISSION}),
    ]
    assert load_of(workloads) == Load(waiting=1, running=1)


@pytest.mark.parametrize(
    ("policy", "load", "blocked", "says"),
    [
        (
            "Hold",
            Load(2, 1),
            "",
            "nothing more starts (2 waiting, 1 running); what runs goes on to its end; undo: sluice release q",
        ),
        ("Hold", Load(2, 0), "", "nothing more starts (2 waiting, 0 running); undo: sluice release q"),
        (
            "HoldAndDrain",
            Load(0, 3),
            "",
            "nothing more starts (0 waiting, 3 running); what runs is stopped and goes back in line; "
            "undo: sluice release q",
        ),
        ("None", Load(2, 0), "", "starts again as quota allows (2 waiting, 0 running)"),
        ("None", Load(2, 0), "cq", "still nothing starts: ClusterQueue cq is held too (sluice release cq/cq)"),
    ],
)
def test_a_stop_policy_announces_the_pending_and_running_jobs(policy: str, load: Load, blocked: str, says: str) -> None:
    assert on_stop(policy, load, queue="q", blocked_above=blocked) == says
