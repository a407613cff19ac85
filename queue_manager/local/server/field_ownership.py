"""Update metadata.managedFields after each write, so that server-side apply knows the manager of each field.

apply/managed_fields.py defines managers. Every write except apply is an Update operation on the fields that it changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from job_controller.json_tree import Json
from queue_manager.local.apply.managed_fields import (
    APPLY,
    UPDATE,
    ManagerId,
    OwnedView,
    decode,
    encode,
    is_sound,
    update,
    wire,
)
from queue_manager.local.kinds.kind import Schema
from queue_manager.local.schema.fieldset import FieldSet
from queue_manager.local.server.http_messages import ServerRequest
from queue_manager.local.server.request_info import MAX_MANAGER, Call
from queue_manager.local.storage.store import Stored

_views: WeakKeyDictionary[Schema, dict[tuple[str, str, bool], OwnedView]] = WeakKeyDictionary()


def view_of(call: Call) -> OwnedView:
    """Return the view of objects for a call's kind and subresource. Cached."""
    kind = call.kind
    views = _views.get(kind.schema)
    if views is None:
        views = _views[kind.schema] = {}
    key = (kind.resource.kind, call.subresource, kind.has_status)
    view = views.get(key)
    if view is None:
        view = views[key] = OwnedView(kind.schema, kind.has_status, call.subresource, kind.resource.kind, kind.versions)
    return view


def manager_name(request: ServerRequest) -> str:
    """Return fieldManager, or else the first word of the user agent."""
    name = request.query.get("fieldManager", "")
    if name:
        return name
    return _first_word(request.headers.get("user-agent", ""))


@lru_cache(maxsize=256)
def _first_word(agent: str) -> str:
    agent = agent.partition("/")[0]
    printable = "".join(char for char in agent if char.isprintable())
    return printable.encode()[:MAX_MANAGER].decode("utf-8", "ignore") or "unknown"


def manager_id(call: Call, operation: str) -> ManagerId:
    """The field manager of a request, as managedFields identifies it."""
    version = "" if operation == APPLY else call.resource.api_version
    return ManagerId(manager_name(call.request), operation, version, call.subresource)


def on_create(call: Call, new: Json, generated: FieldSet, now: str) -> None:
    """Record the creator as manager of all fields of a new object, except those that the server `generated`."""
    fields = view_of(call).of_created(new, generated)
    new["metadata"].pop("managedFields", None)
    if fields is not None:
        new["metadata"]["managedFields"] = [wire(manager_id(call, UPDATE), call.resource.api_version, now, fields)]


def on_update(call: Call, new: Json, old: Json, now: str) -> None:
    """Record the client as manager of the fields that it changed."""
    meta, stored = new["metadata"], old["metadata"].get("managedFields")
    sent = meta.pop("managedFields", None)
    if sent is None or sent == stored or call.subresource:
        if not stored:
            return
        managers = decode(stored) or {}
    elif is_reset(sent):
        return
    else:
        managers = (decode(sent) if is_sound(sent) else None) or decode(stored) or {}
    if not managers:
        return
    view = view_of(call)
    managers = update(view, old, new, managers, manager_id(call, UPDATE), call.resource.api_version, now)
    if managers:
        meta["managedFields"] = encode(managers)
    if sent is not None and sent != stored:  # a client may send those that it has read, which are older
        keep_times(new, old)


def unmanaged(old: Json) -> Json:
    """Return the object without managedFields. The result shares all other parts with the object."""
    return {**old, "metadata": {name: value for name, value in old["metadata"].items() if name != "managedFields"}}


def without_managers(call: Call, stored: Stored, old: Json) -> Json:
    """Return a copy of `old` without managedFields that shares nothing with it, decoded from its `stored` form.

    managedFields are half the size of many objects, so they are cut out of the JSON before that is decoded.
    """
    entries = old["metadata"].get("managedFields")
    if not entries:
        return call.load(stored)
    segment = b',"managedFields":' + orjson.dumps(entries)
    head, found, tail = stored.data.partition(segment)
    if not found or call.kind.from_stored is not None:
        tree = call.load(stored)
        tree["metadata"].pop("managedFields", None)
        return tree
    return orjson.loads(head + tail)


def is_reset(sent: Any) -> bool:
    """Return whether a client asks to clear managedFields, by an empty list or a list of one empty item."""
    return sent in ([], [{}])


def keep_times(new: Json, old: Json) -> None:
    """Restore the old manager times if a write changes nothing else."""
    before = old["metadata"].get("managedFields")
    after = orjson.loads(orjson.dumps(new["metadata"].get("managedFields")))
    if before and after == before:
        new["metadata"]["managedFields"] = before
    if not after or not before or len(after) != len(before):
        return
    if [_timeless(entry) for entry in after] != [_timeless(entry) for entry in before]:
        return
    if {**new, "metadata": {**new["metadata"], "managedFields": before}} == old:
        new["metadata"]["managedFields"] = before


def _timeless(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "time"}
