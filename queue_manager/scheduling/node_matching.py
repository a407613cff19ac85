"""Tolerations against taints, and NodeSelectorRequirements against label values (core/v1)."""

from __future__ import annotations

from job_controller.annotations import integer
from job_controller.json_tree import Json


def tolerates(toleration: Json, taint: Json) -> bool:
    """Whether the toleration tolerates the taint: core/v1 Toleration.ToleratesTaint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    same_value = (toleration.get("value") or "") == (taint.get("value") or "")
    return operator == "Equal" and bool(toleration.get("key")) and same_value


def meets(value: str | None, requirement: Json) -> bool:
    """Whether the value of a label (None: absent) meets a NodeSelectorRequirement."""
    values = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            have, bound = integer(value or "", bits=64), integer(values[0], bits=64) if values else None
            return have is not None and bound is not None and (have > bound if operator == "Gt" else have < bound)
    return False
