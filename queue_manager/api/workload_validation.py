"""Validation and defaulting of Workloads beyond their schema: the CEL rules of the CRD, then Kueue's webhook.

Errors about the whole object have the field "<nil>", as an API server prints a rule at the root.
BEHAVIOUR.md#q33-validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from job_controller import quantities
from job_controller.api_rules import names
from job_controller.api_rules.field_errors import (
    IMMUTABLE,
    FieldError,
    forbidden,
    invalid,
    invalid_here,
    not_found,
    not_supported,
    required,
    too_long,
)
from job_controller.api_rules.label_selectors import validate_label_map
from job_controller.api_rules.metadata_validation import validate_annotations
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json
from queue_manager.api.check_states import CheckState
from queue_manager.api.condition_types import ADMITTED, QUOTA_RESERVED
from queue_manager.api.keys import ADMISSION_GATED_BY
from queue_manager.api.pod_template_shape import mismatch

ROOT = "<nil>"
MAX_GATE_NAME_BYTES = 63
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# The order in which messages print the fields of a pod set.
_PRINTED_FIRST = ("name", "template", "metadata", "spec", "initContainers", "containers", "restartPolicy", "count")


def prepare_workload(new: Json, old: Json | None = None) -> None:
    """Defaults: clear nominatedClusterNames once clusterName is set."""
    status = new.get("status") or {}
    if status.get("clusterName") and status.get("nominatedClusterNames"):
        was = ((old or {}).get("status") or {}).get("clusterName")
        if status["clusterName"] != was:
            del status["nominatedClusterNames"]


def validate_workload(new: Json, old: Json | None = None) -> list[FieldError]:
    """The errors of a Workload, and on update of its change from `old`; for writes to the object and to its status.

    A spec that did not change was accepted before, and is not validated again.
    """
    same = old is not None and new.get("spec") == old.get("spec")
    if not same and (errors := _template_shapes(new)):
        return errors
    errors = (
        ([] if same else _spec_rules(new))
        + _status_rules(new, old)
        + ([] if old is None else _transition_rules(new, old))
    )
    errors += _assignments_match_pod_sets(new)
    if errors:
        return errors
    errors = ([] if same else _validate_spec(new)) + _validate_state(new, old)
    return errors if old is None else errors + _validate_change(new, old)


def has_condition(workload: Json, condition: str) -> bool:
    """Whether the condition of this type is True."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == condition and c.get("status") == "True" for c in conditions)


# --- rules of the CRD ----------------------------------------------------------------------------------------


def _template_shapes(workload: Json) -> list[FieldError]:
    """Return an error for each pod template with a field of a wrong type.

    Kueue's CRD has a schema for pod templates, which refuses these; ours has none.
    """
    errors = []
    for i, pod_set in enumerate(_pod_sets(workload)):
        if found := mismatch(pod_set.get("template") or {}):
            errors.append(invalid(f"spec.podSets[{i}].template{found.path}", found.value, found.detail))
    return errors


def _spec_rules(workload: Json) -> list[FieldError]:
    spec = workload.get("spec") or {}
    errors = []
    for i, pod_set in enumerate(_pod_sets(workload)):
        if pod_set.get("minCount") is not None and pod_set["minCount"] > pod_set.get("count", 1):
            detail = "minCount should be positive and less or equal to count"
            errors.append(invalid_here(f"spec.podSets[{i}]", detail))
    reference = spec.get("priorityClassRef")
    if reference is None:
        return errors
    kinds = {"scheduling.k8s.io": "PriorityClass", "kueue.x-k8s.io": "WorkloadPriorityClass"}
    group = reference.get("group", "")
    if reference.get("kind") != kinds.get(group):
        detail = f"only the {kinds.get(group)} kind is allowed for the {group} group"
        errors.append(invalid_here("spec.priorityClassRef", detail))
    if spec.get("priority") is None:
        errors.append(invalid_here("spec", "priority should not be nil when priorityClassRef is set"))
    return errors


def _status_rules(new: Json, old: Json | None) -> list[FieldError]:
    status = new.get("status") or {}
    errors = []
    for i, check in enumerate(status.get("admissionChecks") or ()):
        for j, update in enumerate(check.get("podSetUpdates") or ()):
            path = f"status.admissionChecks[{i}].podSetUpdates[{j}].tolerations"
            errors += validate_tolerations(update.get("tolerations") or (), path)
    cluster, was = status.get("clusterName"), ((old or {}).get("status") or {}).get("clusterName")
    if cluster and was and cluster != was:
        errors.append(invalid_here("status", "clusterName is immutable once set"))
    if cluster and status.get("nominatedClusterNames"):
        errors.append(invalid_here("status", "clusterName and nominatedClusterNames are mutually exclusive"))
    return errors


def _assignments_match_pod_sets(workload: Json) -> list[FieldError]:
    admission = (workload.get("status") or {}).get("admission")
    if admission is None or not has_condition(workload, QUOTA_RESERVED):
        return []
    if len(admission.get("podSetAssignments") or ()) == len(_pod_sets(workload)):
        return []
    return [invalid_here(ROOT, "podSetAssignments must have the same number of podSets as the spec")]


def _transition_rules(new: Json, old: Json) -> list[FieldError]:
    new_spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    changed = []
    if has_condition(old, QUOTA_RESERVED):
        changed += _changed_priority_class(new_spec.get("priorityClassRef"), old_spec.get("priorityClassRef"))
        queues = [spec.get("queueName") or "" for spec in (new_spec, old_spec)]
        if has_condition(new, QUOTA_RESERVED) and queues[0] != queues[1]:
            changed.append("queueName is immutable while workload quota reserved")
    if has_condition(old, ADMITTED) and has_condition(new, ADMITTED):
        limits = [spec.get("maximumExecutionTimeSeconds") or 0 for spec in (new_spec, old_spec)]
        if limits[0] != limits[1]:
            changed.append("maximumExecutionTimeSeconds is immutable while workload quota reserved")
    return [invalid_here(ROOT, detail) for detail in changed]


def _changed_priority_class(new: Json, old: Json) -> list[str]:
    """The errors of a changed priority class. Another WorkloadPriorityClass is allowed; the priority follows it."""
    suffix = "is immutable while workload quota reserved"
    if (new is None) != (old is None):
        return [f"priorityClassRef {suffix}"]
    if new is None:
        return []
    changed = [f"priorityClassRef.{part} {suffix}" for part in ("group", "kind") if new.get(part) != old.get(part)]
    pod_class = (new.get("group"), new.get("kind")) == ("scheduling.k8s.io", "PriorityClass")
    if pod_class and new.get("name") != old.get("name"):
        changed.append(
            "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"
        )
    return changed


def validate_tolerations(tolerations: Iterable[Json], path: str) -> list[FieldError]:
    """The CEL rules of a list of tolerations; each error is on the list and occurs once."""
    broken = []
    items = list(tolerations)
    if any(not t.get("key") and t.get("operator") != "Exists" for t in items):
        broken.append("operator must be Exists when 'key' is empty, which means 'match all values and all keys'")
    if any(t.get("tolerationSeconds") is not None and t.get("effect") != "NoExecute" for t in items):
        broken.append("effect must be 'NoExecute' when 'tolerationSeconds' is set")
    if any(t.get("operator") is not None and t["operator"] not in ("Equal", "Exists") for t in items):
        broken.append("supported toleration values: 'Equal'(default), 'Exists'")
    if any(t.get("operator") == "Exists" and t.get("value") is not None for t in items):
        broken.append("a value must be empty when 'operator' is 'Exists'")
    if any(t.get("effect") is not None and t["effect"] not in EFFECTS for t in items):
        broken.append("supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'")
    return [invalid_here(path, detail) for detail in broken]


# --- rules of the webhook, on one object ---------------------------------------------------------------------


def _validate_spec(new: Json) -> list[FieldError]:
    errors = []
    with_minimum = 0
    for i, pod_set in enumerate(_pod_sets(new)):
        errors += _validate_pod_set(pod_set, f"spec.podSets[{i}]")
        with_minimum += pod_set.get("minCount") is not None
    if with_minimum > 1:
        errors.append(invalid("spec.podSets", with_minimum, "at most one podSet can use minCount"))
    return errors


def _validate_state(new: Json, old: Json | None) -> list[FieldError]:
    errors = validate_admission_gates(_annotations(new))
    if has_condition(new, QUOTA_RESERVED):
        errors += _validate_admission(new, old)
    return errors + _validate_reclaimable(new) + _validate_check_updates(new)


def _validate_pod_set(pod_set: Json, path: str) -> list[FieldError]:
    template = pod_set.get("template") or {}
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors = validate_label_map(metadata.get("labels"), f"{path}.template.metadata.labels")
    errors += validate_annotations(metadata.get("annotations"), f"{path}.template.metadata.annotations")
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(kind) or ()):
            where = f"{path}.template.spec.{kind}[{i}].resources"
            errors += _validate_resources(container.get("resources") or {}, where)
    return errors


def _validate_resources(resources: Json, path: str) -> list[FieldError]:
    errors = []
    for part in ("requests", "limits"):
        for name, amount in (resources.get(part) or {}).items():
            where = f"{path}.{part}[{name}]"
            if name == "pods":
                errors.append(invalid(where, name, "the key is reserved for internal kueue use"))
            try:
                value = quantities.quantity(amount)
            except quantities.MalformedQuantity as malformed:
                errors.append(invalid(where, amount, str(malformed)))
                continue
            if value.nano < 0:
                errors.append(invalid(where, quantities.canonical(value), NOT_NEGATIVE))
    return errors


def admission_gates(annotations: Mapping[str, str]) -> list[str]:
    """The gate names, without surrounding spaces; "" between two adjacent commas."""
    text = annotations.get(ADMISSION_GATED_BY, "")
    return [gate.strip() for gate in text.split(",")] if text.strip() else []


def validate_admission_gates(annotations: Mapping[str, str], path: str = "metadata.annotations") -> list[FieldError]:
    """The errors of gate names, which must be domain-prefixed, unique, and of at most 63 bytes (Jobs and Workloads)."""
    where = f"{path}[{ADMISSION_GATED_BY}]"
    whole = annotations.get(ADMISSION_GATED_BY, "")
    errors: list[FieldError] = []
    seen: set[str] = set()
    for gate in admission_gates(annotations):
        if not gate:
            errors.append(invalid(where, whole, "cannot contain empty gate names"))
        elif gate in seen:
            errors.append(invalid(where, whole, f"duplicate gate name: {gate}"))
        else:
            errors += [invalid(where, part, text) for part, text in names.domain_prefixed_path(gate)]
            if len(gate.encode("utf-8", "surrogatepass")) > MAX_GATE_NAME_BYTES:
                errors.append(too_long(where, MAX_GATE_NAME_BYTES))
        seen.add(gate)
    return errors


def validate_admission_gates_update(
    new: Mapping[str, str], old: Mapping[str, str], path: str = "metadata.annotations"
) -> list[FieldError]:
    """The errors of changed gates: after creation they can only be removed (Jobs and Workloads)."""
    added = set(admission_gates(new)) - set(admission_gates(old))
    if not added:
        return []
    first = not admission_gates(old)
    detail = "cannot add admission gate after creation" if first else "can only remove gates, not add new ones"
    return [forbidden(f"{path}[{ADMISSION_GATED_BY}]", detail)]


def _validate_admission(new: Json, old: Json | None) -> list[FieldError]:
    path = "status.admission"
    admission = new["status"].get("admission")
    if admission is None:
        # An object that was inconsistent before may be updated, so that it can be repaired.
        if old is not None and has_condition(old, QUOTA_RESERVED) and old["status"].get("admission") is None:
            return []
        return [required(path, "must be set while the QuotaReserved condition is true")]
    errors = []
    known = _pod_set_names(new)
    for i, assignment in enumerate(admission.get("podSetAssignments") or ()):
        where = f"{path}.podSetAssignments[{i}]"
        name = assignment.get("name", "main")
        if name not in known:
            errors.append(not_found(f"{where}.name", name))
        errors += _validate_usage(assignment, where)
    return errors


def _validate_usage(assignment: Json, path: str) -> list[FieldError]:
    """The errors of a pod set's usage, which must be a multiple of its number of pods."""
    count = assignment.get("count") or 0
    if count <= 0:
        return []
    return [
        invalid(f"{path}.resourceUsage[{resource}]", amount, f"is not a multiple of {count}")
        for resource, amount in (assignment.get("resourceUsage") or {}).items()
        if quantities.parse(amount, resource) % count
    ]


def _validate_reclaimable(new: Json) -> list[FieldError]:
    counts = {pod_set.get("name", "main"): pod_set.get("count", 1) for pod_set in _pod_sets(new)}
    errors = []
    for entry in (new.get("status") or {}).get("reclaimablePods") or ():
        path = f"status.reclaimablePods[{entry['name']}]"
        if entry["name"] not in counts:
            errors.append(not_supported(f"{path}.name", entry["name"], list(counts)))
        elif entry["count"] > counts[entry["name"]]:
            detail = f"should be less or equal to {counts[entry['name']]}"
            errors.append(invalid(f"{path}.count", entry["count"], detail))
    return errors


def _validate_check_updates(new: Json) -> list[FieldError]:
    known = sorted(_pod_set_names(new))
    errors: list[FieldError] = []
    for i, check in enumerate((new.get("status") or {}).get("admissionChecks") or ()):
        for j, update in enumerate(check.get("podSetUpdates") or ()):
            path = f"status.admissionChecks[{i}].podSetUpdates[{j}]"
            if update["name"] not in known:
                errors.append(not_supported(f"{path}.name", update["name"], known))
            for k, toleration in enumerate(update.get("tolerations") or ()):
                if key := toleration.get("key"):
                    where = f"{path}.tolerations[{k}].key"
                    errors += [invalid(where, key, text) for text in names.qualified_name(key)]
            errors += validate_annotations(update.get("annotations"), f"{path}.annotations")
            errors += validate_label_map(update.get("nodeSelector"), f"{path}.nodeSelector")
            errors += validate_label_map(update.get("labels"), f"{path}.labels")
    return errors


# --- rules of the webhook, on a change -----------------------------------------------------------------------


def _validate_change(new: Json, old: Json) -> list[FieldError]:
    errors = []
    if has_condition(old, QUOTA_RESERVED):
        errors += _validate_pod_sets_unchanged(_pod_sets(new), _pod_sets(old))
        if has_condition(new, QUOTA_RESERVED):
            errors += _validate_reclaimable_grows(new, old)
    new_status, old_status = new.get("status") or {}, old.get("status") or {}
    admissions = new_status.get("admission"), old_status.get("admission")
    if None not in admissions and admissions[0] != admissions[1]:
        errors.append(invalid("status.admission", admissions[0], IMMUTABLE))
    errors += _validate_ready_checks_unchanged(new_status, old_status)
    errors += _validate_cluster_name(new_status, old_status)
    return errors + validate_admission_gates_update(_annotations(new), _annotations(old))


def _validate_pod_sets_unchanged(new: list[Json], old: list[Json]) -> list[FieldError]:
    """The errors of changed pod sets: while quota is reserved, only a count may be lowered."""
    if len(new) != len(old):
        return [invalid("spec.podSets", [_printed(pod_set) for pod_set in new], IMMUTABLE)]
    return [
        invalid(f"spec.podSets.{i}", _printed(after), IMMUTABLE)
        for i, (after, before) in enumerate(zip(new, old, strict=True))
        if not _same_or_fewer(after, before)
    ]


def _same_or_fewer(new: Json, old: Json) -> bool:
    if new.get("count", 1) > old.get("count", 1):
        return False
    return {**new, "count": 0} == {**old, "count": 0}


def _printed(pod_set: Json) -> Json:
    """A pod set as messages print it: fields in Kueue's order, with empty metadata."""
    template = {"metadata": {}, **(pod_set.get("template") or {})}
    return _ordered({**pod_set, "template": template})


def _ordered(value: Json) -> Json:
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    if not isinstance(value, dict):
        return value
    first = [key for key in _PRINTED_FIRST if key in value]
    return {key: _ordered(value[key]) for key in dict.fromkeys([*first, *value])}


def _validate_reclaimable_grows(new: Json, old: Json) -> list[FieldError]:
    after = {entry["name"]: entry["count"] for entry in (new.get("status") or {}).get("reclaimablePods") or ()}
    errors = []
    for entry in (old.get("status") or {}).get("reclaimablePods") or ():
        path = f"status.reclaimablePods[{entry['name']}]"
        if entry["name"] not in after:
            errors.append(required(path, "cannot be removed"))
        elif after[entry["name"]] < entry["count"]:
            errors.append(invalid(f"{path}.count", after[entry["name"]], f"cannot be less than {entry['count']}"))
    return errors


def _validate_ready_checks_unchanged(new: Json, old: Json) -> list[FieldError]:
    after = {check["name"]: check for check in new.get("admissionChecks") or ()}
    errors = []
    for i, before in enumerate(old.get("admissionChecks") or ()):
        check = after.get(before["name"], {})
        if before.get("state") != CheckState.READY or check.get("state") != CheckState.READY:
            continue
        updates = check.get("podSetUpdates") or []
        if updates != (before.get("podSetUpdates") or []):
            errors.append(invalid(f"status.admissionChecks[{i}].podSetUpdates", updates, IMMUTABLE))
    return errors


def _validate_cluster_name(new: Json, old: Json) -> list[FieldError]:
    cluster = new.get("clusterName")
    if not cluster or old.get("clusterName") or cluster in (old.get("nominatedClusterNames") or ()):
        return []
    detail = "when setting clusterName it must be one of the nominatedClusterNames"
    return [invalid("status.clusterName", cluster, detail)]


def _pod_sets(workload: Json) -> list[Json]:
    return (workload.get("spec") or {}).get("podSets") or []


def _pod_set_names(workload: Json) -> set[str]:
    return {pod_set.get("name", "main") for pod_set in _pod_sets(workload)}


def _annotations(workload: Json) -> Mapping[str, str]:
    annotations: Mapping[str, str] | None = (workload.get("metadata") or {}).get("annotations")
    return annotations or {}
