"""Every recorded request about Jobs gets the recorded response."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest

from job_controller.api_rules import defaults, status_validation, validation
from job_controller.api_rules.field_errors import FieldError, sentence
from tests.golden_cases import TIME, UID, Case, cases, same_text
from tests.golden_cases import defaults as default_cases

ALL = list(cases())
BY_RULES = [case for case in ALL if not case.answered_by_server]


def created(manifest: Any) -> Any:
    """Set the metadata that an API server sets before the rules of Jobs see a new object."""
    job = copy.deepcopy(manifest)
    metadata = job.setdefault("metadata", {})
    for field in ("deletionTimestamp", "selfLink", "resourceVersion", "managedFields"):
        metadata.pop(field, None)
    metadata |= {"uid": UID, "creationTimestamp": TIME, "generation": 1}
    job |= {"apiVersion": "batch/v1", "kind": "Job"}
    defaults.prepare_create(job)
    return job


def replaced(case: Case) -> Any:
    """The defaulted object of a replacement. Fields that the request cannot write are those of the stored object."""
    job, old = copy.deepcopy(case.body), case.before
    other = "status" if case.operation == "update" else "spec"
    job[other] = copy.deepcopy(old[other])
    metadata, before = job["metadata"], old["metadata"]
    metadata["creationTimestamp"] = before["creationTimestamp"]
    metadata["generation"] = before["generation"]
    metadata.pop("managedFields", None)
    if case.operation == "update":
        defaults.prepare_update(job, old)
        metadata["generation"] += job["spec"] != old["spec"]
    else:
        defaults.prepare_status(job, old)
    return job


def answer(case: Case) -> tuple[Any, list[FieldError], list[str]]:
    if case.operation == "create":
        job = created(case.body)
        return job, validation.validate_create(job), validation.warnings(job, None)
    job = replaced(case)
    if case.operation == "update":
        return job, validation.validate_update(job, case.before), validation.warnings(job, case.before)
    return job, status_validation.validate_status_update(job, case.before), []


@pytest.mark.parametrize("case", BY_RULES, ids=lambda case: case.name)
def test_answer_is_that_of_the_real_server(case: Case) -> None:
    job, errors, warnings = answer(case)
    causes = [(error.reason, error.field, error.message) for error in errors]
    recorded = [(cause["reason"], cause["field"], cause["message"]) for cause in case.causes]
    assert len(causes) == len(recorded), causes
    for ours, theirs in zip(causes, recorded, strict=True):
        assert ours[:2] == theirs[:2]
        assert same_text(ours[2], theirs[2]), (ours[2], theirs[2])
    if case.accepted:
        assert not errors
        assert job == case.result
        assert warnings == case.warnings
    else:
        assert case.code == 422
        assert case.reason == "Invalid"
        message = f'Job.batch "{job["metadata"]["name"]}" is invalid: {sentence(errors)}'
        assert same_text(message, case.message or "")


@pytest.mark.parametrize(
    ("manifest", "stored"), [case[1:] for case in default_cases()], ids=[c[0] for c in default_cases()]
)
def test_manifest_is_stored_as_by_the_real_server(manifest: Any, stored: Any) -> None:
    assert created(manifest) == stored


def test_every_recorded_request_is_tested_here_or_left_to_the_server_by_rule() -> None:
    assert Counter(case.answered_by_server for case in ALL) == {"": 456, "decoder": 17, "router": 2, "storage": 2}
    assert len(list(default_cases())) == 21
