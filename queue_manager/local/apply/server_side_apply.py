"""Server-side apply: merge a configuration into the live object and make its manager the owner of its fields.

    live + configuration -> merged -> minus the fields that this manager applied before, no longer applies, and no
                                      other manager owns

A field that another manager owns and whose value would change is a conflict, unless the write is forced; a forced write
takes the field from the other manager. A manager that applies the current value of a field becomes a co-owner.
`managed_fields` stores the owners.

In addition, `kubectl apply --server-side` can take over from `kubectl apply`: fields that the annotation of the last
client-side apply explains are not conflicts, and the annotation is kept up to date.
"""

from __future__ import annotations

import copy
from functools import reduce
from typing import NamedTuple

import orjson

from job_controller.json_tree import Json
from queue_manager.local.apply.changed_fields import compare, field_set
from queue_manager.local.apply.field_types import FieldType
from queue_manager.local.apply.list_item_keys import BadValue
from queue_manager.local.apply.managed_fields import (
    APPLY,
    UPDATE,
    ChangeByVersion,
    Entry,
    ManagerId,
    Managers,
    OwnedView,
    VersionedView,
    update,
)
from queue_manager.local.apply.merging import merge, named_fields_too, remove
from queue_manager.local.apply.type_check import check_value
from queue_manager.local.schema.fieldset import (
    FieldSet,
    Path,
    contains,
    difference,
    intersection,
    paths,
    show,
    union,
)
from queue_manager.local.status_errors import StatusError

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"
BEFORE_FIRST_APPLY = "before-first-apply"


class OwnershipConflict(NamedTuple):
    """A field owned by another manager whose value an apply would change."""

    manager: ManagerId
    path: Path


class Conflicts(Exception):
    """Fields of other managers that an apply would change."""

    def __init__(self, found: list[OwnershipConflict]) -> None:
        super().__init__(f"{len(found)} conflicts")
        self.found = found


class Applied(NamedTuple):
    """The merged object and its managers."""

    object: Json
    managers: Managers


def apply(
    view: OwnedView,
    live: Json,
    config: Json,
    managers: Managers,
    who: ManagerId,
    *,
    version: str,
    force: bool,
    now: str,
    subject: str,
) -> Applied:
    """Apply `config` to `live`. Raises StatusError 409 with the conflicts, 500 for a value of a wrong type.

    `version` is the API version, `now` the time of the write as stored, `subject` how errors name the object.
    """
    if not managers:
        managers = _before_first_apply(view, live, version, now)
    try:
        check_value(view.type, config)
    except BadValue as error:
        raise StatusError(500, "", f"failed to create typed patch object ({subject}): {error}") from None
    try:
        applied = _apply(view, live, config, managers, who, version, force, now)
    except Conflicts as error:
        if who.name != KUBECTL:
            raise refusal(error.found) from None
        left = _not_explained(view.type, live, error.found, version)
        if left:
            raise refusal(left) from None
        applied = _apply(view, live, config, managers, who, version, True, now)
    except BadValue as error:
        raise StatusError(500, "", f"failed to merge config: {error}") from None
    if who.name == KUBECTL:
        _refresh_annotation(applied.object, config)
    return applied


def _before_first_apply(view: OwnedView, live: Json, version: str, now: str) -> Managers:
    """Return the managers of an object without managedFields: all its fields get the manager "before-first-apply"."""
    who = ManagerId(BEFORE_FIRST_APPLY, UPDATE, version, "")
    return update(view, view.empty, live, {}, who, version, now)


def _apply(
    view: OwnedView, live: Json, config: Json, managers: Managers, who: ManagerId, version: str, force: bool, now: str
) -> Applied:
    merged = merge(view.type, live, config)
    last = managers.get(who)
    mine = view.owned_by_applier(field_set(view.type, config))
    managers = {**managers, who: Entry(mine, version, last.time if last else None)}
    if last is not None and last.fields:
        merged = _prune(view, merged, managers, last)
    changes = ChangeByVersion(view, live, merged)
    others = {identity: entry for identity, entry in managers.items() if identity != who}
    conflicts = {identity: _changed_fields(entry, changes) for identity, entry in others.items()}
    found = [
        OwnershipConflict(identity, path)
        for identity in sorted(conflicts, key=ManagerId.sort_key)
        for path in paths(conflicts[identity])
    ]
    if found and not force:
        raise Conflicts(found)
    out: Managers = {}
    for identity, entry in others.items():
        fields = difference(difference(entry.fields, conflicts[identity]), changes.at(entry.api_version).removed)
        if fields:
            out[identity] = entry.owning(fields)
    if mine:
        changed = merged != live
        out[who] = Entry(view.owned(mine), version, now if changed else (last.time if last else None))
        if not out[who].fields:
            del out[who]
    return Applied(merged, out)


def _changed_fields(entry: Entry, changes: ChangeByVersion) -> FieldSet:
    """Return the fields of a manager that get another value."""
    change = changes.at(entry.api_version)
    return intersection(entry.fields, union(change.added, change.modified))


# --- pruning -------------------------------------------------------------------------------------------------


def _prune(view: OwnedView, merged: Json, managers: Managers, last: Entry) -> Json:
    """Remove what was applied last time, then add back what a manager owns and what was never applied.

    Each step is taken in the version in which the fields are owned.
    """
    there, convert, back = view.at(last.api_version)
    whole = convert(merged)
    named_last = named_fields_too(there.type, last.fields)
    pruned = back(remove(there.type, whole, named_last))
    for api_version in sorted({entry.api_version for entry in managers.values()}, key=last.api_version.__ne__):
        owned = [entry.fields for entry in managers.values() if entry.api_version == api_version]
        pruned = _with_owned(view.at(api_version), merged, pruned, owned)
    left = named_fields_too(there.type, field_set(there.type, convert(pruned)))
    everything = named_fields_too(there.type, field_set(there.type, whole))
    return back(remove(there.type, whole, intersection(difference(everything, left), named_last)))


def _with_owned(form: VersionedView, merged: Json, pruned: Json, owned: list[FieldSet]) -> Json:
    """Return `pruned` with those fields of `merged` that are owned."""
    type_, whole = form.view.type, form.convert(merged)
    left = field_set(type_, form.convert(pruned))
    everything = named_fields_too(type_, field_set(type_, whole))
    kept = union(named_fields_too(type_, left), named_fields_too(type_, reduce(union, owned)))
    return form.back(remove(type_, whole, difference(everything, kept)))


# --- conflicts -----------------------------------------------------------------------------------------------


def refusal(found: list[OwnershipConflict]) -> StatusError:
    """Return a 409 with one cause per field."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_describe(conflict.manager)}",
            "field": show(conflict.path),
        }
        for conflict in found
    ]
    if len(found) == 1:
        message = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for manager in dict.fromkeys(conflict.manager for conflict in found):
            lines.append(f"conflicts with {_describe(manager)}:")
            lines += [f"- {show(conflict.path)}" for conflict in found if conflict.manager == manager]
        message = f"{len(found)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", f"Apply failed with {message}", {"causes": causes})


def _describe(manager: ManagerId) -> str:
    text = orjson.dumps(manager.name).decode()
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {manager.api_version}" if manager.operation == UPDATE else text


# --- coming from client-side apply ---------------------------------------------------------------------------


def _not_explained(
    type_: FieldType, live: Json, found: list[OwnershipConflict], version: str
) -> list[OwnershipConflict]:
    """Return the conflicts whose current value was not set by the last client-side apply."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = orjson.loads(text or "")
        if last.get("apiVersion") != version:
            return found
        check_value(type_, last)
        check_value(type_, live)
    except (orjson.JSONDecodeError, AttributeError, BadValue):
        return found
    change = compare(type_, last, live)
    allowed = field_set(type_, last)
    for fields in change:
        allowed = difference(allowed, fields)
    return [conflict for conflict in found if not contains(allowed, conflict.path)]


def _refresh_annotation(obj: Json, config: Json) -> None:
    """Update the last-applied annotation for clients that continue with client-side apply."""
    annotations = obj["metadata"].get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return
    shown = copy.deepcopy(config)
    (shown["metadata"].get("annotations") or {}).pop(LAST_APPLIED, None)
    text = orjson.dumps(shown, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    obj["metadata"] = {**obj["metadata"], "annotations": {**annotations, LAST_APPLIED: text}}


__all__ = ["APPLY", "Applied", "OwnershipConflict", "apply", "refusal"]
