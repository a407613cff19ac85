"""Label selectors of the form {matchLabels, matchExpressions}: validation, evaluation, printing."""

from __future__ import annotations

from collections.abc import Mapping

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, forbidden, in_order, invalid, required
from job_controller.json_tree import Json


def validate_selector(selector: Json, path: str) -> list[FieldError]:
    """The errors of a selector (upstream ValidateLabelSelector)."""
    errors = validate_label_map(selector.get("matchLabels"), f"{path}.matchLabels")
    for i, expression in enumerate(selector.get("matchExpressions") or ()):
        errors += _validate_expression(expression, f"{path}.matchExpressions[{i}]")
    return errors


def validate_label_map(labels: Mapping[str, str] | None, path: str) -> list[FieldError]:
    """The errors of a map of labels, reported at the path of the map (upstream ValidateLabels)."""
    errors: list[FieldError] = []
    for key, value in (labels or {}).items():
        if problems := names.qualified_name(key):
            errors += [invalid(path, key, text) for text in problems]
        if problems := names.label_value(value):
            errors += [invalid(path, value, text) for text in problems]
    return errors


def _validate_expression(expression: Json, path: str) -> list[FieldError]:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = expression.get("key", "")
    errors += [invalid(f"{path}.key", key, text) for text in names.qualified_name(key)]
    for i, value in enumerate(values):
        errors += [invalid(f"{path}.values[{i}]", value, text) for text in names.label_value(value)]
    return errors


def is_usable(selector: Json) -> bool:
    """Whether a selector is None or valid, so that `matches` can evaluate it."""
    return selector is None or not validate_selector(selector, "")


def matches(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a valid selector matches the labels: None matches nothing, an empty selector everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return labels.get(key) not in values or key not in labels
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False


def printed(selector: Json) -> Json:
    """A selector as error messages print it."""
    if selector is None:
        return None
    shown: Json = {}
    if selector.get("matchLabels"):
        shown["matchLabels"] = in_order(selector["matchLabels"])
    if selector.get("matchExpressions"):
        fields = ("key", "operator", "values")
        expressions = selector["matchExpressions"]
        shown["matchExpressions"] = [{f: e[f] for f in fields if f in e} for e in expressions]
    return shown
