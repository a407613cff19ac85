"""Webhook rules for queued Jobs: recorded answers of Kueue's webhook, and tables of updates."""

import json
import re
from pathlib import Path

import pytest

from job_controller.api_rules.field_errors import sentence
from queue_manager.jobs.webhook import SubmissionContext, prepare_job, validate_job, validate_job_update

RECORDED = Path(__file__).parents[2] / "golden" / "kueue" / "validation.jsonl"
CASES = [
    case
    for case in map(json.loads, RECORDED.read_text().splitlines())
    if case["obj"].startswith("Job/") and case["op"] == "create"
]
QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_creation_is_answered_as_by_kueue(case):
    errors = validate_job(case["body"])
    if case.get("accepted"):
        assert errors == []
        return
    expected = re.sub(r'^admission webhook "[^"]*" denied the request: ', "", case["message"])
    assert sentence(errors) == expected


@pytest.mark.parametrize(
    ("labels", "around", "after", "suspended"),
    [
        ({QUEUE: "lq"}, SubmissionContext(), {QUEUE: "lq"}, True),
        ({}, SubmissionContext(), {}, False),
        ({}, SubmissionContext(manage_all=True), {}, True),
        ({}, SubmissionContext(default_queue=True), {QUEUE: "default"}, True),
        ({QUEUE: "lq"}, SubmissionContext(default_queue=True), {QUEUE: "lq"}, True),
        ({QUEUE: "lq"}, SubmissionContext(default_class=True), {QUEUE: "lq", CLASS: "default"}, True),
        ({QUEUE: "lq", CLASS: "high"}, SubmissionContext(default_class=True), {QUEUE: "lq", CLASS: "high"}, True),
        ({}, SubmissionContext(default_class=True), {CLASS: "default"}, False),
        ({QUEUE: "lq"}, SubmissionContext(managed=False), {QUEUE: "lq"}, True),
        ({}, SubmissionContext(default_queue=True, owner_managed=True), {}, False),
    ],
)
def test_defaults_at_creation(labels, around, after, suspended):
    job = {"metadata": {"labels": dict(labels)}, "spec": {}}
    prepare_job(job, around)
    assert job["metadata"]["labels"] == after
    assert job["spec"].get("suspend", False) is suspended


def job(suspend=True, parallelism=3, annotations=None, **labels):
    own = {f"kueue.x-k8s.io/{k.replace('_', '-')}": v for k, v in labels.items()}
    return {
        "metadata": {"labels": own, "annotations": annotations or {}},
        "spec": {"suspend": suspend, "parallelism": parallelism, "completions": 3},
    }


MIN = {"kueue.x-k8s.io/job-min-parallelism": "1"}
GATE = "kueue.x-k8s.io/admission-gated-by"
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
ELASTIC_PATH = "metadata.labels[kueue.x-k8s.io/elastic-job]"
SYNC = "kueue.x-k8s.io/job-completions-equal-parallelism"


@pytest.mark.parametrize(
    ("old", "new", "default_queue", "words"),
    [
        (job(queue_name="a"), job(queue_name="b"), False, ""),
        (job(False, queue_name="a"), job(False, queue_name="b"), False, "field is immutable"),
        (job(queue_name="a"), job(), False, ""),
        (job(queue_name="a"), job(), True, "queue-name must not be empty in namespace with default queue"),
        (job(False, queue_name="a"), job(True, queue_name="a"), False, ""),
        (
            job(False, queue_name="a"),
            job(False, queue_name="a", priority_class="p"),
            False,
            "WorkloadPriorityClass cannot be added to a non-suspended workload",
        ),
        (
            job(False, queue_name="a", priority_class="p"),
            job(False, queue_name="a"),
            False,
            "WorkloadPriorityClass cannot be removed from a workload",
        ),
        (job(False, queue_name="a", priority_class="p"), job(False, queue_name="a", priority_class="q"), False, ""),
        (
            job(queue_name="a", max_exec_time_seconds="1"),
            job(False, queue_name="a", max_exec_time_seconds="2"),
            False,
            "field is immutable",
        ),
        (
            job(queue_name="a", max_exec_time_seconds="1"),
            job(queue_name="a", max_exec_time_seconds="2"),
            False,
            "",
        ),
        (
            job(False, 3, MIN, queue_name="a"),
            job(False, 2, MIN, queue_name="a"),
            False,
            "cannot change when partial admission is enabled and the job is not suspended",
        ),
        (job(True, 3, MIN, queue_name="a"), job(True, 2, MIN, queue_name="a"), False, ""),
        (job(True, 3, MIN, queue_name="a"), job(True, 1, MIN, queue_name="a"), False, "should be between 0 and 0"),
        (job(True, 3, MIN, queue_name="a"), job(False, 1, MIN, queue_name="a"), False, ""),  # started with the least
        (job(False, 1, MIN, queue_name="a"), job(True, 1, MIN, queue_name="a"), False, ""),  # and stopped
        (
            job(queue_name="a"),
            job(annotations={GATE: "example.com/g"}, queue_name="a"),
            False,
            "cannot add admission gate after creation",
        ),
        (job(annotations={GATE: "example.com/g"}, queue_name="a"), job(queue_name="a"), False, ""),
        (
            job(queue_name="a"),
            job(annotations=ELASTIC, queue_name="a"),
            False,
            f"{ELASTIC_PATH}: Invalid value: true: field is immutable",
        ),
        (
            job(False, annotations=ELASTIC, queue_name="a"),
            job(False, queue_name="a"),
            False,
            f"{ELASTIC_PATH}: Invalid value: false: field is immutable",
        ),
        (job(queue_name="a"), job(annotations={"kueue.x-k8s.io/elastic-job": "false"}, queue_name="a"), False, ""),
        # An unchanged invalid value is accepted, so that such a Job can still be started and stopped.
        (job(annotations={SYNC: "maybe"}, queue_name="a"), job(False, 1, {SYNC: "maybe"}, queue_name="a"), False, ""),
        (job(annotations={SYNC: "maybe"}), job(annotations={SYNC: "perhaps"}), False, "invalid syntax"),
        (job(False, queue_name="A_b"), job(queue_name="A_b"), False, ""),
    ],
)
def test_updates_are_accepted_or_refused(old, new, default_queue, words):
    errors = validate_job_update(new, old, SubmissionContext(default_queue=default_queue))
    if words:
        assert words in sentence(errors)
    else:
        assert errors == []
