"""What a WorkloadPriorityClass may set for its Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.api_resources import CLUSTER_QUEUES, WORKLOAD_PRIORITY_CLASSES, Resource
from queue_manager.api.keys import MIN_RUNTIME
from queue_manager.jobs.class_admission import PriorityClassAdmission
from queue_manager.lifecycle.workload_settings import Bounds

HOUR = Bounds(max_min_runtime=3600)
AT_MOST = f'metadata.annotations[{MIN_RUNTIME}]: Invalid value: "2h": must be at most 1h0m0s'


def class_with(text: str | None, value: int = 1) -> dict[str, Any]:
    annotations = {} if text is None else {MIN_RUNTIME: text}
    return {"metadata": {"name": "c", "annotations": {"other": "x", **annotations}}, "value": value}


def refused(
    new: str | None,
    old: dict[str, Any] | None = None,
    *,
    bounds: Bounds = HOUR,
    resource: Resource = WORKLOAD_PRIORITY_CLASSES,
) -> list[str]:
    review = AdmissionReview("UPDATE" if old else "CREATE", resource, "", class_with(new, 2), old, "admin")
    return [str(error) for error in PriorityClassAdmission(lambda: bounds).validate(review)]


def test_a_minimum_runtime_of_a_class_is_bound_as_that_of_a_job() -> None:
    assert refused("1h") == []
    assert refused(None) == []
    assert refused("2h") == [AT_MOST]
    [unreadable] = refused("soon")
    assert 'Invalid value: "soon"' in unreadable
    [not_allowed] = refused("1m", bounds=Bounds())
    assert "Forbidden: the configuration lets no Job forbid its preemption" in not_allowed


@pytest.mark.parametrize(("before", "errors"), [("2h", []), ("3h", [AT_MOST]), (None, [AT_MOST])])
def test_only_a_changed_minimum_of_a_class_is_checked(before: str | None, errors: list[str]) -> None:
    """Else its value could not be changed after the bound has become lower."""
    assert refused("2h", class_with(before)) == errors


def test_the_annotation_of_another_kind_and_a_deletion_are_not_checked() -> None:
    assert refused("2h", resource=CLUSTER_QUEUES) == []
    deletion = AdmissionReview("DELETE", WORKLOAD_PRIORITY_CLASSES, "", class_with("2h"), None, "admin")
    assert PriorityClassAdmission(lambda: HOUR).validate(deletion) == []
