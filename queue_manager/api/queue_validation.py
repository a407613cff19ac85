"""Validation and defaulting of the kueue.x-k8s.io kinds beyond their schema: Kueue's CEL rules and webhooks.

As on a real cluster there are two layers: the CEL rules of the CRD, and the webhook's rules, which are only evaluated
for objects that passed the CRD. Each `validate_*` returns the errors of the first layer that has any. Objects are JSON
trees that satisfy their schema. Workloads are in `workload_validation`.

Some objects that Kueue accepts can never work, and are rejected: a Cohort that is its own parent, a LocalQueue without
a ClusterQueue or with a negative weight. BEHAVIOUR.md#q33-validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from job_controller import quantities
from job_controller.api_rules import names
from job_controller.api_rules.field_errors import (
    IMMUTABLE,
    FieldError,
    duplicate,
    invalid,
    invalid_here,
    not_supported,
    required,
)
from job_controller.api_rules.label_selectors import validate_label_map, validate_selector
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json
from queue_manager.api.keys import FINALIZER
from queue_manager.api.workload_validation import prepare_workload, validate_tolerations, validate_workload

MAX_FLAVORS = 256  # in all resource groups together
MAX_COVERED_RESOURCES = 256  # in all resource groups together
MAX_QUOTAS_PER_GROUP = 512  # flavors times resources
SMALLEST_WEIGHT = Fraction(1, 10**9)
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

__all__ = [
    "cluster_queue_warnings",
    "prepare_cluster_queue",
    "prepare_resource_flavor",
    "prepare_workload",
    "validate_admission_check",
    "validate_cluster_queue",
    "validate_cohort",
    "validate_local_queue",
    "validate_resource_flavor",
    "validate_workload",
]


# --- defaulting ----------------------------------------------------------------------------------------------


def prepare_cluster_queue(new: Json, old: Json | None = None) -> None:
    """Defaults: the finalizer on creation, and nominalQuota 0 where it is absent."""
    if old is None:
        _add_finalizer(new)
    for _, quota in _quotas(new.get("spec") or {}):
        if quota.get("nominalQuota") is None:
            quota["nominalQuota"] = "0"


def prepare_resource_flavor(new: Json, old: Json | None = None) -> None:
    """Defaults: the finalizer on creation."""
    if old is None:
        _add_finalizer(new)


def cluster_queue_warnings(submitted: Json) -> list[str]:
    """Warnings about accepted fields that are likely mistakes. Call it before `prepare_cluster_queue` adds defaults."""
    return [
        f"{path}.nominalQuota: not set, taken as 0: nothing can be admitted with it"
        for path, quota in _quotas(submitted.get("spec") or {})
        if quota.get("nominalQuota") is None
    ]


def _add_finalizer(obj: Json) -> None:
    finalizers = obj.setdefault("metadata", {}).setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)


# --- ClusterQueue --------------------------------------------------------------------------------------------


def validate_cluster_queue(new: Json, old: Json | None = None) -> list[FieldError]:
    """The errors of a ClusterQueue, and on update of its change from `old`."""
    spec = new.get("spec") or {}
    errors = _cluster_queue_schema_rules(spec)
    if errors:
        return errors
    errors = _validate_resource_groups(spec.get("resourceGroups"), "cohort" if not spec.get("cohortName") else "")
    errors += validate_selector(spec.get("namespaceSelector") or {}, "spec.namespaceSelector")
    errors += _validate_check_flavors(spec)
    errors += _validate_weight(spec)
    if old is not None:
        errors += _validate_unchanged(spec, old.get("spec") or {}, "concurrentAdmissionPolicy")
    return errors


def _cluster_queue_schema_rules(spec: Json) -> list[FieldError]:
    errors = _flavors_match_covered_resources(spec)
    if not spec.get("cohortName") and any(quota.get("borrowingLimit") is not None for _, quota in _quotas(spec)):
        errors.append(invalid_here("spec", "borrowingLimit must be nil when cohort is empty"))
    preemption = spec.get("preemption") or {}
    borrowing = (preemption.get("borrowWithinCohort") or {}).get("policy", "Never")
    if preemption.get("reclaimWithinCohort", "Never") == "Never" and borrowing != "Never":
        detail = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        errors.append(invalid_here("spec.preemption", detail))
    fungibility = spec.get("flavorFungibility") or {}
    both = (fungibility.get("whenCanBorrow", "MayStopSearch"), fungibility.get("whenCanPreempt", "TryNextFlavor"))
    if fungibility.get("preference") is not None and both != ("TryNextFlavor", "TryNextFlavor"):
        detail = "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor"
        errors.append(invalid_here("spec.flavorFungibility", detail))
    return errors


def _validate_check_flavors(spec: Json) -> list[FieldError]:
    """The errors of admission checks limited to flavors that are not of this ClusterQueue."""
    known = sorted({flavor["name"] for _, flavor in _flavors(spec)})
    path = "spec.admissionChecksStrategy.admissionChecks"
    return [
        not_supported(f"{path}[{i}].onFlavors[{j}]", flavor, known)
        for i, check in enumerate((spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ())
        for j, flavor in enumerate(check.get("onFlavors") or ())
        if flavor not in known
    ]


# --- Cohort --------------------------------------------------------------------------------------------------


def validate_cohort(new: Json, old: Json | None = None) -> list[FieldError]:
    """The errors of a Cohort. Lending limits may exceed the nominal quota: they also cover the quota of the subtree."""
    spec = new.get("spec") or {}
    parent = spec.get("parentName")
    errors = _flavors_match_covered_resources(spec)
    if parent and parent == (new.get("metadata") or {}).get("name"):
        errors.append(invalid("spec.parentName", parent, "must not be the Cohort itself"))
    if errors:
        return errors
    errors = _validate_resource_groups(spec.get("resourceGroups"), "" if parent else "parent", lend_any=True)
    return errors + _validate_weight(spec)


# --- quota, of both ------------------------------------------------------------------------------------------


def _flavors(spec: Json) -> Iterator[tuple[str, Json]]:
    for i, group in enumerate(spec.get("resourceGroups") or ()):
        for j, flavor in enumerate(group.get("flavors") or ()):
            yield f"spec.resourceGroups[{i}].flavors[{j}]", flavor


def _quotas(spec: Json) -> Iterator[tuple[str, Json]]:
    for path, flavor in _flavors(spec):
        for k, quota in enumerate(flavor.get("resources") or ()):
            yield f"{path}.resources[{k}]", quota


def _flavors_match_covered_resources(spec: Json) -> list[FieldError]:
    detail = "flavors must have the same number of resources as the coveredResources"
    return [
        invalid_here(f"spec.resourceGroups[{i}]", detail)
        for i, group in enumerate(spec.get("resourceGroups") or ())
        if any(len(flavor["resources"]) != len(group["coveredResources"]) for flavor in group["flavors"])
    ]


def _validate_resource_groups(groups: Json, missing: str, *, lend_any: bool = False) -> list[FieldError]:
    """`missing`: "cohort" or "parent" if the node has none, so that it can neither lend nor borrow."""
    groups = groups or []
    errors = _validate_totals(groups)
    seen_resources: set[str] = set()
    seen_flavors: set[str] = set()
    for i, group in enumerate(groups):
        path = f"spec.resourceGroups[{i}]"
        for j, resource in enumerate(group["coveredResources"]):
            where = f"{path}.coveredResources[{j}]"
            errors += [invalid(where, resource, text) for text in names.qualified_name(resource)]
            if resource in seen_resources:
                errors.append(duplicate(where, resource))
            seen_resources.add(resource)
        for j, flavor in enumerate(group["flavors"]):
            where = f"{path}.flavors[{j}]"
            for k, quota in enumerate(flavor["resources"]):
                covered = group["coveredResources"][k]
                errors += _validate_quota(quota, covered, f"{where}.resources[{k}]", missing, lend_any)
            if flavor["name"] in seen_flavors:
                errors.append(duplicate(f"{where}.name", flavor["name"]))
            seen_flavors.add(flavor["name"])
    return errors


def _validate_totals(groups: Json) -> list[FieldError]:
    flavors = sum(len(group["flavors"]) for group in groups)
    resources = sum(len(group["coveredResources"]) for group in groups)
    errors = []
    if flavors > MAX_FLAVORS:
        errors.append(_too_many("spec.resourceGroups", flavors, MAX_FLAVORS, "flavors in all groups together"))
    if resources > MAX_COVERED_RESOURCES:
        what = "covered resources in all groups together"
        errors.append(_too_many("spec.resourceGroups", resources, MAX_COVERED_RESOURCES, what))
    for i, group in enumerate(groups):
        quotas = len(group["flavors"]) * len(group["coveredResources"])
        if quotas > MAX_QUOTAS_PER_GROUP:
            what = "quotas (flavors times resources) in a group"
            errors.append(_too_many(f"spec.resourceGroups[{i}]", quotas, MAX_QUOTAS_PER_GROUP, what))
    return errors


def _too_many(field: str, actual: int, limit: int, what: str) -> FieldError:
    return FieldError("FieldValueTooMany", field, f"Too many: {actual}: must have at most {limit} {what}")


def _validate_quota(quota: Json, covered: str, path: str, missing: str, lend_any: bool) -> list[FieldError]:
    errors = []
    if quota["name"] != covered:
        errors.append(invalid(f"{path}.name", quota["name"], "must match the name in coveredResources"))
    nominal = quota.get("nominalQuota", 0)
    errors += _not_negative(f"{path}.nominalQuota", nominal)
    for name in ("borrowingLimit", "lendingLimit"):
        limit = quota.get(name)
        if limit is None:
            continue
        errors += _not_negative(f"{path}.{name}", limit)
        if missing:
            errors.append(invalid(f"{path}.{name}", _text(limit), f"must be nil when {missing} is empty"))
        elif name == "lendingLimit" and not lend_any and _exceeds(limit, nominal):
            errors.append(invalid(f"{path}.{name}", _text(limit), "must be less than or equal to the nominalQuota"))
    return errors


def _not_negative(field: str, value: str | int) -> list[FieldError]:
    return _bounded(field, value, lambda exact: exact >= 0, NOT_NEGATIVE)


def _bounded(field: str, value: str | int, allowed: Callable[[Fraction], bool], detail: str) -> list[FieldError]:
    """Check a quantity and its bounds: the pattern in the schema also accepts texts such as 1e1.5."""
    try:
        return [] if allowed(quantities.exact(value)) else [invalid(field, _text(value), detail)]
    except quantities.MalformedQuantity as malformed:
        return [invalid(field, value, str(malformed))]


def _exceeds(limit: str | int, nominal: str | int) -> bool:
    """Whether `limit` is greater than `nominal`. False if one of them is malformed, which is an error of its own."""
    try:
        return quantities.exact(limit) > quantities.exact(nominal)
    except quantities.MalformedQuantity:
        return False


def _text(value: str | int) -> str:
    try:
        return quantities.canonical(quantities.quantity(value))
    except quantities.MalformedQuantity:
        return str(value)


def _validate_weight(spec: Json) -> list[FieldError]:
    weight = (spec.get("fairSharing") or {}).get("weight")
    if weight is None:
        return []
    too_small = "When not 0, weight must be > 10e-9"
    errors = _bounded("spec.fairSharing", weight, lambda exact: not 0 < exact <= SMALLEST_WEIGHT, too_small)
    return errors or _not_negative("spec.fairSharing", weight)


def _validate_unchanged(new: Json, old: Json, field: str) -> list[FieldError]:
    if new.get(field) == old.get(field):
        return []
    return [invalid(f"spec.{field}", new.get(field), IMMUTABLE)]


# --- LocalQueue ----------------------------------------------------------------------------------------------


def validate_local_queue(new: Json, old: Json | None = None) -> list[FieldError]:
    """The errors of a LocalQueue, and on update of its change from `old`."""
    spec = new.get("spec") or {}
    if not spec.get("clusterQueue"):
        return [required("spec.clusterQueue", "the ClusterQueue that this queue leads to")]
    errors = [] if old is None else _validate_unchanged(spec, old.get("spec") or {}, "clusterQueue")
    return errors + _validate_weight(spec)


# --- ResourceFlavor ------------------------------------------------------------------------------------------


def validate_resource_flavor(new: Json, old: Json | None = None) -> list[FieldError]:
    """The errors of a ResourceFlavor, and on update of its change from `old`."""
    spec = new.get("spec") or {}
    errors = _flavor_schema_rules(spec, (old or {}).get("spec") or {})
    if errors:
        return errors
    errors = validate_label_map(spec.get("nodeLabels"), "spec.nodeLabels")
    errors += _validate_taints(spec.get("nodeTaints") or (), "spec.nodeTaints")
    errors += [
        error
        for i, toleration in enumerate(spec.get("tolerations") or ())
        for error in _validate_toleration(toleration, f"spec.tolerations[{i}]")
    ]
    for resource, weight in (spec.get("resourceWeights") or {}).items():
        path = f"spec.resourceWeights[{resource}]"
        errors += _bounded(path, weight, lambda exact: exact > 0, "must be greater than 0")
    return errors


def _flavor_schema_rules(spec: Json, old: Json) -> list[FieldError]:
    errors = []
    if any(taint.get("effect") not in TAINT_EFFECTS for taint in spec.get("nodeTaints") or ()):
        detail = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"
        errors.append(invalid_here("spec.nodeTaints", detail))
    errors += validate_tolerations(spec.get("tolerations") or (), "spec.tolerations")
    topology = spec.get("topologyName")
    if topology is not None and not spec.get("nodeLabels"):
        errors.append(invalid_here("spec", "at least one nodeLabel is required when topology is set"))
    if old.get("topologyName") is not None and topology != old["topologyName"]:
        errors.append(invalid_here("spec", "topologyName is immutable when topologyName is set"))
    return errors


def _validate_taints(taints: Json, path: str) -> list[FieldError]:
    errors = []
    seen = set()
    for i, taint in enumerate(taints):
        where = f"{path}[{i}]"
        errors += [invalid(f"{where}.key", taint["key"], text) for text in names.qualified_name(taint["key"])]
        value = taint.get("value", "")
        errors += [invalid(f"{where}.value", value, text) for text in names.label_value(value)]
        pair = (taint["key"], taint["effect"])
        if pair in seen:
            detail = "taints must be unique by key and effect pair"
            again = duplicate(where, {name: taint[name] for name in ("key", "value", "effect") if name in taint})
            errors.append(again._replace(message=f"{again.message}: {detail}"))
        seen.add(pair)
    return errors


def _validate_toleration(toleration: Json, path: str) -> list[FieldError]:
    key, value = toleration.get("key", ""), toleration.get("value", "")
    errors = [invalid(f"{path}.key", key, text) for text in (names.qualified_name(key) if key else ())]
    return errors + [invalid(f"{path}.value", value, text) for text in names.label_value(value)]


# --- AdmissionCheck ------------------------------------------------------------------------------------------


def validate_admission_check(new: Json, old: Json | None = None) -> list[FieldError]:
    """The errors of an AdmissionCheck, and on update of its change from `old`."""
    spec = new.get("spec") or {}
    return [] if old is None else _validate_unchanged(spec, old.get("spec") or {}, "controllerName")
