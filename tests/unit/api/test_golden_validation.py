"""The recorded answers of the real API server and of Kueue's webhooks, asked of our rules.

What the schema alone decides is asked of the API server's own evaluation of our CRDs, everything else of
`queue_manager.api.validation`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from job_controller.fields import FieldError, Json, sentence
from queue_manager.api import crds, validation
from queue_manager.api.models import KINDS
from queue_manager.local.crds import custom_kinds

RECORDS = [
    json.loads(line) for line in (Path(__file__).parents[2] / "golden/kueue/validation.jsonl").read_text().splitlines()
]
RULES: dict[str, Callable[[Json, Json | None], list[FieldError]]] = {
    "AdmissionCheck": validation.validate_admission_check,
    "ClusterQueue": validation.validate_cluster_queue,
    "Cohort": validation.validate_cohort,
    "LocalQueue": validation.validate_local_queue,
    "ResourceFlavor": validation.validate_resource_flavor,
    "Workload": validation.validate_workload,
}
PREPARE: dict[str, Callable[[Json, Json | None], None]] = {
    "ClusterQueue": validation.prepare_cluster_queue,
    "ResourceFlavor": validation.prepare_resource_flavor,
    "Workload": validation.prepare_workload,
}

NOT_COVERED = {"ClusterQueue: v1beta1 with v1beta1 field names (accepted, deprecation warning)"}
"""v1beta1 is not served."""

STRICTER = {
    "LocalQueue: clusterQueue absent (accepted?)": "spec.clusterQueue",
    "Cohort: own parent (accepted?)": "spec.parentName",
}
"""Accepted by Kueue although it can never work; refused by us at this field."""

BETTER_WORDING = {
    "ResourceFlavor: topologyName without nodeLabels": "at least one nodeLabel is required when topology is set",
}
"""Refused at the same field, where Kueue's text is an accident of its rule's evaluation."""

SCHEMA_REASONS = ("FieldValueNotSupported", "FieldValueTooMany", "FieldValueTooLong", "FieldValueDuplicate")

TEMPLATE = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
    }
}
EXISTING: dict[str, Json] = {
    "ClusterQueue/q": {
        "metadata": {"name": "q"},
        "spec": {
            "cohortName": "co",
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [
                        {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "9", "borrowingLimit": "1"}]}
                    ],
                }
            ],
        },
    },
    "LocalQueue/ns/l": {"metadata": {"name": "l", "namespace": "ns"}, "spec": {"clusterQueue": "q"}},
    "ResourceFlavor/f": {"metadata": {"name": "f"}, "spec": {}},
    "ResourceFlavor/tf": {"metadata": {"name": "tf"}, "spec": {"topologyName": "t", "nodeLabels": {"a": "b"}}},
    "WorkloadPriorityClass/low": {"metadata": {"name": "low"}, "value": 1},
    "Workload/ns/w": {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"queueName": "none", "podSets": [{"name": "main", "count": 3, "template": TEMPLATE}]},
    },
}
"""What the recorder had created before; the patches of the records go on top of these."""


def merge(target: Json, patch: Json) -> Json:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def patched(obj: Json, patch: Json) -> Json:
    if isinstance(patch, dict):
        return merge(copy.deepcopy(obj), patch)
    result = copy.deepcopy(obj)
    for step in patch:
        *parents, last = [int(part) if part.isdigit() else part for part in step["path"].split("/")[1:]]
        place: Any = result
        for part in parents:
            place = place[part]
        place[last] = step["value"]
    return result


def by_schema(record: Json) -> bool:
    """Whether the API server refused it for its shape, before any rule was asked."""
    if record["code"] == 400:
        return True
    return record["code"] == 422 and any(
        " in body " in cause["message"]
        or "some validation rules were not checked" in cause["message"]
        or "Checked value must be of type" in cause["message"]
        or cause["reason"] in SCHEMA_REASONS
        or cause["message"] == "Required value"
        or cause["field"] == "metadata.name"
        for cause in record["causes"]
    )


def kind_of(record: Json) -> str:
    return record["obj"].split("/")[0]


def covered() -> list[Json]:
    return [r for r in RECORDS if kind_of(r) != "Job" and r["case"] not in NOT_COVERED]


def replay() -> list[tuple[Json, Json, Json | None]]:
    """Every covered record with the object as it would be stored and the one before; accepted patches stay."""
    objects = copy.deepcopy(EXISTING)
    steps = []
    for record in covered():
        old = objects[record["obj"]] if record["op"].startswith("patch") else None
        new = copy.deepcopy(record["body"]) if old is None else patched(old, record["body"])
        steps.append((record, new, old))
        if old is not None and record.get("accepted"):
            objects[record["obj"]] = new
    return steps


STEPS = replay()
BY_RULES = [step for step in STEPS if not by_schema(step[0])]
BY_SCHEMA = [step for step in STEPS if by_schema(step[0])]


def ids(steps: list[tuple[Json, Json, Json | None]]) -> list[str]:
    return [step[0]["case"] for step in steps]


SERVED = {kind.__name__: custom_kinds(crds.crd(kind))[0] for kind in KINDS}
UNCHECKED = "some validation rules were not checked because the object was invalid"
"""Added by an API server that evaluates CEL to say that it has not yet."""


def refused_by_schema(record: Json, new: Json, old: Json | None) -> list[FieldError]:
    """What the API server makes of the shape, with our CRD installed."""
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
    """Records of Jobs belong to the Job rules of the queue."""
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
    rules = {error.message for error in judged(record, new, old)}
    recorded = [c for c in record["causes"] if UNCHECKED not in c["message"] and c["message"] not in rules]
    if record["op"] == "patch status":
        # There the real server counts paths within messages from the status.
        errors = [error._replace(message=error.message.replace(" status.", " ")) for error in errors]
    assert [error._asdict() for error in errors if UNCHECKED not in error.message] == recorded


@pytest.mark.parametrize(("record", "new", "old"), BY_RULES, ids=ids(BY_RULES))
def test_our_schema_leaves_to_the_rules_what_it_did_for_kueue(record: Json, new: Json, old: Json | None) -> None:
    errors = refused_by_schema(record, new, old)
    if STRICTER.get(record["case"]) == "spec.clusterQueue":
        assert [error.field for error in errors] == ["spec.clusterQueue"]
    else:
        assert errors == []


def test_a_negative_weight_of_a_local_queue_is_refused() -> None:
    """Kueue has no webhook for LocalQueues and takes it."""
    queue = {"metadata": {"name": "l"}, "spec": {"clusterQueue": "q", "fairSharing": {"weight": "-1"}}}
    errors = validation.validate_local_queue(queue)
    assert sentence(errors) == 'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0'


def test_an_absent_nominal_quota_is_taken_as_zero_with_a_warning() -> None:
    queue = patched(EXISTING["ClusterQueue/q"], {})
    del queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]
    where = "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
    assert validation.cluster_queue_warnings(queue) == [
        f"{where}: not set, taken as 0: nothing can be admitted with it"
    ]
    validation.prepare_cluster_queue(queue)
    assert queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "0"
    assert validation.validate_cluster_queue(queue) == []
    assert validation.cluster_queue_warnings(queue) == []
