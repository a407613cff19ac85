"""Which fields of the spec of a Job an update may change (upstream ValidateJobSpecUpdate,
BEHAVIOUR.md#b6-immutable-fields).

The template is immutable, with one exception: while a Job is suspended and none of its pods is active, the fields that
decide about placement and resources may change (KEP-2926, KEP-5440). So a queue can set the node selector of a flavor
before it resumes the Job.
"""

from __future__ import annotations

from job_controller.api_rules.field_errors import IMMUTABLE, FieldError, invalid
from job_controller.api_rules.label_selectors import printed
from job_controller.api_rules.policy_validation import printed_failure_policy, printed_success_policy
from job_controller.json_tree import Json
from job_controller.quantities import MalformedQuantity, exact

_FREE_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")


def validate_immutable(spec: Json, old: Json) -> list[FieldError]:
    """The errors of a changed spec. `old` is the stored Job; its status decides whether the template is mutable."""
    before = old["spec"]
    errors = _validate_completions(spec, before)
    if not same(spec.get("selector"), before.get("selector")):
        errors.append(invalid("spec.selector", printed(spec.get("selector")), IMMUTABLE))
    errors += _validate_template(spec["template"], before["template"], is_template_mutable(old))
    shown = {"podFailurePolicy": printed_failure_policy, "successPolicy": printed_success_policy}
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        value = spec.get(field)
        if not same(value, before.get(field)):
            errors.append(invalid(f"spec.{field}", shown.get(field, _as_is)(value), IMMUTABLE))
    return errors


def _as_is(value: Json) -> Json:
    return value


def _validate_completions(spec: Json, before: Json) -> list[FieldError]:
    new = spec.get("completions")
    if new == before.get("completions"):
        return []
    if spec.get("completionMode") != "Indexed":
        return [invalid("spec.completions", new, IMMUTABLE)]
    if new is None or new == spec.get("parallelism"):
        return []
    return [invalid("spec.completions", new, "can only be modified in tandem with spec.parallelism")]


def is_template_mutable(job: Json) -> bool:
    """Whether the stored Job is suspended without active pods, and has no startTime or the condition Suspended."""
    spec, status = job["spec"], job.get("status") or {}
    if not spec.get("suspend") or status.get("active"):
        return False
    return not status.get("startTime") or any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _validate_template(template: Json, before: Json, mutable: bool) -> list[FieldError]:
    if not mutable:
        return [] if same(template, before) else [invalid("spec.template", _printed(template), IMMUTABLE)]
    if same(_fixed_part(template["spec"], before["spec"]), _fixed_part(before["spec"], template["spec"])):
        return []
    return [invalid("spec.template.spec", template["spec"], IMMUTABLE)]


def _fixed_part(spec: Json, other: Json) -> Json:
    """A pod spec without the fields that may change while the template is mutable."""
    part = {field: value for field, value in spec.items() if field not in _FREE_FIELDS}
    part["affinity"] = _fixed_affinity(spec.get("affinity"))
    for field in ("containers", "initContainers"):
        if _names(spec, field) == _names(other, field) and spec.get(field):
            part[field] = [{k: v for k, v in container.items() if k != "resources"} for container in spec[field]]
    return part


def _names(spec: Json, field: str) -> list[str]:
    return [container.get("name", "") for container in spec.get(field) or ()]


def _fixed_affinity(affinity: Json) -> Json:
    """An affinity without nodeAffinity, which may change; None if nothing else is in it."""
    if not affinity:
        return None
    return {field: value for field, value in affinity.items() if field != "nodeAffinity"} or None


def _printed(template: Json) -> Json:
    """A template as error messages print it: the fields of its metadata beside "Spec"."""
    return {**(template.get("metadata") or {}), "Spec": template.get("spec")}


def same(one: Json, other: Json) -> bool:
    """Whether two values are semantically equal: null, missing and empty lists are the same, quantities compare by
    value.
    """
    return bool(one == other) or bool(_plain(one) == _plain(other))


def _plain(node: Json, key: str = "") -> Json:
    if isinstance(node, dict):
        if key in ("limits", "requests", "overhead"):
            return {name: _amount(amount) for name, amount in node.items()}
        return {k: plain for k, v in node.items() if (plain := _plain(v, k)) is not None}
    if isinstance(node, list):
        return [_plain(item) for item in node] or None
    return node


def _amount(value: Json) -> Json:
    try:
        return exact(value)
    except (MalformedQuantity, TypeError):
        return value
