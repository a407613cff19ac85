"""Events, served in two API groups: core/v1 is stored, events.k8s.io/v1 is converted by renaming fields."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, invalid, required
from job_controller.json_tree import Json
from queue_manager.api.api_resources import EVENTS, Resource
from queue_manager.local.kinds.ages import since
from queue_manager.local.kinds.builtin_kind import builtin, lookup
from queue_manager.local.kinds.kind import Column

NEW_EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
# Name in core/v1 -> name in events.k8s.io/v1. All other fields have the same name.
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {new: old for old, new in _RENAMED.items()}


def to_core(event: Json) -> Json:
    """Convert an events.k8s.io/v1 Event to core/v1."""
    return {_BACK.get(key, key): value for key, value in event.items()} | {"apiVersion": EVENTS.api_version}


def from_core(event: Json) -> Json:
    """Convert a core/v1 Event to events.k8s.io/v1."""
    shown = {key: value for key, value in event.items() if value or not key.startswith("reporting")}
    return {_RENAMED.get(key, key): value for key, value in shown.items()} | {"apiVersion": NEW_EVENTS.api_version}


def _prepare(event: Json, _old: Json | None = None) -> None:
    """Fill in what core/v1 Events are always written with: absent times are null, objects and sources empty."""
    for field in ("involvedObject", "source"):
        event.setdefault(field, {})
    for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(field, None)
    for field in ("reportingComponent", "reportingInstance"):
        event.setdefault(field, "")


def _validate(event: Json) -> list[FieldError]:
    """Validation of core/v1, and that of events.k8s.io/v1 for events with an eventTime."""
    involved = event.get("involvedObject") or {}
    namespace = event["metadata"].get("namespace") or ""
    errors: list[FieldError] = []
    about = involved.get("namespace") or ""
    if about != namespace if about else namespace != "default":
        errors.append(invalid("involvedObject.namespace", about, "does not match event.namespace"))
    if not event.get("eventTime"):
        return errors
    return errors + _validate_precise(event)


def _validate_precise(event: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    component = event.get("reportingComponent") or ""
    if not component:
        errors.append(required("reportingController"))
    errors += [invalid("reportingController", component, text) for text in names.qualified_name(component)]
    for field, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128)):
        value = event.get(field) or ""
        if not value:
            errors.append(required(field))
        if len(value) > limit:
            errors.append(invalid(field, "", f"can have at most {limit} characters"))
    if len(event.get("message") or "") > 1024:
        errors.append(invalid("message", "", "can have at most 1024 characters"))
    return errors


def _validate_new(event: Json) -> list[FieldError]:
    """Validation of an event created through events.k8s.io/v1; field names in errors are that version's."""
    errors: list[FieldError] = []
    if not event.get("eventTime"):
        errors.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        kind = event.get("type") or ""
        errors.append(invalid("type", "", f"has invalid value: {kind}"))
    return errors + _validate(to_core(event))


def _row(event: Json, now: datetime) -> list[Any]:
    return _core_row(event if event.get("apiVersion") == EVENTS.api_version else to_core(event), now)


def _core_row(event: Json, now: datetime) -> list[Any]:
    involved, source = event.get("involvedObject") or {}, event.get("source") or {}
    series = event.get("series")
    first = since(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = since(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    if series:
        last, count = since(series.get("lastObservedTime"), now), series.get("count") or 0
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    target = (involved.get("kind") or "").lower()
    return [
        last,
        event.get("type") or "",
        event.get("reason") or "",
        f"{target}/{involved['name']}" if involved.get("name") else target,
        involved.get("fieldPath") or "",
        f"{component}, {instance}" if instance else component,
        (event.get("message") or "").strip(),
        first,
        count,
        event["metadata"]["name"],
    ]


_COLUMNS = (
    Column("Last Seen", "string", "When it was last seen"),
    Column("Type", "string", "Normal or Warning"),
    Column("Reason", "string", "What happened, in a word"),
    Column("Object", "string", "What it is about"),
    Column("Subobject", "string", "The part of it", priority=1),
    Column("Source", "string", "Who reported it", priority=1),
    Column("Message", "string", "What happened, in a sentence"),
    Column("First Seen", "string", "When it was first seen", priority=1),
    Column("Count", "string", "How often it was seen", priority=1),
    Column("Name", "string", "Name of the event", "name", 1),
)
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _fields(event: Json) -> dict[str, str]:
    if event.get("apiVersion") == NEW_EVENTS.api_version:
        event = to_core(event)
    found = {f"involvedObject.{field}": lookup(event, f"involvedObject.{field}") or "" for field in _REFERENCE}
    source = lookup(event, "source.component") or event.get("reportingComponent") or ""
    return found | {
        "reason": event.get("reason") or "",
        "reportingComponent": event.get("reportingComponent") or "",
        "source": source,
        "type": event.get("type") or "",
    }


def _new_fields(event: Json) -> dict[str, str]:
    found = _fields(event)
    renamed = {f"regarding.{field}": found[f"involvedObject.{field}"] for field in _REFERENCE}
    return found | renamed | {"reportingController": found["reportingComponent"]}


EVENT = builtin(
    EVENTS,
    "io.k8s.api.core.v1.Event",
    short_names=("ev",),
    generation=False,
    finalizers_on_update=False,
    has_status=False,
    prepare_create=_prepare,
    prepare_update=_prepare,
    create=_validate,
    update=lambda new, _old: _validate(new),
    fields=_fields,
    columns=_COLUMNS,
    row=_row,
    created_by_update=True,
)


def _prepare_new(event: Json, _old: Json | None = None) -> None:
    core = to_core(event)
    _prepare(core)
    event.update(from_core(core))


NEW_EVENT = builtin(
    NEW_EVENTS,
    "io.k8s.api.events.v1.Event",
    short_names=("ev",),
    generation=False,
    finalizers_on_update=False,
    has_status=False,
    prepare_create=_prepare_new,
    prepare_update=_prepare_new,
    create=_validate_new,
    update=lambda new, _old: _validate(to_core(new)),
    fields=_new_fields,
    columns=_COLUMNS,
    row=_row,
    created_by_update=True,
    stored_as=EVENTS,
    to_stored=to_core,
    from_stored=from_core,
)
