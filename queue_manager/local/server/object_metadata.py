"""The metadata fields that the API server sets itself, regardless of what the client sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from job_controller.api_rules.field_errors import IMMUTABLE, FieldError, invalid, required
from job_controller.json_tree import Json
from job_controller.times import timestamp
from queue_manager.local import status_errors
from queue_manager.local.server.request_info import Call
from queue_manager.local.storage.store import WritableStore

FINALIZING = ("deletionTimestamp", "deletionGracePeriodSeconds")
# Set only at creation and deletion; an update copies them from the stored object.
OWNED = ("uid", "creationTimestamp", "generation", *FINALIZING)
DROPPED = ("selfLink",)


def check_envelope(call: Call, obj: Json) -> dict[str, Any]:
    """Check apiVersion, kind and namespace against the URL. Return metadata, created if absent. Raises 400."""
    resource = call.resource
    version, kind = obj.setdefault("apiVersion", resource.api_version), obj.setdefault("kind", resource.kind)
    if version != resource.api_version:
        raise status_errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    if kind != resource.kind and call.kind.is_custom:
        problem = invalid("kind", kind, f"must be {resource.kind}")
        raise status_errors.invalid(
            replace(resource, kind=kind), str((obj.get("metadata") or {}).get("name", "")), [problem]
        )
    if kind != resource.kind:
        raise status_errors.bad_request(
            f"{kind} in version {resource.version!r} cannot be handled as a {resource.kind}: "
            f"the kind in the data does not match the resource".replace("'", '"')
        )
    meta = obj.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise status_errors.bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {kind}: bad metadata'
        )
    _check_namespace(call, meta)
    for name in DROPPED:
        meta.pop(name, None)
    return meta


def _check_namespace(call: Call, meta: dict[str, Any]) -> None:
    if not call.resource.namespaced:
        meta.pop("namespace", None)
        return
    if meta.get("namespace", "") not in ("", call.namespace):
        raise status_errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta["namespace"] = call.namespace


# Built-in kinds whose PUT requires a resourceVersion, as that of custom kinds does.
CONDITIONAL = ("customresourcedefinitions", "leases", "runtimeclasses")


def check_name(call: Call, meta: dict[str, Any]) -> None:
    """Check that the object's name is that of the URL. Raises 400."""
    name = meta.get("name", "")
    if not name:
        raise status_errors.bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise status_errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        )


def require_version(call: Call, meta: dict[str, Any]) -> None:
    """Require a resourceVersion in a PUT of the kinds that need one. Raises 422."""
    conditional = call.kind.is_custom or call.resource.plural in CONDITIONAL
    if conditional and meta.get("resourceVersion") in (None, "", "0"):
        problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        named = replace(call.resource, kind=call.resource.plural)
        raise status_errors.invalid(named, call.name, [problem])


def set_new_metadata(store: WritableStore, call: Call, meta: dict[str, Any]) -> None:
    """Set metadata of a new object: name, uid, creation time, generation. Raises 400, 422."""
    if meta.get("resourceVersion", "0") not in ("", "0", None):
        raise status_errors.unexplained("resourceVersion should not be set on objects to be created")
    if not meta.get("name"):
        prefix = meta.get("generateName")
        if not prefix:
            problem = required("metadata.name", "name or generateName is required")
            raise status_errors.invalid(call.resource, "", [problem])
        meta["name"] = call.generated = call.generated or store.new_name(prefix)
    for name in (*FINALIZING, "resourceVersion"):
        meta.pop(name, None)
    if not meta.get("generation"):
        meta.pop("generation", None)
    meta["uid"] = store.new_uid()
    meta["creationTimestamp"] = timestamp(store.now())
    if call.kind.generation:
        meta["generation"] = 1


def keep_server_fields(call: Call, new: Json, old: Json) -> None:
    """Copy the metadata that updates cannot change from the old object. Raises 409 if the uid is another object's."""
    meta, before = new["metadata"], old["metadata"]
    another = bool(meta.get("uid")) and meta["uid"] != before["uid"]
    if another and call.request.method != "PATCH":
        raise status_errors.conflict(call.resource, call.name, _uid_mismatch(call, meta["uid"], before["uid"]))
    version = meta.get("resourceVersion")
    if version and version not in ("0", before["resourceVersion"]):
        if not version.isdigit():
            raise status_errors.unexplained(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        raise status_errors.conflict(call.resource, call.name)
    if another:
        problem = invalid("metadata.uid", meta["uid"], IMMUTABLE)
        raise status_errors.invalid(call.resource, call.name, [problem, problem])
    for name in OWNED:
        if name in before:
            meta[name] = before[name]
        elif name not in FINALIZING:  # these stay in the object, so that validation rejects the change
            meta.pop(name, None)
    meta["resourceVersion"] = before["resourceVersion"]
    if "generateName" in before:
        meta.setdefault("generateName", before["generateName"])


def _uid_mismatch(call: Call, asked: str, found: str) -> str:
    """Return the error of the API server's storage for a uid that is not the object's."""
    group = call.resource.group if "." in call.resource.group and not call.resource.group.endswith(".k8s.io") else ""
    key = "/".join(part for part in ("/registry", group, call.resource.plural, call.namespace, call.name) if part)
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}"
    )


def check_finalizers(new: Json, old: Json) -> list[FieldError]:
    """Reject new finalizers on an object that is being deleted."""
    if "deletionTimestamp" not in old["metadata"]:
        return []
    before = set(old["metadata"].get("finalizers") or ())
    added = sorted(set(new["metadata"].get("finalizers") or ()) - before)
    if not added:
        return []
    detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
    shown = ", ".join(f'"{name}"' for name in added)
    return [FieldError("FieldValueForbidden", "metadata.finalizers", f"Forbidden: {detail}[]string{{{shown}}}")]


def check_immutable_name(new: Json, old: Json) -> list[FieldError]:
    """Reject changes of name and namespace, which a patch can contain."""
    return [
        invalid(f"metadata.{name}", new["metadata"].get(name), IMMUTABLE)
        for name in ("name", "namespace")
        if new["metadata"].get(name) != old["metadata"].get(name)
    ]


def count_generation(call: Call, new: Json, old: Json) -> None:
    """Increment generation if anything besides metadata and status changed."""
    if not call.kind.generation:
        return
    keys = {*new, *old} - ({"metadata", "status"} if call.kind.has_status else {"metadata"})
    if any(new.get(key) != old.get(key) for key in keys):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
