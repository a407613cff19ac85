"""Which Jobs `sluice import` brings into a queue, and what it does next with each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from job_controller.model import Job
from queue_manager.adoption.job_imports import (
    Import,
    ImportStep,
    ImportSurroundings,
    label_patch,
    next_step,
    plan,
    workload_for,
)
from queue_manager.adoption.queue_mapping import QueueRule
from queue_manager.api.types import Workload

QUEUE = "kueue.x-k8s.io/queue-name"
AROUND = ImportSurroundings(
    rules=[QueueRule(to_local_queue="lq")],
    queues={"ns/lq": "cq"},
    cluster_queues=frozenset({"cq"}),
    classes={},
    pod_classes={},
    manages=lambda namespace: True,
)
COMPLETE = [{"type": "Complete", "status": "True"}]


def job(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **more: Any) -> Job:
    meta = {"name": "j", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": labels or {}}
    meta |= {"annotations": annotations or {}, "ownerReferences": more.pop("owners", [])}
    template = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"parallelism": 2, "completions": 2, "template": template, **more}
    return msgspec.convert({"metadata": meta, "spec": spec}, Job)


def planned(given: Job, around: ImportSurroundings = AROUND) -> Import:
    result = plan(given, [], around)
    assert result is not None
    return result


def owner(kind: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "x/v1", "kind": kind, "name": "o", "uid": "o", "controller": True}]


@pytest.mark.parametrize(
    ("given", "step", "why"),
    [
        (job(), ImportStep.CREATE, ""),
        (job(owners=owner("CronJob")), ImportStep.CREATE, ""),
        (job({QUEUE: "other"}), ImportStep.DONE, ""),
        (job(suspend=True), ImportStep.SKIP, "suspended; label it with kueue.x-k8s.io/queue-name to queue it"),
        (job(owners=owner("JobSet")), ImportStep.REFUSE, "it belongs to JobSet o"),
        (job(managedBy="acme.com/other"), ImportStep.REFUSE, "it is run by acme.com/other"),
        (
            job(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"}),
            ImportStep.REFUSE,
            "kueue.x-k8s.io/job-min-parallelism: a running Job cannot start with fewer pods",
        ),
        (
            job({"kueue.x-k8s.io/priority-class": "gone"}),
            ImportStep.REFUSE,
            "WorkloadPriorityClass gone does not exist",
        ),
    ],
)
def test_a_job_is_imported_unless_something_about_it_prevents_that(given: Job, step: ImportStep, why: str) -> None:
    result = planned(given)
    assert (result.step, result.why) == (step, why)


@pytest.mark.parametrize(
    ("around", "why"),
    [
        (replace(AROUND, queues={}), "LocalQueue ns/lq does not exist"),
        (replace(AROUND, cluster_queues=frozenset()), "ClusterQueue cq does not exist"),
        (replace(AROUND, rules=[]), "no rule names a queue for it"),
        (replace(AROUND, manages=lambda _: False), "managedJobsNamespaceSelector does not select namespace ns"),
    ],
)
def test_what_is_missing_for_an_import_is_named(around: ImportSurroundings, why: str) -> None:
    result = planned(job(), around)
    assert (result.step, result.why) == (ImportStep.REFUSE, why)


def test_a_job_that_has_ended_is_left_out() -> None:
    ended = msgspec.convert({"metadata": {"name": "j"}, "spec": {}, "status": {"conditions": COMPLETE}}, Job)
    assert plan(ended, [], AROUND) is None


def made(given: Job, queue: str = "lq", conditions: list[dict[str, Any]] | None = None) -> Workload:
    tree = workload_for(given, queue, AROUND)
    admission = {"clusterQueue": "cq", "podSetAssignments": []} if conditions else None
    return msgspec.convert({**tree, "status": {"conditions": conditions or [], "admission": admission}}, Workload)


@pytest.mark.parametrize(
    ("workloads", "step"),
    [
        ([], ImportStep.CREATE),
        ([made(job())], ImportStep.WAIT),
        ([made(job(), conditions=[{"type": "Admitted", "status": "True"}])], ImportStep.LABEL),
        ([made(job(), queue="other")], ImportStep.REPLACE),
        ([made(job(parallelism=1))], ImportStep.REPLACE),
    ],
)
def test_an_interrupted_import_continues_where_it_stands(workloads: list[Workload], step: ImportStep) -> None:
    assert next_step(job(), "lq", workloads) is step


def test_the_label_is_for_the_very_job_that_was_read() -> None:
    patch = label_patch(job(), "lq")
    assert patch == {"metadata": {"uid": "u", "resourceVersion": "7", "labels": {QUEUE: "lq"}}}


def test_the_workload_of_an_import_is_marked_and_owned_by_the_job() -> None:
    workload = made(job())
    assert workload.metadata.labels["sluice/imported"] == "true"
    assert workload.spec.queue_name == "lq"
    assert [each.uid for each in workload.metadata.owner_references] == ["u"]
