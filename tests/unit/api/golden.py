"""The recorded answers to objects of the queue's kinds, as steps: what was stored, what was sent, what was answered."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from job_controller.json_tree import Json

RECORDS = [
    json.loads(line) for line in (Path(__file__).parents[2] / "golden/kueue/validation.jsonl").read_text().splitlines()
]
NOT_COVERED = {"ClusterQueue: v1beta1 with v1beta1 field names (accepted, deprecation warning)"}
"""v1beta1 needs a conversion webhook: tests/contract/test_conversion.py."""

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
    """Whether the API server refused it by its schema, before any rule was evaluated."""
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
    """Every covered record with the new and the stored object; accepted patches stay for the next record."""
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


UNCHECKED = "some validation rules were not checked because the object was invalid"
"""Added by an API server that evaluates CEL to say that it has not yet."""
