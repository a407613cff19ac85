"""Consequences that an operator's command announces."""

from __future__ import annotations

import pytest

from job_controller.model import Key
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload
from queue_manager.visibility.effects_of_changes import (
    Load,
    load_of,
    on_deactivation,
    on_reactivation,
    on_stop,
    queue_obstacle,
    released,
)
from tests.unit.visibility.build import ADMISSION, admitted, cluster_queue, cond, local_queue, workload

OPEN, ABOVE = local_queue(), cluster_queue()


@pytest.mark.parametrize(
    ("held", "queue", "above", "says"),
    [
        (workload(), OPEN, ABOVE, "requeued in q, with a new budget of retries"),
        (workload(), None, None, "waits: LocalQueue q does not exist in namespace default"),
        (workload(), OPEN, None, "waits: ClusterQueue cq does not exist"),
        (workload(), local_queue(stop="Hold"), ABOVE, "waits: LocalQueue q is held (sluice release q)"),
        (
            workload(),
            OPEN,
            cluster_queue(stopPolicy="HoldAndDrain"),
            "waits: ClusterQueue cq is drained (sluice release cq/cq)",
        ),
        (
            workload(),
            OPEN,
            cluster_queue(status={"conditions": [cond("Active", "False", "FlavorNotFound", "no flavor")]}),
            "waits: ClusterQueue cq: no flavor",
        ),
        (
            workload(conditions=admitted()),
            OPEN,
            ABOVE,
            "its pods are still terminating; it is requeued after that, with a new budget of retries",
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
    assert (
        on_deactivation(runs, "j")
        == "its pods and logs are deleted, then its quota is released; undo: sluice reactivate j"
    )
    assert on_deactivation(workload(), "ns/j") == "it leaves the queue; undo: sluice reactivate ns/j"


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
            "no more Jobs start (2 pending, 1 running); running Jobs continue; undo: sluice release q",
        ),
        ("Hold", Load(2, 0), "", "no more Jobs start (2 pending, 0 running); undo: sluice release q"),
        (
            "HoldAndDrain",
            Load(0, 3),
            "",
            "no more Jobs start (0 pending, 3 running); running Jobs are stopped and requeued, their logs deleted; "
            "undo: sluice release q",
        ),
        ("None", Load(2, 0), "", "Jobs start again as quota allows (2 pending, 0 running)"),
        ("None", Load(2, 0), "ClusterQueue cq is held", "still no Jobs start: ClusterQueue cq is held"),
    ],
)
def test_a_stop_policy_announces_the_pending_and_running_jobs(policy: str, load: Load, blocked: str, says: str) -> None:
    assert on_stop(policy, load, queue="q", obstacle=blocked) == says


@pytest.mark.parametrize(
    ("policy", "load", "blocked", "says"),
    [
        ("Hold", Load(2, 1), "", "no more Jobs would start (2 pending, 1 running); running Jobs would continue"),
        (
            "HoldAndDrain",
            Load(0, 1),
            "",
            "no more Jobs would start (0 pending, 1 running); "
            "running Jobs would be stopped and requeued, their logs deleted",
        ),
        ("None", Load(2, 0), "", "Jobs would start again as quota allows (2 pending, 0 running)"),
        (
            "None",
            Load(2, 0),
            "ClusterQueue cq is held",
            "still no Jobs would start: ClusterQueue cq is held",
        ),
    ],
)
def test_a_dry_run_says_what_would_happen_and_not_how_to_undo_it(
    policy: str, load: Load, blocked: str, says: str
) -> None:
    assert on_stop(policy, load, queue="q", obstacle=blocked, dry_run=True) == says
    runs = workload(status={"admission": ADMISSION})
    assert on_deactivation(runs, "j", dry_run=True) == "its pods and logs would be deleted and its quota released"
    assert on_deactivation(workload(), "j", dry_run=True) == "it would leave the queue"
    requeued = "it would be requeued in q, with a new budget of retries"
    assert on_reactivation(workload(), OPEN, ABOVE, dry_run=True) == requeued


@pytest.mark.parametrize(
    ("above", "says"),
    [
        (cluster_queue(stopPolicy="Hold"), "ClusterQueue cq is held (sluice release cq/cq)"),
        (None, "ClusterQueue cq does not exist"),
        (cluster_queue(status={"conditions": [cond("Active", "False", "Stopped", "is stopped")]}), ""),
        (
            cluster_queue(status={"conditions": [cond("Active", "False", "FlavorNotFound", "no flavor")]}),
            "ClusterQueue cq: no flavor",
        ),
        (
            cluster_queue(status={"conditions": [cond("Active", "False", "Terminating", "it is")]}, deleted=9),
            "ClusterQueue cq is being deleted",
        ),
    ],
    ids=["held", "missing", "released just now", "broken", "being deleted"],
)
def test_what_keeps_a_released_local_queue_from_admitting(above: ClusterQueue | None, says: str) -> None:
    assert queue_obstacle(Key("default", "q"), released(local_queue(stop="Hold")), above) == says


def test_the_release_of_a_cluster_queue_names_its_queues_that_stay_held() -> None:
    below = [local_queue("a", stop="Hold"), local_queue("b", stop="HoldAndDrain")]
    says = "Jobs start again as quota allows (2 pending, 0 running); but none of LocalQueue default/a (held), default/b"
    assert on_stop("None", Load(2, 0), queue="cq/cq", stopped_below=below) == f"{says} (drained)"


def test_a_job_without_a_queue_name_names_no_queue() -> None:
    said = "it names no LocalQueue (label kueue.x-k8s.io/queue-name)"
    assert queue_obstacle(Key("default", ""), None, ABOVE) == said
