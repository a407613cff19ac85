"""Validation of podFailurePolicy, successPolicy and managedBy (upstream pkg/apis/batch/validation).

See BEHAVIOUR.md#b5-policy-validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from job_controller import index_intervals
from job_controller.api_rules import names
from job_controller.api_rules.field_errors import (
    FieldError,
    duplicate,
    invalid,
    invalid_here,
    not_supported,
    required,
    too_long,
    too_many,
)
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json

RULES_LIMIT = 20
CONDITIONS_LIMIT = 20
EXIT_CODES_LIMIT = 255
INDEXES_LIMIT = 65536  # bytes
MANAGER_LIMIT = 63  # bytes
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_UNLIMITED = 2**31


def _go_list(values: Sequence[str]) -> str:
    """A list as Go's %q prints it."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def validate_manager(manager: str, path: str) -> list[FieldError]:
    """The errors of spec.managedBy: a domain-prefixed path of at most MANAGER_LIMIT bytes (KEP-4368)."""
    errors = [] if manager else [required(path)]
    if manager:
        errors += [invalid(path, part, text) for part, text in names.domain_prefixed_path(manager)]
    if len(manager.encode("utf-8", "surrogatepass")) > MANAGER_LIMIT:
        errors.append(too_long(path, MANAGER_LIMIT))
    return errors


def validate_failure_policy(spec: Json, path: str) -> list[FieldError]:
    """The errors of spec.podFailurePolicy (upstream validatePodFailurePolicy)."""
    rules = spec["podFailurePolicy"].get("rules") or ()
    if len(rules) > RULES_LIMIT:
        return [too_many(f"{path}.rules", len(rules), RULES_LIMIT)]
    template = spec["template"]["spec"]
    containers = {
        container.get("name", "")
        for field in ("containers", "initContainers")
        for container in template.get(field) or ()
    }
    errors: list[FieldError] = []
    for i, rule in enumerate(rules):
        errors += _validate_failure_rule(rule, spec, containers, f"{path}.rules[{i}]")
    return errors


def _validate_failure_rule(rule: Json, spec: Json, containers: set[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    action, codes, patterns = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if not action:
        errors.append(required(f"{path}.action", f"valid values: {_go_list(_ACTIONS)}"))
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        errors.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    elif action not in _ACTIONS:
        errors.append(not_supported(f"{path}.action", action, _ACTIONS))
    if codes is not None:
        errors += _validate_exit_codes(codes, containers, f"{path}.onExitCodes")
    if patterns:
        errors += _validate_patterns(patterns, f"{path}.onPodConditions")
    if codes is not None and patterns:
        errors.append(invalid_here(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not patterns:
        errors.append(invalid_here(path, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _validate_exit_codes(codes: Json, containers: set[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, container, values = codes.get("operator", ""), codes.get("containerName"), codes.get("values")
    if not operator:
        errors.append(required(f"{path}.operator", f"valid values: {_go_list(_OPERATORS)}"))
    elif operator not in _OPERATORS:
        errors.append(not_supported(f"{path}.operator", operator, _OPERATORS))
    if container is not None and container not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, text))
    at = f"{path}.values"
    if not values:
        return [*errors, invalid(at, values, "at least one value is required")]
    if len(values) > EXIT_CODES_LIMIT:
        return [*errors, too_many(at, len(values), EXIT_CODES_LIMIT)]
    seen: set[int] = set()
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{at}[{i}]", value, "must not be 0 for the In operator"))
        if value in seen:
            errors.append(duplicate(f"{at}[{i}]", value))
        seen.add(value)
    if any(current < previous for previous, current in pairwise(values)):
        errors.append(invalid(at, values, "must be ordered"))
    return errors


def _validate_patterns(patterns: Json, path: str) -> list[FieldError]:
    if len(patterns) > CONDITIONS_LIMIT:
        return [too_many(path, len(patterns), CONDITIONS_LIMIT)]
    errors: list[FieldError] = []
    for i, pattern in enumerate(patterns):
        at, kind, status = f"{path}[{i}]", pattern.get("type", ""), pattern.get("status", "")
        errors += [invalid(f"{at}.type", kind, text) for text in names.qualified_name(kind)]
        if not status:
            errors.append(required(f"{at}.status", f"valid values: {_go_list(_STATUSES)}"))
        elif status not in _STATUSES:
            errors.append(not_supported(f"{at}.status", status, _STATUSES))
    return errors


def validate_success_policy(spec: Json, path: str) -> list[FieldError]:
    """The errors of spec.successPolicy (upstream validateSuccessPolicy)."""
    rules = spec["successPolicy"].get("rules") or ()
    if not rules:
        return [required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")]
    if len(rules) > RULES_LIMIT:
        return [too_many(f"{path}.rules", len(rules), RULES_LIMIT)]
    errors: list[FieldError] = []
    for i, rule in enumerate(rules):
        errors += _validate_success_rule(rule, spec.get("completions"), f"{path}.rules[{i}]")
    return errors


def _validate_success_rule(rule: Json, completions: int | None, path: str) -> list[FieldError]:
    """The errors of a rule. Limits are skipped without completions, which is an error of its own."""
    count, listed = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and listed is None:
        return [required(path, "at least one of succeededCount or succeededIndexes must be specified")]
    errors: list[FieldError] = []
    total = 0
    if listed is not None:
        at = f"{path}.succeededIndexes"
        if len(listed.encode("utf-8", "surrogatepass")) > INDEXES_LIMIT:
            errors.append(too_long(at, INDEXES_LIMIT))
        try:
            total = index_intervals.check(listed, _UNLIMITED if completions is None else completions)
        except index_intervals.BadIndexes as error:
            errors.append(invalid(at, listed, f"error parsing succeededIndexes: {error}"))
    if count is not None:
        at = f"{path}.succeededCount"
        if count < 0:
            errors.append(invalid(at, count, NOT_NEGATIVE))
        if completions is not None and count > completions:
            text = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(invalid(at, count, text))
        if listed is not None and count > total:
            text = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            errors.append(invalid(at, count, text))
    return errors


# --- how policies are printed ------------------------------------------------------------------------------


def printed_failure_policy(policy: Json) -> Json:
    """A podFailurePolicy as error messages print it: with Go field names."""
    if policy is None:
        return None
    return {"Rules": [_printed_failure_rule(rule) for rule in policy.get("rules") or ()] or None}


def _printed_failure_rule(rule: Json) -> Json:
    codes = rule.get("onExitCodes")
    if codes is not None:
        fields = ("containerName", "operator", "values")
        codes = {field[0].upper() + field[1:]: codes.get(field) for field in fields}
    patterns = [{"Type": p.get("type", ""), "Status": p.get("status", "")} for p in rule.get("onPodConditions") or ()]
    return {"Action": rule.get("action", ""), "OnExitCodes": codes, "OnPodConditions": patterns or None}


def printed_success_policy(policy: Json) -> Json:
    """A successPolicy as error messages print it: with Go field names."""
    if policy is None:
        return None
    rules = [
        {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
        for rule in policy.get("rules") or ()
    ]
    return {"Rules": rules or None}
