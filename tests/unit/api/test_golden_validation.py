"""The recorded answers of a real API server and of Kueue's webhooks are those of our rules.

What the schema decides is asked of the embedded API server's evaluation of our CRDs, everything else of
`queue_manager.api.queue_validation`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from job_controller.api_rules.field_errors import FieldError, sentence
from job_controller.json_tree import Json
from queue_manager.api import crd_generation, queue_validation
from queue_manager.api.models import KINDS
from queue_manager.local.kinds.custom_kinds import custom_kinds
from tests.unit.api.golden import (
    BETTER_WORDING,
    BY_RULES,
    BY_SCHEMA,
    EXISTING,
    NOT_COVERED,
    RECORDS,
    STEPS,
    STRICTER,
    UNCHECKED,
    ids,
    kind_of,
    patched,
)

RULES: dict[str, Callable[[Json, Json | None], list[FieldError]]] = {
    "AdmissionCheck": queue_validation.validate_admission_check,
    "ClusterQueue": queue_validation.validate_cluster_queue,
    "Cohort": queue_validation.validate_cohort,
    "LocalQueue": queue_validation.validate_local_queue,
    "ResourceFlavor": queue_validation.validate_resource_flavor,
    "Workload": queue_validation.validate_workload,
}
PREPARE: dict[str, Callable[[Json, Json | None], None]] = {
    "ClusterQueue": queue_validation.prepare_cluster_queue,
    "ResourceFlavor": queue_validation.prepare_resource_flavor,
    "Workload": queue_validation.prepare_workload,
}

SERVED = {kind.__name__: custom_kinds(crd_generation.crd(kind))[0] for kind in KINDS}


def refused_by_schema(record: Json, new: Json, old: Json | None) -> list[FieldError]:
    """The errors of the embedded API server with our CRD installed."""
    kind, new = SERVED[kind_of(record)], copy.deepcopy(new)
    if kind_of(record) in PREPARE:
        PREPARE[kind_of(record)](new, old)
    if old is None:
        kind.prepare_create(new)
        return kind.validate_create(new)
    kind.prepare_update(new, old)
    return kind.validate_update(new, old)


def judged(record: Json, new: Json, old: Json | None) -> list[FieldError]:
    kind, new = kind_of(record), copy.deepcopy(new)
    if kind in PREPARE:
        PREPARE[kind](new, old)
    return RULES[kind](new, old) if kind in RULES else []


def test_every_record_but_the_jobs_and_the_named_ones_is_covered() -> None:
    """Records of Jobs are tested with the webhook rules for Jobs."""
    jobs = [record for record in RECORDS if kind_of(record) == "Job"]
    assert (len(RECORDS), len(jobs), len(NOT_COVERED)) == (121, 24, 1)
    assert len(STEPS) == len(RECORDS) - len(jobs) - len(NOT_COVERED)


@pytest.mark.parametrize(("record", "new", "old"), BY_RULES, ids=ids(BY_RULES))
def test_our_rules_answer_as_recorded(record: Json, new: Json, old: Json | None) -> None:
    errors = judged(record, new, old)
    if record["case"] in STRICTER:
        assert [error.field for error in errors] == [STRICTER[record["case"]]]
    elif record.get("accepted"):
        assert errors == []
    elif record["case"] in BETTER_WORDING:
        assert [error.field for error in errors] == [cause["field"] for cause in record["causes"]]
        assert errors[0].message == f"Invalid value: {BETTER_WORDING[record['case']]}"
    elif "causes" in record:
        assert [error._asdict() for error in errors] == record["causes"]
    else:
        assert sentence(errors) == record["message"].partition("denied the request: ")[2]


@pytest.mark.parametrize(("record", "new", "old"), BY_SCHEMA, ids=ids(BY_SCHEMA))
def test_our_schema_refuses_as_recorded(record: Json, new: Json, old: Json | None) -> None:
    errors = refused_by_schema(record, new, old)
    if record["code"] == 400:
        # Kueue's webhook could not decode it and named no field.
        where = "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
        assert {error.field for error in errors} == {where}
        return
    recorded = [c for c in record["causes"] if UNCHECKED not in c["message"]]
    if record["op"] == "patch status":
        # There the real server counts paths within messages from the status.
        errors = [error._replace(message=error.message.replace(" status.", " ")) for error in errors]
    assert [error._asdict() for error in errors if UNCHECKED not in error.message] == recorded


@pytest.mark.parametrize(("record", "new", "old"), BY_RULES, ids=ids(BY_RULES))
def test_the_rules_in_our_schema_answer_as_recorded(record: Json, new: Json, old: Json | None) -> None:
    """CEL rules are part of the CRDs; what a webhook answered for Kueue is decided by code."""
    errors = [error for error in refused_by_schema(record, new, old) if UNCHECKED not in error.message]
    if record["case"] in STRICTER:
        assert [error.field for error in errors] == [STRICTER[record["case"]]]
    elif record["case"] in BETTER_WORDING:
        assert [error.message for error in errors] == [f"Invalid value: {BETTER_WORDING[record['case']]}"]
    elif record.get("accepted") or "denied the request" in record.get("message", ""):
        assert errors == []
    else:
        assert [error._asdict() for error in errors] == record["causes"]


def test_a_negative_weight_of_a_local_queue_is_refused() -> None:
    """Kueue has no webhook for LocalQueues and accepts it."""
    queue = {"metadata": {"name": "l"}, "spec": {"clusterQueue": "q", "fairSharing": {"weight": "-1"}}}
    errors = queue_validation.validate_local_queue(queue)
    assert sentence(errors) == 'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0'


def test_an_absent_nominal_quota_is_zero_with_a_warning() -> None:
    queue = patched(EXISTING["ClusterQueue/q"], {})
    del queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]
    where = "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
    assert queue_validation.cluster_queue_warnings(queue) == [
        f"{where}: not set, taken as 0: nothing can be admitted with it"
    ]
    queue_validation.prepare_cluster_queue(queue)
    assert queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "0"
    assert queue_validation.validate_cluster_queue(queue) == []
    assert queue_validation.cluster_queue_warnings(queue) == []
