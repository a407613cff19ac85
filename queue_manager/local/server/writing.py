"""Create and change objects: one pipeline for all kinds.

    decode -> metadata -> admission (mutate) -> defaults -> validation -> admission (validate) -> store

There is no await between reading the old object and storing the new one, so no other request runs in between: conflicts
are found by comparing resourceVersions, and patches never need a retry. Writes of large objects run in a thread, on a
snapshot (`large_writes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import orjson

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from job_controller.times import timestamp
from queue_manager.local import status_errors
from queue_manager.local.patching.patch_types import apply_patch, is_merge, is_strategic, require_language, undecodable
from queue_manager.local.server import applying, field_ownership, object_metadata
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin, AdmissionReview
from queue_manager.local.server.equivalent_review import adopt_changes, reviewed_as, reviewed_form
from queue_manager.local.server.namespace_check import require_namespace
from queue_manager.local.server.object_decoding import SCHEME, read_object
from queue_manager.local.server.request_info import Call, check_write_options, name_of
from queue_manager.local.status_errors import StatusError
from queue_manager.local.storage.store import Stored, WritableStore, decode

MAX_NAME_ATTEMPTS = 8  # names tried for one generateName, as upstream


class Writer:
    """The verbs create, update and patch."""

    def __init__(self, store: WritableStore, admission: Sequence[AdmissionPlugin]) -> None:
        self._store = store
        self._admission = admission

    # --- create --------------------------------------------------------------------------------------------

    def create(self, call: Call) -> bytes:
        """POST to a collection: the stored object. Raises 400, 403, 404, 409, 413, 415, 422."""
        check_write_options(call, "CreateOptions")
        obj = read_object(call.request, call.kind, call.warnings)
        self._decoded(call, obj)
        return self._create(call, obj)

    def _create(self, call: Call, obj: Json) -> bytes:
        meta = object_metadata.check_envelope(call, obj)
        if call.resource.namespaced:
            require_namespace(self._store, call, meta.get("name", ""))
        generated = not meta.get("name")
        object_metadata.set_new_metadata(self._store, call, meta)
        if generated:
            self._free_name(call, obj)
        if call.kind.has_status and not call.kind.status_on_create:
            obj.pop("status", None)
        return self._finish_create(call, obj)

    def _free_name(self, call: Call, obj: Json) -> None:
        """Generate another name while the name is taken; after MAX_NAME_ATTEMPTS the client has to retry."""
        meta = obj["metadata"]
        for _ in range(MAX_NAME_ATTEMPTS - 1):
            if self._store.get(call.table, meta.get("namespace", ""), meta["name"]) is None:
                return
            meta["name"] = call.generated = self._store.new_name(meta["generateName"])

    def _finish_create(self, call: Call, obj: Json) -> bytes:
        kind = call.kind
        review = self._mutate("CREATE", call, obj, None)
        generated = kind.generated_fields(obj)
        kind.prepare_create(obj)
        self._refuse(call, name_of(obj), kind.validate_create(obj))
        self._validate(call, review, obj)
        call.warnings.extend(kind.warnings(obj, None))
        name = name_of(obj)
        existing = self._store.get(call.table, obj["metadata"].get("namespace", ""), name)
        if existing is not None:
            raise status_errors.already_exists(
                call.resource, name, going="deletionTimestamp" in decode(existing)["metadata"]
            )
        if not call.created:
            field_ownership.on_create(call, obj, generated, self._now())
        if call.dry_run:
            return orjson.dumps(obj)
        return self._put(call, obj)

    # --- update --------------------------------------------------------------------------------------------

    def update(self, call: Call) -> bytes:
        """Replace an object or its status (PUT); some kinds are created by it. Raises StatusError as `create` does."""
        check_write_options(call, "UpdateOptions")
        new = read_object(call.request, call.kind, call.warnings)
        self._decoded(call, new)
        meta = object_metadata.check_envelope(call, new)
        object_metadata.check_name(call, meta)
        if call.kind.created_by_update and not self._store.get(call.table, call.namespace, call.name):
            meta.pop("resourceVersion", None)
            created = self._create(call, new)
            call.created = True
            return created
        old = call.load(self.require(call))
        object_metadata.require_version(call, meta)
        return self.replace(call, new, old)

    def patch(self, call: Call) -> bytes:
        """PATCH of an object or of its status. Raises 400, 404, 409, 413, 415, 422."""
        check_write_options(call, "PatchOptions", applying.option_problems(call))
        if applying.is_apply(call):
            return applying.apply_object(self, self._store, call)
        require_language(call.kind, call.request.headers.get("content-type", ""))
        stored = self.require(call)
        old = call.load(stored)
        content_type = call.request.headers.get("content-type", "")
        body = call.request.body
        named = b"managedFields" in body or b"\\u" in body
        if is_merge(content_type):
            live = {**old, "metadata": dict(old["metadata"])} if named else field_ownership.unmanaged(old)
        else:
            live = call.load(stored) if named else field_ownership.without_managers(call, stored, old)
        new = apply_patch(call.kind, content_type, live, body)
        if not isinstance(new, dict):
            raise status_errors.bad_request("the patched value is not an object")
        self._patched(call, new, old)
        meta = object_metadata.check_envelope(call, new)
        object_metadata.check_name(call, meta)
        return self.replace(call, new, old)

    # --- apply ---------------------------------------------------------------------------------------------

    def applied_create(self, call: Call, new: Json) -> bytes:
        """Create the object from an apply configuration; its managers are already computed."""
        self._patched(call, new)
        meta = new["metadata"]
        if call.resource.namespaced:
            require_namespace(self._store, call, call.name)
        object_metadata.set_new_metadata(self._store, call, meta)
        if call.kind.has_status and not call.kind.status_on_create:
            new.pop("status", None)
        return self._finish_create(call, new)

    def applied_update(self, call: Call, new: Json, old: Json) -> bytes:
        """Store the result of an apply, with its managers."""
        self._patched(call, new)
        return self.replace(call, new, old, applied=True)

    def replace(self, call: Call, new: Json, old: Json, *, applied: bool = False) -> bytes:
        """Store `new` in place of `old`, which is in its stored form. The two may share unchanged parts.

        `applied`: the change is a server-side apply, and `new` has its managedFields already.
        """
        kind, status = call.kind, call.subresource == "status"
        object_metadata.keep_server_fields(call, new, old)
        if status:
            meta = new["metadata"]
            if kind.is_custom:  # a status write to a custom object does not change metadata
                managers = {"managedFields": meta["managedFields"]} if "managedFields" in meta else {}
                meta = {
                    **{name: value for name, value in old["metadata"].items() if name != "managedFields"},
                    **managers,
                }
            status_written = _status(new) or ({} if kind.is_custom else {"status": {}})
            new = {
                **{name: value for name, value in old.items() if name != "status"},
                "metadata": meta,
                **status_written,
            }
        elif kind.has_status:
            new.pop("status", None)
            new |= _status(old)
        review = self._mutate("UPDATE", call, new, old)
        if status:
            kind.prepare_status(new, old)
            problems = kind.validate_status(new, old)
        else:
            kind.prepare_update(new, old)
            object_metadata.count_generation(call, new, old)
            problems = kind.validate_update(new, old)
        common = object_metadata.check_immutable_name(new, old) + object_metadata.check_finalizers(new, old)
        self._refuse(call, call.name, common + problems)
        self._validate(call, review, new)
        if not status:
            call.warnings.extend(kind.warnings(new, old))
        if applied:
            field_ownership.keep_times(new, old)
        else:
            field_ownership.on_update(call, new, old, self._now())
        return self.store(call, new, old)

    def store(self, call: Call, new: Json, old: Json) -> bytes:
        """Write `new` unless it equals `old`. Remove a deleted object that has nothing more to wait for."""
        if new == old:
            return orjson.dumps(old)
        if call.dry_run:
            return orjson.dumps(new)
        if is_finalized(new):
            answer = orjson.dumps(new)  # only watches show the revision of the deletion
            self._store.remove(call.table, call.stored_form(old))
            return answer
        return self._put(call, new)

    def _now(self) -> str:
        return timestamp(self._store.now())

    def _put(self, call: Call, obj: Json) -> bytes:
        return self._store.put(call.table, *call.stored(obj)).data

    # --- steps ---------------------------------------------------------------------------------------------

    def require(self, call: Call) -> Stored:
        """Return the object that the URL names. Raises 404."""
        stored = self._store.get(call.table, call.namespace, call.name)
        if stored is None:
            raise status_errors.not_found(call.resource, call.name)
        return stored

    def _decoded(self, call: Call, obj: Json) -> None:
        """Decode strictly: unknown fields are rejected, reported or dropped, as fieldValidation says."""
        unknown = call.kind.schema.check(obj)
        if not unknown:
            return
        resource = call.resource
        if call.option("fieldValidation") == "Strict":
            raise status_errors.bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"strict decoding error: {', '.join(unknown)}"
            )
        self._tolerate(call, obj, unknown)

    def _patched(self, call: Call, obj: Json, old: Json | None = None) -> None:
        """Decode the result of a patch like `_decoded`; here unknown fields make the object invalid.

        If the client requests field validation, nothing is skipped as equal to `old`, which would hide repeated fields.
        """
        old = None if call.option("fieldValidation") else old
        content_type, body = call.request.headers.get("content-type", ""), call.request.body
        if is_strategic(content_type):  # converted to the kind of the URL, regardless of its own apiVersion and kind
            own = {"apiVersion": call.resource.api_version, "kind": call.resource.kind}
            obj.update({field: value for field, value in own.items() if isinstance(obj.get(field, ""), str)})
        before = orjson.dumps(obj)
        version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
        if not call.kind.is_custom and (version, name) != (call.resource.api_version, call.resource.kind):
            why = f'no kind "{name}" is registered for version "{version}" {SCHEME}'
            raise undecodable(call.kind, content_type, body, before, why)
        try:
            unknown = call.kind.schema.check(obj, old)
        except StatusError as error:
            raise undecodable(call.kind, content_type, body, before, error.message) from None
        if unknown and call.option("fieldValidation") == "Strict":
            why = f"strict decoding error: {', '.join(unknown)}"
            raise undecodable(call.kind, content_type, body, before, why)
        if unknown:
            self._tolerate(call, obj, unknown)

    def _tolerate(self, call: Call, obj: Json, unknown: list[str]) -> None:
        if call.option("fieldValidation") != "Ignore":
            call.warnings.extend(unknown)
        call.kind.schema.prune(obj)

    def _refuse(self, call: Call, name: str, problems: list[FieldError]) -> None:
        if problems:
            raise status_errors.invalid(call.kind.stored_as or call.resource, name, problems)

    def _mutate(
        self, operation: Literal["CREATE", "UPDATE"], call: Call, obj: Json, old: Json | None
    ) -> AdmissionReview:
        user, dry_run = call.request.user, call.dry_run
        resource, form = reviewed_as(call), reviewed_form(call, obj)
        before = None if old is None else reviewed_form(call, old)
        review = AdmissionReview(operation, resource, call.subresource, form, before, user, dry_run, call.warnings)
        for rule in self._admission:
            self._refuse(call, name_of(obj), rule.mutate(review) or [])
        adopt_changes(call, obj, review)
        return review

    def _validate(self, call: Call, review: AdmissionReview, obj: Json) -> None:
        review.object = reviewed_form(call, obj)
        for rule in self._admission:
            problems, webhook = rule.validate(review), getattr(rule, "webhook", None)
            if problems and webhook is not None:
                raise status_errors.denied(webhook(review), problems)
            self._refuse(call, name_of(review.object), problems)


def is_finalized(obj: Json) -> bool:
    """Return whether an object that is being deleted has nothing more to wait for."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return not (obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and (obj.get("spec") or {}).get("finalizers"))


def _status(obj: Json) -> Json:
    return {"status": obj["status"]} if "status" in obj else {}
