"""Taints and tolerations (core/v1): whether a pod bears a taint, and for how long."""

from __future__ import annotations

from collections.abc import Sequence

from job_controller.fields import Json


def tolerates(tolerations: Sequence[Json], taint: Json) -> bool:
    """Whether one of them bears the taint."""
    return any(matches(toleration, taint) for toleration in tolerations)


def matches(toleration: Json, taint: Json) -> bool:
    """core/v1 Toleration.ToleratesTaint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    same_value = (toleration.get("value") or "") == (taint.get("value") or "")
    return operator == "Equal" and bool(toleration.get("key")) and same_value


def tolerated_for(tolerations: Sequence[Json], taint: Json) -> float | None:
    """For how many seconds a NoExecute taint is borne by the first toleration that fits; None: for ever; 0: not."""
    for toleration in tolerations:
        if matches(toleration, taint):
            seconds = toleration.get("tolerationSeconds")
            return None if seconds is None else max(0.0, float(seconds))
    return 0.0
