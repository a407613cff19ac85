"""Delete objects, either immediately or by setting deletionTimestamp until finalizers and grace period allow removal.

    present --DELETE--> gone                        no finalizer, no grace
    present --DELETE--> marked --last finalizer removed, or the node agent confirms--> gone

propagationPolicy is stored as a finalizer, which the garbage collector removes when it has finished its part:
`foregroundDeletion` (dependents are deleted first) or `orphan` (dependents lose their owner reference).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from job_controller import pod_phases
from job_controller.api_rules.field_errors import FieldError, invalid, not_supported
from job_controller.json_tree import Json
from job_controller.pod_facts import grace_period
from job_controller.times import timestamp
from queue_manager.api.api_resources import NAMESPACES, PODS, Resource
from queue_manager.local import status_errors
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin, AdmissionReview
from queue_manager.local.server.event_loop_turns import in_turns
from queue_manager.local.server.http_messages import flag
from queue_manager.local.server.listing import Selection
from queue_manager.local.server.object_decoding import SCHEME
from queue_manager.local.server.request_bodies import json_type, read_body
from queue_manager.local.server.request_info import Call
from queue_manager.local.server.writing import is_finalized
from queue_manager.local.storage.store import Store, Stored

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
DEFAULT_GRACE_SECONDS = 30
TURN_SECONDS = 50  # objects of a collection deleted before the event loop runs other tasks: about ten milliseconds
IMMORTAL = ("default", "kube-system", "kube-public")  # namespaces that every cluster has
DELETE_OPTIONS = Resource("meta.k8s.io", "v1", "", "DeleteOptions")
KEPT_CHILDREN = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
    "set propagationPolicy=Orphan to suppress this warning"
)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete. `propagation` is empty when the client did not set a policy."""

    propagation: str = ""
    grace: int | None = None  # seconds
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False
    orphan_dependents: bool | None = None

    @classmethod
    def of(cls, call: Call) -> DeleteOptions:
        """Read the options from the body, or from the query if there is no body. Raises 400, 415, 422."""
        tree = read_body(call.request) if call.request.body.strip() else _from_query(call)
        if tree.get("kind", "DeleteOptions") != "DeleteOptions":
            version = tree.get("apiVersion", "v1")
            raise status_errors.bad_request(f'no kind "{tree["kind"]}" is registered for version "{version}" {SCHEME}')
        return cls.of_tree(tree | ({"dryRun": [call.option("dryRun")]} if call.dry_run else {}))

    @classmethod
    def of_tree(cls, tree: Json) -> DeleteOptions:
        """Parse the options. Raises 400 for a wrong type, 422 for a wrong value."""
        policy, orphan = tree.get("propagationPolicy"), tree.get("orphanDependents")
        grace, dry_run = tree.get("gracePeriodSeconds"), tree.get("dryRun") or []
        conditions = tree.get("preconditions")
        _require_types(policy, orphan, grace, dry_run, conditions)
        conditions = conditions or {}
        problems: list[FieldError] = []
        if orphan is not None and policy is not None:
            detail = "orphanDependents and deletionPropagation cannot be both set"
            problems.append(invalid("propagationPolicy", policy, detail))
        if policy not in (None, "Foreground", "Background", "Orphan"):
            known = ["Foreground", "Background", "Orphan", "nil"]
            problems.append(not_supported("propagationPolicy", policy, known))
        if dry_run and dry_run != ["All"]:
            problems.append(not_supported("dryRun", dry_run, ["All"]))
        if problems:
            raise status_errors.invalid(DELETE_OPTIONS, "", problems)
        if orphan is not None:
            policy = "Orphan" if orphan else "Background"
        uid, version = conditions.get("uid") or "", conditions.get("resourceVersion") or ""
        return cls(policy or "", grace, str(uid), str(version), bool(dry_run), orphan)


def _require_types(policy: Any, orphan: Any, grace: Any, dry_run: Any, conditions: Any) -> None:
    number = isinstance(grace, int) and not isinstance(grace, bool)
    wanted = (
        ("propagationPolicy", policy, isinstance(policy, str), "v1.DeletionPropagation"),
        ("orphanDependents", orphan, isinstance(orphan, bool), "bool"),
        ("gracePeriodSeconds", grace, number, "int64"),
        ("dryRun", dry_run, isinstance(dry_run, list), "[]string"),
        ("preconditions", conditions, isinstance(conditions, dict), "v1.Preconditions"),
    )
    for name, value, fits, kind in wanted:
        if value is not None and not fits:
            shown = f"number {value}" if isinstance(value, float) else json_type(value)
            raise status_errors.bad_request(
                f"json: cannot unmarshal {shown} into Go struct field DeleteOptions.{name} of type {kind}"
            )


def _from_query(call: Call) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    if policy := call.option("propagationPolicy"):
        tree["propagationPolicy"] = policy
    if "orphanDependents" in call.request.query:
        tree["orphanDependents"] = flag(call.request.query, "orphanDependents")
    if grace := call.option("gracePeriodSeconds"):
        try:
            tree["gracePeriodSeconds"] = int(grace)
        except ValueError:
            raise status_errors.bad_request(
                f'gracePeriodSeconds: Invalid value: "{grace}": must be an integer'
            ) from None
    return tree


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """The result of a DELETE: the object for the response, and whether it was removed."""

    obj: Json
    gone: bool
    status: int = 200

    def body(self, call: Call, options: DeleteOptions) -> bytes:
        """Return the response body: a Status for a removed object; the object if it remains or is a pod."""
        if not self.gone or call.resource == PODS:
            return orjson.dumps(self.obj)
        meta = self.obj["metadata"]
        return orjson.dumps(status_errors.success(call.resource, meta["name"], meta["uid"]))


class Deleter:
    """The verbs delete and deletecollection."""

    def __init__(self, store: Store, admission: Sequence[AdmissionPlugin]) -> None:
        self._store = store
        self._admission = admission

    def delete(self, call: Call, options: DeleteOptions, stored: Stored | None = None) -> DeletionResult:
        """Delete or mark one object. Raises 403, 404, 409, 422."""
        if call.resource == NAMESPACES and call.name in IMMORTAL:
            raise status_errors.forbidden(NAMESPACES, call.name, "this namespace may not be deleted")
        if not options.propagation and call.kind.default_propagation == "Orphan":
            call.warnings.append(KEPT_CHILDREN)
        stored = stored or self._store.get(call.table, call.namespace, call.name)
        if stored is None:
            raise status_errors.not_found(call.resource, call.name)
        obj = call.load(stored)
        _check_preconditions(call.resource, obj, options)
        self._admit(call, obj, options)
        old_finalizers = list(obj["metadata"].get("finalizers") or ())
        finalizers = _finalizers(old_finalizers, options.propagation or _default(call, obj))
        grace = _grace(call.resource, obj, options.grace)
        is_pending = call.resource == PODS and "deletionTimestamp" in obj["metadata"]
        changed = self._mark(call, obj, grace)
        if changed or not is_pending:  # a grace period that runs, and is not shortened, keeps the finalizers as well
            changed = _set_finalizers(obj, finalizers) or changed
        if is_finalized(obj):
            if not options.dry_run:
                # An object that is removed immediately is not marked first, except a pod.
                last = obj if call.resource == PODS else call.load(stored)
                self._store.remove(call.table, call.stored_form(last))
            return DeletionResult(obj, gone=True)
        if changed and not options.dry_run:
            written = self._store.put(call.table, *call.stored(obj))
            obj["metadata"]["resourceVersion"] = str(written.revision)
        return DeletionResult(obj, gone=False, status=202 if options.orphan_dependents is False else 200)

    async def delete_collection(self, call: Call, options: DeleteOptions) -> bytes:
        """Delete all objects that the selectors match and return the list of them. Raises 400, 422.

        Other requests run in between, and may change or delete objects that have not been reached yet.
        """
        selection = Selection(call)
        candidates = list(self._store.scan(call.table, call.namespace))
        found = [stored async for stored in in_turns(candidates) if selection(stored)]
        if not found and not options.propagation and call.kind.default_propagation == "Orphan":
            call.warnings.append(KEPT_CHILDREN)
        for done, stored in enumerate(found):
            if done % TURN_SECONDS == TURN_SECONDS - 1:
                await asyncio.sleep(0)
            current = self._store.get(call.table, stored.namespace, stored.name)
            if current is not None and current.uid == stored.uid:
                self.delete(call, options, current)
        return await call.view.many(found, {"resourceVersion": str(self._store.revision)}, self._store.now())

    def _admit(self, call: Call, obj: Json, options: DeleteOptions) -> None:
        review = AdmissionReview(
            "DELETE", call.resource, "", obj, obj, call.request.user, options.dry_run, call.warnings
        )
        for rule in self._admission:
            problems = rule.validate(review)
            if problems:
                raise status_errors.invalid(call.resource, obj["metadata"]["name"], problems)

    def _mark(self, call: Call, obj: Json, grace: int) -> bool:
        """Set or shorten the deletion time; return whether anything changed."""
        meta = obj["metadata"]
        if "deletionTimestamp" in meta and grace >= meta.get("deletionGracePeriodSeconds", 0):
            return False
        first = "deletionTimestamp" not in meta
        meta["deletionTimestamp"] = timestamp(self._store.now() + grace_period(grace))
        if call.resource != NAMESPACES:
            meta["deletionGracePeriodSeconds"] = grace
        if first and call.kind.generation:
            meta["generation"] = meta.get("generation", 0) + 1
        if call.resource == NAMESPACES:
            obj["status"] = (obj.get("status") or {}) | {"phase": "Terminating"}
        return True


def _default(call: Call, obj: Json) -> str:
    """Return the default propagation: that of the object's finalizers, else that of its kind."""
    finalizers = obj["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else call.kind.default_propagation


def _finalizers(current: list[str], policy: str) -> list[str]:
    kept = [name for name in current if name not in (FOREGROUND, ORPHAN)]
    match policy:
        case "Foreground":
            return [*kept, FOREGROUND]
        case "Orphan":
            return [*kept, ORPHAN]
    return kept


def _set_finalizers(obj: Json, finalizers: list[str]) -> bool:
    meta = obj["metadata"]
    if sorted(meta.get("finalizers") or ()) == sorted(finalizers):
        return False
    meta["finalizers"] = finalizers
    if not finalizers:
        del meta["finalizers"]
    return True


def _grace(resource: Resource, obj: Json, asked: int | None) -> int:
    """Return the grace period in seconds. It is 0 for everything but pods, and for a pod that runs on no node."""
    if resource != PODS:
        return 0
    spec = obj.get("spec") or {}
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in pod_phases.TERMINAL:
        return 0
    if asked is None:
        asked = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    return asked if asked >= 0 else 1


def _check_preconditions(resource: Resource, obj: Json, options: DeleteOptions) -> None:
    meta = obj["metadata"]
    if options.uid and options.uid != meta["uid"]:
        raise status_errors.precondition_failed(
            resource,
            meta["name"],
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated",
        )
    if options.resource_version and options.resource_version != meta["resourceVersion"]:
        raise status_errors.precondition_failed(
            resource,
            meta["name"],
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified",
        )
