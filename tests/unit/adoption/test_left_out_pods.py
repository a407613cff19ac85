"""What runs outside of Jobs is counted by kind."""

from __future__ import annotations

import msgspec

from job_controller.model import Pod
from queue_manager.adoption.left_out_pods import left_out, sentence


def pod(
    kind: str = "", group: str = "apps/v1", phase: str = "Running", *, controls: bool = True, node: str = "n"
) -> Pod:
    owner = {"apiVersion": group, "kind": kind, "name": "o", "uid": "u", "controller": controls}
    meta = {"name": "p", "namespace": "ns", "ownerReferences": [owner] if kind else []}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}}, Pod)


def test_pods_of_other_kinds_are_counted_the_most_frequent_first() -> None:
    pods = [pod("ReplicaSet"), pod(), pod("ReplicaSet", phase="Pending"), pod("RayCluster", "ray.io/v1")]
    counts = {"of kind ReplicaSet": 2, "of kind RayCluster": 1, "without a controller": 1}
    assert list(left_out(pods).items()) == list(counts.items())
    assert sentence(counts) == (
        "Left out, as only batch/v1 Jobs are imported: 4 pods on nodes but in no quota (2 of kind ReplicaSet, "
        "1 of kind RayCluster, 1 without a controller)"
    )


def test_pods_of_batch_jobs_and_finished_pods_are_not_counted() -> None:
    pods = [pod("Job", "batch/v1"), pod(phase="Succeeded"), pod("ReplicaSet", phase="Failed")]
    assert sentence(left_out(pods)) == ""


def test_a_pod_without_a_node_is_not_counted() -> None:
    pods = [pod("ReplicaSet", phase="Pending", node=""), pod("ReplicaSet", phase="Pending")]
    assert left_out(pods) == {"of kind ReplicaSet": 1}


def test_a_job_of_another_group_and_an_owner_without_control_are_no_batch_jobs() -> None:
    pods = [pod("Job", "batch.volcano.sh/v1alpha1"), pod("Job", "batch/v1", controls=False)]
    assert left_out(pods) == {"of kind Job": 1, "without a controller": 1}
