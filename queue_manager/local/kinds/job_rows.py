"""The row that `kubectl get jobs` prints (printJob in kube/pkg/printers/internalversion)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from job_controller.json_tree import Json
from queue_manager.local.kinds.ages import format_age, parse_time
from queue_manager.local.kinds.kind import Column
from queue_manager.local.kinds.tables import AGE, NAME, age

COLUMNS = (
    NAME,
    Column("Status", "string", "The condition that says most about the Job"),
    Column("Completions", "string", "Pods that succeeded, of those wanted"),
    Column("Duration", "string", "From the start to the completion, or to now"),
    AGE,
    Column("Containers", "string", "Names of the containers", priority=1),
    Column("Images", "string", "Images of the containers", priority=1),
    Column("Selector", "string", "Labels of the Job's pods", priority=1),
)


def row(job: Json, now: datetime) -> list[Any]:
    """The cells of a Job in `kubectl get`, in the order of the columns."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or []
    return [
        job["metadata"].get("name", ""),
        _status(job, status),
        _completions(spec, status),
        _duration(status, now),
        age(job, now),
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
        format_selector(spec.get("selector")),
    ]


def _status(job: Json, status: Json) -> str:
    true = {c.get("type") for c in status.get("conditions") or [] if c.get("status") == "True"}
    for condition in ("Complete", "Failed"):
        if condition in true:
            return condition
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in true:
            return condition
    return "Running"


def _completions(spec: Json, status: Json) -> str:
    succeeded = status.get("succeeded") or 0
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(status: Json, now: datetime) -> str:
    start, end = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    return format_age(((end or now) - start).total_seconds()) if start else ""


_OPERATORS = {
    "In": "{key} in ({values})",
    "NotIn": "{key} notin ({values})",
    "Exists": "{key}",
    "DoesNotExist": "!{key}",
}


def format_selector(selector: Json | None) -> str:
    """A LabelSelector as text, with sorted keys."""
    if not selector:
        return "<none>"
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or []:
        template = _OPERATORS.get(expression.get("operator", ""))
        if template is None:
            return "<error>"
        values = ",".join(sorted(expression.get("values") or []))
        terms.append((expression["key"], template.format(key=expression["key"], values=values)))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0])) or "<none>"
