"""Whom the annotation sluice/user names on a new Job."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api import keys
from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.api_resources import JOBS
from queue_manager.jobs.submitter import SubmitterAdmission
from queue_manager.jobs.webhook import SubmissionContext

QUEUED, PIPELINE = {keys.QUEUE_NAME: "lq"}, "system:serviceaccount:ci:pipeline"


@pytest.mark.parametrize(
    ("user", "labels", "given", "context", "named"),
    [
        ("anna", QUEUED, None, SubmissionContext(), "anna"),
        ("anna", QUEUED, "bob", SubmissionContext(), "anna"),
        (PIPELINE, QUEUED, "bob", SubmissionContext(), "bob"),
        (PIPELINE, QUEUED, None, SubmissionContext(), PIPELINE),
        ("anna", {}, None, SubmissionContext(), None),
        ("anna", {}, None, SubmissionContext(manage_all=True), "anna"),
        ("anna", QUEUED, "bob", SubmissionContext(managed=False), "bob"),
        ("anna", QUEUED, None, SubmissionContext(owner_managed=True), None),
        ("", QUEUED, "bob", SubmissionContext(), "bob"),
    ],
)
def test_a_new_job_names_its_creator_or_whom_a_service_account_speaks_for(
    user: str, labels: dict[str, str], given: str | None, context: SubmissionContext, named: str | None
) -> None:
    made = job(labels, given)
    SubmitterAdmission(context).mutate(AdmissionReview("CREATE", JOBS, "", made, None, user))
    assert made["metadata"]["annotations"].get(keys.USER) == named


def test_an_update_keeps_the_name() -> None:
    changed = job(QUEUED, "bob")
    SubmitterAdmission(SubmissionContext()).mutate(AdmissionReview("UPDATE", JOBS, "", changed, changed, "anna"))
    assert changed["metadata"]["annotations"] == {keys.USER: "bob"}


def job(labels: dict[str, str], user: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": dict(labels), "annotations": {keys.USER: user} if user else {}}, "spec": {}}
