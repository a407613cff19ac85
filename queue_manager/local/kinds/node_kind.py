"""The kind Node: validation, conditions and printed row."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from job_controller.api_rules import metadata_validation, names
from job_controller.api_rules.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    show,
)
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json
from queue_manager.api.api_resources import NODES
from queue_manager.local.kinds.builtin_kind import builtin, lookup
from queue_manager.local.kinds.kind import Column
from queue_manager.local.kinds.tables import AGE, NAME, age
from queue_manager.local.schema import times_and_quantities

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ROLE = "node-role.kubernetes.io/"
_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _prepare(node: Json, _old: Json | None = None) -> None:
    status = node.setdefault("status", {})
    node.setdefault("spec", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    info = status.setdefault("nodeInfo", {})
    for field in _INFO:
        info.setdefault(field, "")


def _validate(node: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = set()
    for index, taint in enumerate(lookup(node, "spec.taints") or []):
        path = f"metadata.taints[{index}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        errors += [invalid(f"{path}.key", key, text) for text in names.qualified_name(key)]
        errors += [invalid(f"{path}.value", taint["value"], t) for t in names.label_value(taint.get("value") or "")]
        if not effect:
            errors.append(required(f"{path}.effect"))
        elif effect not in EFFECTS:
            errors.append(not_supported(f"{path}.effect", effect, EFFECTS))
        if (key, effect) in seen:
            text = show({"Key": key, "Value": taint.get("value") or "", "Effect": effect, "TimeAdded": None})
            message = f"Duplicate value: {text}: taints must be unique by key and effect pair"
            errors.append(FieldError("FieldValueDuplicate", path, message))
        seen.add((key, effect))
    return errors + _validate_amounts(node)


def _validate_amounts(node: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("capacity", "allocatable"):
        for name, amount in (lookup(node, f"status.{field}") or {}).items():
            path = f"status.{field}.{name}"
            number = times_and_quantities.number(amount)
            if number < 0:
                errors.append(invalid(path, amount, NOT_NEGATIVE))
            if number.denominator != 1 and (name == "pods" or _is_extended(name)):
                errors.append(invalid(path, amount, "must be an integer"))
    return errors


def _is_extended(name: str) -> bool:
    """Whether a resource is an extended resource, which is counted in whole units."""
    return "/" in name and "kubernetes.io/" not in name


def _validate_addresses(node: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    addresses = lookup(node, "status.addresses") or []
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            shown = {"Type": address.get("type") or "", "Address": address.get("address") or ""}
            errors.append(duplicate(f"status.addresses[{index}]", shown))
    return errors


def _validate_update(new: Json, old: Json) -> list[FieldError]:
    """Validation of updates of a node and of its status."""
    errors = _validate(new) + _validate_addresses(new)
    for field, path in (("podCIDR", "spec.podCIDRs"), ("providerID", "spec.providerID")):
        before, after = lookup(old, f"spec.{field}"), lookup(new, f"spec.{field}")
        if before and before != after:
            errors.append(forbidden(path, f'node updates may not change {field} except from "" to valid'))
    return errors


def _validate_status(new: Json, old: Json) -> list[FieldError]:
    return metadata_validation.validate_metadata_update(new["metadata"], old["metadata"]) + _validate_update(new, old)


def _row(node: Json, now: datetime) -> list[Any]:
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    addresses: dict[str, str] = {}
    kernel = info.get("kernelVersion") or "<unknown>"
    for address in status.get("addresses") or []:
        addresses.setdefault(address.get("type", ""), address.get("address", ""))
    return [
        node["metadata"]["name"],
        _status(node, status),
        _roles(node["metadata"].get("labels") or {}),
        age(node, now),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP") or "<none>",
        addresses.get("ExternalIP") or "<none>",
        info.get("osImage") or "<unknown>",
        f"{kernel} ({info['architecture']})" if info.get("architecture") else kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _status(node: Json, status: Json) -> str:
    ready = next((c for c in status.get("conditions") or [] if c.get("type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if lookup(node, "spec.unschedulable") else word


def _roles(labels: dict[str, str]) -> str:
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or "<none>"


NODE = builtin(
    NODES,
    "io.k8s.api.core.v1.Node",
    short_names=("no",),
    generation=False,
    prepare_create=_prepare,
    prepare_update=_prepare,
    prepare_status=_prepare,
    create=_validate,
    update=_validate_update,
    validate_status=_validate_status,
    fields=lambda tree: {"spec.unschedulable": "true" if lookup(tree, "spec.unschedulable") else "false"},
    columns=(
        NAME,
        Column("Status", "string", "Whether the node is ready, and takes pods"),
        Column("Roles", "string", "What the node is for"),
        AGE,
        Column("Version", "string", "Version of the node agent"),
        Column("Internal-IP", "string", "Address in the cluster", priority=1),
        Column("External-IP", "string", "Address outside of it", priority=1),
        Column("OS-Image", "string", "Operating system", priority=1),
        Column("Kernel-Version", "string", "Version of the kernel", priority=1),
        Column("Container-Runtime", "string", "What runs the containers", priority=1),
    ),
    row=_row,
    status_on_create=True,  # a node agent registers its node together with its status
)
