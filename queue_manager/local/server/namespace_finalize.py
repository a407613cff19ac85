"""The `finalize` subresource of namespaces."""

from __future__ import annotations

from queue_manager.local.server import object_metadata
from queue_manager.local.server.request_bodies import read_body
from queue_manager.local.server.request_info import Call
from queue_manager.local.server.writing import Writer
from queue_manager.local.storage.store import decode


def finalize(writer: Writer, call: Call) -> bytes:
    """PUT to namespaces/<name>/finalize: replace spec.finalizers. Removes a deleted namespace when none is left."""
    new = read_body(call.request)
    meta = object_metadata.check_envelope(call, new)
    object_metadata.check_name(call, meta)
    old = decode(writer.require(call))
    object_metadata.keep_server_fields(call, new, old)
    spec = {**(old.get("spec") or {}), "finalizers": (new.get("spec") or {}).get("finalizers") or []}
    return writer.store(call, {**old, "spec": spec}, old)
