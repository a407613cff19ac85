"""The manifest of a created pod."""

from __future__ import annotations

import copy

import pytest

from job_controller.labels import TRACKING_FINALIZER
from job_controller.pod_manifest import manifest
from job_controller.sync_steps import PodPlan
from tests.unit.job_controller.build import job

INDEX = "batch.kubernetes.io/job-completion-index"
TEMPLATE = {
    "metadata": {
        "labels": {"l": "1"},
        "annotations": {"n": "2"},
        "finalizers": ["mine/f"],
        "name": "dropped",
        "ownerReferences": [{"uid": "dropped"}],
    },
    "spec": {
        "hostname": "mine",
        "subdomain": "sub",
        "initContainers": [{"name": "i"}],
        "containers": [
            {"name": "c", "env": [{"name": "A", "value": "1"}]},
            {"name": "own", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]},
        ],
    },
}
VARIABLE = {"name": "JOB_COMPLETION_INDEX", "value": "3"}


def test_pod_of_a_plain_job_is_its_template_with_owner_and_finalizer() -> None:
    pod = manifest(job(template=TEMPLATE), PodPlan(), TRACKING_FINALIZER)
    assert pod["spec"] == TEMPLATE["spec"]
    assert pod["metadata"] == {
        "generateName": "j-",
        "namespace": "ns",
        "labels": {"l": "1"},
        "annotations": {"n": "2"},
        "finalizers": ["mine/f", TRACKING_FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "j",
                "uid": "job-uid",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def test_indexed_pod_knows_its_index_and_the_template_stays_untouched() -> None:
    before = copy.deepcopy(TEMPLATE)
    pod = manifest(job(template=TEMPLATE), PodPlan(index=3), TRACKING_FINALIZER)
    assert before == TEMPLATE
    meta, spec = pod["metadata"], pod["spec"]
    assert meta["generateName"] == "j-3-"
    assert meta["labels"][INDEX] == meta["annotations"][INDEX] == "3"
    assert (spec["hostname"], spec["subdomain"]) == ("j-3", "sub")
    assert spec["initContainers"][0]["env"] == [VARIABLE]
    assert spec["containers"][0]["env"] == [{"name": "A", "value": "1"}, VARIABLE]
    assert spec["containers"][1]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]


@pytest.mark.parametrize(
    ("plan", "notes"),
    [
        (PodPlan(index=0), {}),
        (PodPlan(index=0, failures=0), {"batch.kubernetes.io/job-index-failure-count": "0"}),
        (
            PodPlan(index=0, failures=2, ignored=1),
            {
                "batch.kubernetes.io/job-index-failure-count": "2",
                "batch.kubernetes.io/job-index-ignored-failure-count": "1",
            },
        ),
    ],
)
def test_failure_counts_are_annotations(plan: PodPlan, notes: dict[str, str]) -> None:
    annotations = manifest(job(), plan, TRACKING_FINALIZER)["metadata"]["annotations"]
    assert annotations == {INDEX: "0"} | notes


def test_long_names_are_cut_so_that_the_index_stays() -> None:
    prefix = manifest(job(name="n" * 61), PodPlan(index=1), TRACKING_FINALIZER)["metadata"]["generateName"]
    assert (len(prefix), prefix[-3:]) == (58, "-1-")
    assert manifest(job(name="n" * 63), PodPlan(), TRACKING_FINALIZER)["metadata"]["generateName"] == "n" * 63 + "-"
