"""Validation of the placement of a pod: affinity, tolerations, topology spread, scheduling gates (upstream core
validation).
"""

from __future__ import annotations

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from job_controller.api_rules.label_selectors import validate_selector
from job_controller.json_tree import Json

_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_MATCH_ALL = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def label_name(name: str, path: str) -> list[FieldError]:
    """The errors of a label key."""
    return [invalid(path, name, text) for text in names.qualified_name(name)]


def validate_tolerations(tolerations: Json, path: str) -> list[FieldError]:
    """The errors of `spec.tolerations` (upstream ValidateTolerations)."""
    errors: list[FieldError] = []
    for i, toleration in enumerate(tolerations):
        at = f"{path}[{i}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            errors += label_name(key, f"{at}.key")
        elif operator != "Exists":
            errors.append(invalid(f"{at}.operator", operator, _MATCH_ALL))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{at}.effect", effect, text))
        if operator in ("Equal", ""):
            texts = names.label_value(value)
            if texts:
                errors.append(invalid(f"{at}.operator", value, ";".join(texts)))
        elif operator != "Exists":
            errors.append(not_supported(f"{at}.operator", operator, ("Equal", "Exists")))
        elif value:
            errors.append(invalid(f"{at}.operator", toleration, "value must be empty when `operator` is 'Exists'"))
        if effect and effect not in _EFFECTS:
            errors.append(not_supported(f"{at}.effect", effect, _EFFECTS))
    return errors


def validate_gates(gates: Json, path: str) -> list[FieldError]:
    """The errors of `spec.schedulingGates`."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += label_name(name, f"{path}[{i}]")
        if name in seen:
            errors.append(duplicate(f"{path}[{i}]", name))
        seen.add(name)
    return errors


def validate_spread(constraints: Json, path: str) -> list[FieldError]:
    """The errors of `spec.topologySpreadConstraints`."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        at = f"{path}[{i}]"
        skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey", "")
        when = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            errors.append(invalid(f"{at}.maxSkew", skew, "must be greater than zero"))
        errors += label_name(key, f"{at}.topologyKey") if key else [required(f"{at}.topologyKey", "can not be empty")]
        if when not in _UNSATISFIABLE:
            errors.append(not_supported(f"{at}.whenUnsatisfiable", when, _UNSATISFIABLE))
        if (key, when) in seen:
            shown = "{" + f"{key}, {when}" + "}"
            errors.append(duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", shown))
        seen.add((key, when))
        if constraint.get("labelSelector"):
            errors += validate_selector(constraint["labelSelector"], f"{at}.labelSelector")
    return errors


# --- affinity ----------------------------------------------------------------------------------------------


def validate_affinity(affinity: Json, path: str) -> list[FieldError]:
    """The errors of `spec.affinity` (upstream validateAffinity)."""
    errors: list[FieldError] = []
    if "nodeAffinity" in affinity:
        errors += _validate_node_affinity(affinity["nodeAffinity"], f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in affinity:
            errors += _validate_pod_affinity(affinity[kind], f"{path}.{kind}")
    return errors


def _validate_node_affinity(affinity: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if _REQUIRED in affinity:
        at = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        terms = affinity[_REQUIRED].get("nodeSelectorTerms") or ()
        if not terms:
            errors.append(required(at, "must have at least one node selector term"))
        for i, term in enumerate(terms):
            errors += _validate_node_term(term, f"{at}[{i}]")
    for i, preferred in enumerate(affinity.get(_PREFERRED) or ()):
        at = f"{path}.{_PREFERRED}[{i}]"
        errors += _weight(preferred, at) + _validate_node_term(preferred.get("preference") or {}, f"{at}.preference")
    return errors


def _weight(term: Json, path: str) -> list[FieldError]:
    weight = term.get("weight") or 0
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _validate_node_term(term: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{i}]"
        errors += _validate_operator(expression, at)
        errors += label_name(expression.get("key", ""), f"{at}.key")
    for i, expression in enumerate(term.get("matchFields") or ()):
        errors += _validate_field(expression, f"{path}.matchFields[{i}]")
    return errors


def _validate_operator(expression: Json, path: str) -> list[FieldError]:
    values, at = expression.get("values") or (), f"{path}.values"
    match expression.get("operator", ""):
        case "In" | "NotIn":
            return [] if values else [required(at, "must be specified when `operator` is 'In' or 'NotIn'")]
        case "Exists" | "DoesNotExist":
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            return [forbidden(at, text)] if values else []
        case "Gt" | "Lt":
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            return [] if len(values) == 1 else [required(at, text)]
        case other:
            return [invalid(f"{path}.operator", other, "not a valid selector operator")]


def _validate_field(expression: Json, path: str) -> list[FieldError]:
    """The errors of a match on node fields: only metadata.name, with one value."""
    errors: list[FieldError] = []
    values, operator, key = expression.get("values") or (), expression.get("operator", ""), expression.get("key", "")
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", text))
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return errors
    for i, value in enumerate(values):
        errors += [invalid(f"{path}.values[{i}]", value, text) for text in names.dns_subdomain(value)]
    return errors


def _validate_pod_affinity(affinity: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for i, term in enumerate(affinity.get(_REQUIRED) or ()):
        errors += _validate_pod_term(term, f"{path}.{_REQUIRED}[{i}]")
    for i, preferred in enumerate(affinity.get(_PREFERRED) or ()):
        at = f"{path}.{_PREFERRED}[{i}]"
        term = preferred.get("podAffinityTerm") or {}
        errors += _weight(preferred, at) + _validate_pod_term(term, f"{at}.podAffinityTerm")
    return errors


def _validate_pod_term(term: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("labelSelector", "namespaceSelector"):
        if term.get(field):
            errors += validate_selector(term[field], f"{path}.{field}")
    for i, namespace in enumerate(term.get("namespaces") or ()):
        errors += [invalid(f"{path}.namespaces[{i}]", namespace, text) for text in names.dns_label(namespace)]
    key = term.get("topologyKey", "")
    errors += [] if key else [required(f"{path}.topologyKey", "can not be empty")]
    return errors + label_name(key, f"{path}.topologyKey")
