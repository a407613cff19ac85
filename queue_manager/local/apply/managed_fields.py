"""metadata.managedFields: which manager last set which field.

Every write is one operation of one *manager*, identified by its name, the operation (Update or Apply), the API version
and the subresource. A write removes the fields that it changed from all other managers and adds them to its own;
removed fields have no owner. Fields that the server sets have no owner either: those of metadata below, and those that
a resource resets (a Job's status on a write to the Job, its spec on a write to its status).

This module records owners only; `server_side_apply` finds the conflicts between them.

This runs on every write and must be cheap: equal parts of the old and new object are skipped without a walk, similar
new objects (the pods of a Job) share one result, and unchanged entries are never decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson

from job_controller.json_tree import Json
from queue_manager.local.apply.changed_fields import FieldDifference, compare
from queue_manager.local.apply.field_types import DEDUCED, FieldType, custom_type, empty_object, type_named
from queue_manager.local.kinds.custom_kinds import CustomSchema
from queue_manager.local.kinds.kind import OtherVersion, Schema
from queue_manager.local.schema.fieldset import (
    SELF,
    FieldSet,
    check,
    difference,
    union,
    without,
)
from queue_manager.local.schema.strict_decoding import TypedSchema

UPDATE, APPLY = "Update", "Apply"
MEMO = 256  # new objects per kind that are cached ...
MEMO_LENGTH = 8192  # ... if their JSON is at most this long
MAX_UPDATERS = 10  # Update entries; beyond that the oldest are merged into one
ANCIENT = "ancient-changes"
# Metadata fields without an owner.
_NOT_OWNED = frozenset(
    (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    )
)


class ManagerId(NamedTuple):
    """The identity of a manager. For Apply it is the same in all API versions."""

    name: str
    operation: str
    api_version: str
    subresource: str

    def sort_key(self) -> tuple[str, str, str, str]:
        """The order of managers in messages, and of entries with equal times."""
        return (self.name, self.operation, self.api_version, self.subresource)


@dataclass(frozen=True, slots=True)
class Entry:
    """The fields that a manager owns, and the time of its last change. `wire` is the stored form while current."""

    fields: FieldSet
    api_version: str
    time: str | None
    wire: Json = None

    def owning(self, fields: FieldSet) -> Entry:
        """The entry with other fields; the same entry if they are equal."""
        return self if fields == self.fields else replace(self, fields=fields, wire=None)


Managers = dict[ManagerId, Entry]


class OwnedView:
    """The part of an object that managers of one (sub)resource can own."""

    __slots__ = ("_created", "_dropped", "_meta", "_others", "empty", "type")

    def __init__(
        self,
        schema: Schema,
        has_status: bool,
        subresource: str,
        kind: str,
        versions: Mapping[str, OtherVersion] | None = None,
    ) -> None:
        self._others = {
            version: VersionedView(OwnedView(other.schema, has_status, subresource, kind), other.convert, other.back)
            for version, other in (versions or {}).items()
        }
        custom = isinstance(schema, CustomSchema)
        self.type = _type(schema)
        dropped = {"apiVersion", "kind"}
        meta = set(_NOT_OWNED)
        if subresource == "status":
            dropped |= {"spec", "metadata"} if custom else {"spec"}
            if kind == "Pod":
                meta |= {"deletionTimestamp", "ownerReferences"}
        elif has_status:
            dropped.add("status")
        self._dropped = dropped
        self._meta = meta
        self._created: dict[tuple[bytes, bytes], orjson.Fragment | None] = {}
        self.empty: Json = empty_object(schema.definition) if isinstance(schema, TypedSchema) else {}

    def at(self, api_version: str) -> VersionedView:
        """Return the view in an API version; this one, unless the kind has other fields in that version."""
        return self._others.get(api_version) or VersionedView(self, _same, _same)

    def of(self, tree: Json) -> Json:
        """Return the part of an object that can be owned. The result shares values with `tree`."""
        view = {name: value for name, value in tree.items() if name not in self._dropped}
        meta = view.get("metadata")
        if meta is not None:
            view["metadata"] = {name: value for name, value in meta.items() if name not in self._meta}
        return view

    def of_created(self, tree: Json, generated: FieldSet) -> orjson.Fragment | None:
        """Return the fields that the creator of an object owns, in stored form: all but those in `generated`.

        None if it owns nothing. Objects that differ only in metadata values (the pods of a Job) share the result.
        """
        view = self.of(tree)
        meta = view.pop("metadata", None) or {}
        text = orjson.dumps(view)
        names = {name: list(value) if type(value) is dict else value for name, value in meta.items()}
        key = text, orjson.dumps((names, generated))
        if key in self._created:
            return self._created[key]
        fields = without(self._of_new(view, meta), generated)
        answer = orjson.Fragment(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)) if fields else None
        if len(text) <= MEMO_LENGTH:
            if len(self._created) >= MEMO:
                self._created.clear()
            self._created[key] = answer
        return answer

    def _of_new(self, view: Json, meta: Json) -> FieldSet:
        empty = {name: value for name, value in self.empty.items() if name != "metadata"}
        change = compare(self.type, empty, view)
        known = union(change.added, change.modified)
        kind = self.type.map.fields.get("metadata") if self.type.map else None
        named = compare(kind or DEDUCED, {}, meta).added
        return {"f:metadata": named, **known} if named else known

    def owned_by_applier(self, fields: FieldSet) -> FieldSet:
        """Return a set without the fields that the resource resets.

        Names and kinds are kept until conflicts have been checked.
        """
        return {name: node for name, node in fields.items() if name[2:] not in self._dropped}

    def owned(self, fields: FieldSet) -> FieldSet:
        """Return a set without the fields that cannot have an owner."""
        out = {name: node for name, node in fields.items() if name[2:] not in self._dropped}
        meta = out.get("f:metadata")
        if meta is None:
            return out
        left = {name: node for name, node in meta.items() if name != SELF and name[2:] not in self._meta}
        if left:
            out["f:metadata"] = left
        else:
            del out["f:metadata"]
        return out


class VersionedView(NamedTuple):
    """The view of objects in one of the versions of a kind, and the conversion of whole objects to it and back."""

    view: OwnedView
    convert: Callable[[Json], Json]
    back: Callable[[Json], Json]


def _same(tree: Json) -> Json:
    return tree


class ChangeByVersion:
    """What a write changed, as fields of each version: a manager owns fields of the version in which it wrote."""

    def __init__(self, view: OwnedView, old: Json, new: Json) -> None:
        self.own = compare(view.type, view.of(old), view.of(new))
        self._view = view
        self._trees = old, new
        self._others: dict[str, FieldDifference] = {}

    def at(self, api_version: str) -> FieldDifference:
        """Return which fields the write changed, by their names in this API version."""
        view, convert, _ = self._view.at(api_version)
        if view is self._view:
            return self.own
        if api_version not in self._others:
            old, new = (view.of(convert(tree)) for tree in self._trees)
            self._others[api_version] = compare(view.type, old, new)
        return self._others[api_version]


def _type(schema: Schema) -> FieldType:
    if isinstance(schema, CustomSchema):
        return custom_type(schema.definition)
    return type_named(schema.definition) if isinstance(schema, TypedSchema) else DEDUCED


def update(
    view: OwnedView, old: Json, new: Json, managers: Managers, who: ManagerId, version: str, now: str
) -> Managers:
    """Return the managers after `who` has changed `old` to `new`."""
    changes = ChangeByVersion(view, old, new)
    change = changes.own
    if not (change.added or change.modified or change.removed):
        return managers
    taken = union(change.added, change.modified)
    mine = view.owned(taken)
    out: Managers = {}
    for identity, entry in managers.items():
        there = changes.at(entry.api_version)
        everything = union(union(there.added, there.modified), there.removed)
        lost = change.removed if identity == who and mine == taken else everything
        fields = difference(entry.fields, lost)
        if fields:
            out[identity] = entry.owning(fields)
    if mine:
        before = out.get(who)
        out[who] = Entry(union(before.fields, mine) if before else mine, version, now)
    return cap(out)


def cap(managers: Managers) -> Managers:
    """Merge the oldest Update entries, so that at most MAX_UPDATERS remain."""
    updaters = [identity for identity in managers if identity.operation == UPDATE]
    surplus = len(updaters) - MAX_UPDATERS
    if surplus <= 0:
        return managers
    updaters.sort(key=lambda identity: (managers[identity].time or "", identity.sort_key()))
    first: dict[str, ManagerId] = {}
    for identity in updaters:
        if surplus <= 0:
            break
        entry = managers[identity]
        bucket = ManagerId(ANCIENT, UPDATE, entry.api_version, "")
        if entry.api_version not in first:
            first[entry.api_version] = identity
            continue
        if bucket not in managers:
            managers[bucket] = managers.pop(first[entry.api_version])
        merged = union(entry.fields, managers[bucket].fields)
        if identity != bucket:
            del managers[identity]
        managers[bucket] = Entry(merged, entry.api_version, entry.time)
        surplus -= 1
    return managers


# --- wire form -----------------------------------------------------------------------------------------------


def decode(entries: Any) -> Managers | None:
    """Decode metadata.managedFields; None if it is invalid."""
    managers: Managers = {}
    for entry in entries or ():
        operation, version = entry.get("operation"), entry.get("apiVersion")
        fields = entry.get("fieldsV1") or {}
        if operation not in (UPDATE, APPLY) or not version or entry.get("fieldsType") != "FieldsV1":
            return None
        identity = ManagerId(
            entry.get("manager", ""), operation, "" if operation == APPLY else version, entry.get("subresource", "")
        )
        managers[identity] = Entry(fields, version, entry.get("time"), entry)
    return managers


def is_sound(entries: Any) -> bool:
    """Return whether the field sets that a client sent are valid."""
    return all(check(entry.get("fieldsV1") or {}) for entry in entries)


def encode(managers: Managers) -> list[Json]:
    """Encode the managers as metadata.managedFields: Apply entries first, then by time, then by name.

    New sets are included as JSON text (orjson.Fragment), so the result can be encoded but not read.
    """
    ordered = sorted(
        managers.items(),
        key=lambda pair: (
            pair[0].operation,
            pair[1].time or "",
            pair[0].name,
            pair[1].api_version,
            pair[0].subresource,
        ),
    )
    return [_encoded(identity, entry) for identity, entry in ordered]


def _encoded(identity: ManagerId, entry: Entry) -> Json:
    if entry.wire is not None:
        return entry.wire
    fields = orjson.Fragment(orjson.dumps(entry.fields, option=orjson.OPT_SORT_KEYS))
    return wire(identity, entry.api_version, entry.time, fields)


def wire(identity: ManagerId, api_version: str, time: str | None, fields: orjson.Fragment) -> Json:
    """One entry of metadata.managedFields."""
    out: dict[str, Any] = {}
    if identity.name:
        out["manager"] = identity.name
    out |= {"operation": identity.operation, "apiVersion": api_version}
    if time is not None:
        out["time"] = time
    out |= {"fieldsType": "FieldsV1", "fieldsV1": fields}
    if identity.subresource:
        out["subresource"] = identity.subresource
    return out
