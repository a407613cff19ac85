"""The kinds PriorityClass and Lease."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, forbidden, invalid, not_supported, required
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json
from queue_manager.api.api_resources import LEASES, PRIORITY_CLASSES, RUNTIME_CLASSES
from queue_manager.local.kinds.builtin_kind import builtin, immutable, lookup
from queue_manager.local.kinds.kind import Column
from queue_manager.local.kinds.tables import AGE, NAME, age

HIGHEST = 1_000_000_000  # of a class created by a user
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_POLICIES = ("PreemptLowerPriority", "Never")


def _prepare(new: Json, _old: Json | None = None) -> None:
    new.setdefault("value", 0)
    new.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _validate(new: Json) -> list[FieldError]:
    name, value = new["metadata"].get("name") or "", new["value"]
    errors: list[FieldError] = []
    if name.startswith("system-"):
        if SYSTEM.get(name) != value or new.get("globalDefault"):
            detail = "priority class names with 'system-' prefix are reserved for system use only. error: "
            wrong = f"value of {name} PriorityClass must be {SYSTEM[name]}" if name in SYSTEM else ""
            detail += wrong or f"{name} is not a known system priority class"
            errors.append(forbidden("metadata.name", detail))
    elif value > HIGHEST:
        errors.append(forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST}"))
    if new["preemptionPolicy"] not in _POLICIES:
        errors.append(not_supported("preemptionPolicy", new["preemptionPolicy"], _POLICIES))
    return errors


def _validate_update(new: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    if new["value"] != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + immutable(new, old, "preemptionPolicy")


PRIORITY_CLASS = builtin(
    PRIORITY_CLASSES,
    "io.k8s.api.scheduling.v1.PriorityClass",
    short_names=("pc",),
    has_status=False,
    prepare_create=_prepare,
    prepare_update=_prepare,
    create=_validate,
    update=_validate_update,
    columns=(
        NAME,
        Column("Value", "integer", "The priority: higher goes first"),
        Column("Global-Default", "boolean", "Whether pods without a class get this one"),
        AGE,
        Column("PreemptionPolicy", "string", "Whether it may displace others"),
    ),
    row=lambda o, now: [
        o["metadata"]["name"],
        o.get("value", 0),
        bool(o.get("globalDefault")),
        age(o, now),
        o.get("preemptionPolicy") or "",
    ],
)


def _validate_runtime_class(new: Json) -> list[FieldError]:
    handler = new.get("handler") or ""
    if not handler:
        return [required("handler", "")]
    return [invalid("handler", handler, text) for text in names.dns_label(handler)]


RUNTIME_CLASS = builtin(
    RUNTIME_CLASSES,
    "io.k8s.api.node.v1.RuntimeClass",
    generation=False,
    finalizers_on_update=False,
    has_status=False,
    create=_validate_runtime_class,
    update=lambda new, old: _validate_runtime_class(new) + immutable(new, old, "handler"),
    columns=(NAME, Column("Handler", "string", "What runs the containers"), AGE),
    row=lambda o, now: [o["metadata"]["name"], o.get("handler") or "", age(o, now)],
    created_by_update=True,
)


def _validate_lease(new: Json) -> list[FieldError]:
    spec = new.get("spec") or {}
    errors: list[FieldError] = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE))
    return errors


def _lease_row(lease: Json, now: datetime) -> list[Any]:
    return [lease["metadata"]["name"], lookup(lease, "spec.holderIdentity") or "", age(lease, now)]


LEASE = builtin(
    LEASES,
    "io.k8s.api.coordination.v1.Lease",
    generation=False,
    finalizers_on_update=False,
    has_status=False,
    prepare_create=lambda lease: lease.setdefault("spec", {}),
    create=_validate_lease,
    update=lambda new, _old: _validate_lease(new),
    columns=(NAME, Column("Holder", "string", "Who holds it"), AGE),
    row=_lease_row,
    created_by_update=True,
)
