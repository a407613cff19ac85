"""Encode objects for responses: as they are stored, as rows of a Table, or as metadata only.

Plain JSON is spliced from the stored bytes without decoding them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
import orjson

from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.local.kinds.custom_kinds import CustomSchema
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.kinds.tables import to_row, to_table
from queue_manager.local.server.content_negotiation import Form
from queue_manager.local.server.event_loop_turns import in_turns
from queue_manager.local.storage.store import Stored

META_VERSION = "meta.k8s.io/v1"

_EVENT_HEAD = {
    "ADDED": b'{"type":"ADDED","object":',
    "MODIFIED": b'{"type":"MODIFIED","object":',
    "DELETED": b'{"type":"DELETED","object":',
    "BOOKMARK": b'{"type":"BOOKMARK","object":',
    "ERROR": b'{"type":"ERROR","object":',
}
_EVENT_TAIL = b"}\n"


class ResponseView:
    """How the response to one request shows objects of one kind: version, and whole, as a Table or as metadata."""

    def __init__(self, kind: Kind, form: Form, include_object: str = "Metadata") -> None:
        self._kind = kind
        self._form = form
        self._include = include_object or "Metadata"
        self._headers = True
        self._translated = kind.from_stored is not None
        self._head = _heads(kind.resource)[0]
        self._since = kind.converted_since
        # Only custom objects carry apiVersion and kind as items of a list, as on an API server.
        self._named = isinstance(kind.schema, CustomSchema)

    @property
    def plain(self) -> bool:
        """Return whether objects are sent in their own form."""
        return self._form == "json"

    def one(self, data: bytes, now: Callable[[], datetime]) -> bytes:
        """Encode a single object. `now` is used by forms that depend on the time, such as the age in a Table."""
        if self._form == "json":
            return self._json(data)
        tree = self._tree(data)
        if self._form == "partial":
            return orjson.dumps(partial(tree))
        meta = {"resourceVersion": tree["metadata"].get("resourceVersion", "")}
        return orjson.dumps(self._table([tree], meta, now()))

    async def many(self, stored: Sequence[Stored], meta: dict[str, Any], now: datetime) -> bytes:
        """Encode a list with its metadata."""
        empty = orjson.dumps(self._list(meta, now))
        items = [self._listed(item.data, now) async for item in in_turns(stored)]
        return b"%b[%b]}" % (empty.removesuffix(b"[]}"), b",".join(items))

    def _list(self, meta: dict[str, Any], now: datetime) -> Json:
        """Encode a list without its items, which are the last field."""
        if self._form == "table":
            return self._table([], meta, now)
        if self._form == "partial":
            return {"kind": "PartialObjectMetadataList", "apiVersion": META_VERSION, "metadata": meta, "items": []}
        resource = self._kind.resource
        return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta, "items": []}

    def _listed(self, data: bytes, now: datetime) -> bytes:
        """Encode an item of a list in the requested form."""
        if self._form == "json":
            return self._item(data)
        if self._form == "partial":
            return orjson.dumps(partial(self._tree(data)))
        return orjson.dumps(to_row(self._kind, self._tree(data), now, self._include))

    async def events(self, changes: Iterable[tuple[str, Stored]], now: datetime) -> bytes:
        """Encode watch events, one per line."""
        parts: list[bytes] = []
        async for kind, stored in in_turns(changes):
            parts.append(_EVENT_HEAD[kind])
            parts.append(self._json(stored.data) if self._form == "json" else self._event_object(stored, now))
            parts.append(_EVENT_TAIL)
        return b"".join(parts)

    def _event_object(self, stored: Stored, now: datetime) -> bytes:
        if self._form == "partial":
            return orjson.dumps(partial(self._tree(stored.data)))
        table = self._table([self._tree(stored.data)], {"resourceVersion": str(stored.revision)}, now)
        if not self._headers:
            table["columnDefinitions"] = None
        self._headers = False
        return orjson.dumps(table)

    def bookmark(self, revision: int, *, initial_events_end: bool = False) -> bytes:
        """Encode a bookmark event, which reports only the revision that the watch has reached."""
        meta: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_events_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        resource = self._kind.resource
        tree: dict[str, Any] = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        if self._form == "partial":
            tree = partial(tree)
        elif self._form == "table":
            row = {"cells": [], "object": partial(tree)}
            tree = {"kind": "Table", "apiVersion": META_VERSION, "metadata": {"resourceVersion": str(revision)}}
            tree |= {"columnDefinitions": None, "rows": [row] if initial_events_end else []}
        return b"".join((_EVENT_HEAD["BOOKMARK"], orjson.dumps(tree), _EVENT_TAIL))

    def _item(self, data: bytes) -> bytes:
        """Encode an object as an item of a list."""
        data = self._json(data)
        if self._named:
            return data
        for head in _heads(self._kind.resource):
            if data.startswith(head):
                return b"{" + data[len(head) :]
        tree = orjson.loads(data)
        return orjson.dumps({name: value for name, value in tree.items() if name not in ("apiVersion", "kind")})

    def _json(self, data: bytes) -> bytes:
        if not self._translated or (data.startswith(self._head) and _revision(data) >= self._since):
            return data
        return orjson.dumps(self._tree(data))

    def _tree(self, data: bytes) -> Json:
        return shown(self._kind, orjson.loads(data))

    def _table(self, trees: list[Json], meta: dict[str, Any], now: datetime) -> Json:
        table = to_table(self._kind, trees, now, self._include)
        table["metadata"] = meta
        return table


class _Metadata(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815


class _Head(msgspec.Struct):
    metadata: _Metadata


_head = msgspec.json.Decoder(_Head)


def _revision(data: bytes) -> int:
    """Return the resourceVersion of an object, 0 if it has none yet.

    Other fields and labels of the same name do not count.
    """
    return int(_head.decode(data).metadata.resourceVersion or 0)


@lru_cache(maxsize=1024)
def _heads(resource: Resource) -> tuple[bytes, bytes]:
    """Return the first bytes of objects of a kind, in both orders of apiVersion and kind."""
    version, name = resource.api_version.encode(), resource.kind.encode()
    return b'{"apiVersion":"%b","kind":"%b",' % (version, name), b'{"kind":"%b","apiVersion":"%b",' % (name, version)


def shown(kind: Kind, tree: Json) -> Json:
    """Return a stored object in the form of a kind."""
    translate = kind.from_stored
    return translate(tree) if translate else tree


def partial(tree: Json) -> Json:
    """Return the PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": META_VERSION, "metadata": tree["metadata"]}


def error_event(status: Json) -> bytes:
    """Encode the ERROR event that ends a watch."""
    return b"".join((_EVENT_HEAD["ERROR"], orjson.dumps(status), _EVENT_TAIL))
