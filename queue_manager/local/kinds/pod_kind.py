"""The kind Pod: defaults at creation, QoS class, and the few mutable fields of a spec."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from job_controller import pod_phases
from job_controller.api_rules.field_errors import FieldError, forbidden, invalid
from job_controller.api_rules.metadata_validation import validate_metadata
from job_controller.api_rules.pod_defaults import default_pod
from job_controller.api_rules.pod_templates import validate_pod_spec
from job_controller.json_tree import Json
from queue_manager.api.api_resources import PODS
from queue_manager.local.kinds import pod_rows
from queue_manager.local.kinds.builtin_kind import builtin, lookup
from queue_manager.local.schema import times_and_quantities
from queue_manager.local.schema.fieldset import FieldSet, of_paths
from queue_manager.local.schema.validation_cache import Answers, Passed, text_of

_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
# Added by the DefaultTolerationSeconds admission plugin: 300 s for a node that is not ready or unreachable.
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS = 300
_COUNTED = ("cpu", "memory")  # the resources that decide on the QoS class


_complete = Answers()


def _prepare_create(pod: Json) -> None:
    """Set defaults and the initial status. Both depend only on the spec as it was sent, so they are cached by it."""
    text = text_of(pod.get("spec"))
    known = _complete.get(text)
    if known is None:
        _complete_pod(pod)
        _complete.add(text, [pod["spec"], pod["status"]])
    else:
        pod["spec"], pod["status"] = known


def _complete_pod(pod: Json) -> None:
    spec = pod.setdefault("spec", {})
    spec.pop("ephemeralContainers", None)
    default_pod(spec)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if not spec.get("priorityClassName"):
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    _tolerate_absent_nodes(spec)
    pod["status"] = {"phase": pod_phases.PENDING, "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": None,
            }
        ]


def _tolerate_absent_nodes(spec: Json) -> None:
    present = spec.get("tolerations") or []
    for key in _TOLERATED:
        if not any(
            toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")
            for toleration in present
        ):
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            spec.setdefault("tolerations", []).append(added)


def _generated(pod: Json) -> FieldSet:
    """Priority and tolerations set by admission, which no field manager owns."""
    spec = pod.get("spec") or {}
    return _fields_of_spec(tuple(name for name in ("priority", "preemptionPolicy", "tolerations") if name not in spec))


@cache
def _fields_of_spec(names: tuple[str, ...]) -> FieldSet:
    return of_paths(*(("f:spec", f"f:{name}") for name in names))


def _prepare_update(new: Json, old: Json) -> None:
    spec = new.setdefault("spec", {})
    for name in ("priority", "preemptionPolicy"):  # an update that omits them keeps the values set by admission
        if spec.get(name) is None and name in old["spec"]:
            spec[name] = old["spec"][name]
    default_pod(spec)
    _tolerate_absent_nodes(spec)


def _prepare_status(new: Json, old: Json) -> None:
    """Keep qosClass, which follows from the spec."""
    before = lookup(old, "status.qosClass")
    if before:
        new.setdefault("status", {})["qosClass"] = before
    status = new.get("status") or {}
    if status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]
    for condition in status.get("conditions") or ():
        for field in ("lastProbeTime", "lastTransitionTime"):
            condition.setdefault(field, None)  # always written, as null if absent


def qos_class(spec: Json) -> str:
    """Return the QoS class.

    Guaranteed: every container has cpu and memory limits equal to its requests. BestEffort: none has requests or
    limits. Burstable: all others.
    """
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    asked = guaranteed = False
    if spec.get("resources"):
        containers = [{"resources": spec["resources"]}]
    complete = bool(containers)
    for container in containers:
        limits, requests = (_positive(container, field) for field in ("limits", "requests"))
        asked = asked or bool(limits or requests)
        guaranteed = all(name in limits and requests.get(name, limits[name]) == limits[name] for name in _COUNTED)
        complete = complete and guaranteed
    if not asked:
        return "BestEffort"
    return "Guaranteed" if complete else "Burstable"


def _positive(container: Json, field: str) -> dict[str, Any]:
    found = {}
    for name, amount in ((container.get("resources") or {}).get(field) or {}).items():
        if name in _COUNTED:
            try:
                number = times_and_quantities.number(amount)
            except ValueError:
                continue
            if number > 0:
                found[name] = number
    return found


_valid = Passed()


def _validate_create(pod: Json) -> list[FieldError]:
    spec = pod["spec"]
    text = text_of(spec)
    if text in _valid:
        return []
    errors = validate_pod_spec(spec, "spec", in_pod=True)
    if not errors:
        _valid.add(text)
    return errors


def _validate_update(new: Json, old: Json) -> list[FieldError]:
    """Allow changes of images, an earlier deadline, more tolerations and fewer gates; reject all others."""
    errors = validate_metadata(new["metadata"]) + _validate_create(new)
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return errors
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or []) != len(before.get(field) or []):
            errors.append(forbidden(f"spec.{field}", "pod updates may not add or remove containers"))
            return errors
    deadline = _validate_deadline(spec, before)
    if deadline and spec.get("activeDeadlineSeconds") is not None:
        return errors + deadline
    errors += deadline + _validate_gates(spec, before) + _validate_tolerations(spec, before)
    changed = copy.deepcopy(spec)
    _take_over(changed, before)
    if changed != before:
        errors.append(forbidden("spec", _CHANGEABLE))
    return errors


def _validate_deadline(spec: Json, before: Json) -> list[FieldError]:
    deadline, was = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    field = "spec.activeDeadlineSeconds"
    if was is not None and deadline is None:
        return [invalid(field, None, "must not update from a positive integer to nil value")]
    if deadline is not None and not 0 <= deadline < 2**31:
        return [invalid(field, deadline, "must be between 0 and 2147483647, inclusive")]
    if was is not None and deadline is not None and deadline > was:
        return [invalid(field, deadline, f"must be less than or equal to previous value {was}")]
    return []


def _validate_gates(spec: Json, before: Json) -> list[FieldError]:
    was = {gate.get("name") for gate in before.get("schedulingGates") or []}
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates") or [])
        if gate.get("name") not in was
    ]


def _validate_tolerations(spec: Json, before: Json) -> list[FieldError]:
    def facts(toleration: Json) -> tuple[str, ...]:
        return tuple(toleration.get(name, "") for name in ("key", "operator", "value", "effect"))

    present = [facts(toleration) for toleration in spec.get("tolerations") or []]
    if all(facts(toleration) in present for toleration in before.get("tolerations") or []):
        return []
    return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _take_over(changed: Json, before: Json) -> None:
    """Copy the mutable fields of `before` to `changed`, so that the rest can be compared."""
    for field in ("containers", "initContainers"):
        for container, was in zip(changed.get(field) or [], before.get(field) or [], strict=True):
            container["image"] = was.get("image")
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _restore(changed, before, field)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and changed.get("terminationGracePeriodSeconds") == 1:
        _restore(changed, before, "terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        _restore(changed, before, "nodeSelector")
        _restore(changed, before, "affinity")


def _restore(changed: Json, before: Json, field: str) -> None:
    if field in before:
        changed[field] = before[field]
    else:
        changed.pop(field, None)


def _fields(pod: Json) -> dict[str, str]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return {
        "spec.nodeName": spec.get("nodeName") or "",
        "spec.restartPolicy": spec.get("restartPolicy") or "",
        "spec.schedulerName": spec.get("schedulerName") or "",
        "spec.serviceAccountName": spec.get("serviceAccountName") or "",
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase") or "",
        "status.podIP": ((status.get("podIPs") or [{}])[0]).get("ip") or "",
        "status.nominatedNodeName": status.get("nominatedNodeName") or "",
    }


POD = builtin(
    PODS,
    "io.k8s.api.core.v1.Pod",
    short_names=("po",),
    categories=("all",),
    subresources=("log", "binding", "eviction"),
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    prepare_status=_prepare_status,
    create=_validate_create,
    update=_validate_update,
    fields=_fields,
    columns=pod_rows.COLUMNS,
    row=pod_rows.row,
    generated_fields=_generated,
)
