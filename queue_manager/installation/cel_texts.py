"""Texts of CEL expressions about an admission request, as policies of admissionregistration.k8s.io/v1 contain them.

Fields that may be absent are read with optional selection (`a.?b.orValue(c)`), because a policy with `failurePolicy:
Fail` refuses every request on which an expression fails. `of` is `object` or `oldObject`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from job_controller.api_rules.field_errors import FieldError

USER = "request.userInfo.username"
GROUPS = "request.userInfo.?groups.orValue([])"
VALUE = "<value>"  # in a field error: what only the policy knows, once a request is refused


def text(value: str) -> str:
    """Return a CEL string literal."""
    return json.dumps(value, ensure_ascii=False)


def texts(values: Iterable[str]) -> str:
    """Return a CEL list of string literals."""
    return f"[{', '.join(map(text, values))}]"


def label(of: str, key: str, meta: str = "metadata") -> str:
    """Return the CEL expression of a label's value, "" if it is absent. `meta`: the path of the metadata."""
    return _entry(of, f"{meta}.?labels", key)


def annotation(of: str, key: str) -> str:
    """Return the CEL expression of an annotation's value, "" if it is absent."""
    return _entry(of, "metadata.?annotations", key)


def _entry(of: str, path: str, key: str) -> str:
    return f'{of}.{path}[?{text(key)}].orValue("")'


def suspended(of: str) -> str:
    """Return the CEL expression whether a Job is suspended."""
    return f"{of}.spec.?suspend.orValue(false)"


def finalizers(of: str) -> str:
    """Return the CEL expression of an object's finalizers."""
    return f"{of}.metadata.?finalizers.orValue([])"


def is_child_of_job(of: str) -> str:
    """Return the CEL expression whether a Job controls the object."""
    owner = 'o.kind == "Job" && o.apiVersion.startsWith("batch/") && o.?controller.orValue(false)'
    return f"{of}.metadata.?ownerReferences.orValue([]).exists(o, {owner})"


def condition_status(of: str, type: str) -> str:
    """Return the CEL expression of a condition's status: a list of one string, empty if the condition is absent."""
    conditions = f"{of}.?status.?conditions.orValue([])"
    return f"{conditions}.filter(c, c.type == {text(type)}).map(c, c.status)"


def message(error: FieldError, value: str = '""') -> str:
    """Return the CEL expression of an error message, in which the value of an expression replaces VALUE."""
    before, found, after = str(error).partition(VALUE)
    return f"{text(before)} + {value} + {text(after)}" if found else text(before)
