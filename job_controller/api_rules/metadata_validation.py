"""Validation of the metadata of any kind: names, labels, annotations, finalizers, owners.

Source: upstream ValidateObjectMeta and ValidateObjectMetaUpdate. An API server validates metadata once on create, and
labels several times on update; the errors are repeated accordingly (BEHAVIOUR.md#b9-errors).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import IMMUTABLE, FieldError, forbidden, invalid, required
from job_controller.api_rules.label_selectors import validate_label_map
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json

NameCheck = Callable[[str], list[str]]

ANNOTATIONS_LIMIT = 256 * 1024  # bytes of all keys and values together
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def validate_metadata(
    meta: Json,
    path: str = "metadata",
    *,
    namespaced: bool = True,
    name_check: NameCheck = names.dns_subdomain,
    custom: bool = False,
) -> list[FieldError]:
    """The errors of metadata on its own. `custom`: the kind is defined by a CustomResourceDefinition, whose finalizers
    may be unqualified.
    """
    errors = _validate_name(meta, path, name_check) + _validate_namespace(meta, path, namespaced)
    generation = meta.get("generation") or 0
    if generation < 0:
        errors.append(invalid(f"{path}.generation", generation, NOT_NEGATIVE))
    errors += validate_label_map(meta.get("labels"), f"{path}.labels")
    errors += validate_annotations(meta.get("annotations"), f"{path}.annotations")
    errors += _validate_owners(meta.get("ownerReferences") or (), f"{path}.ownerReferences")
    errors += validate_finalizers(meta.get("finalizers") or (), f"{path}.finalizers", custom)
    return errors


def validate_metadata_update(new: Json, old: Json, path: str = "metadata") -> list[FieldError]:
    """The errors of an update of metadata: changes of immutable fields, and what is wrong with the new labels,
    annotations and owners.
    """
    errors: list[FieldError] = []
    for field in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if (new.get(field) or None) != (old.get(field) or None):
            errors.append(invalid(f"{path}.{field}", new.get(field), IMMUTABLE))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        errors.append(invalid(f"{path}.generation", new.get("generation") or 0, "must not be decremented"))
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            detail = (
                f"no new finalizers can be added if the object is being deleted, found new finalizers {_printed(added)}"
            )
            errors.append(forbidden(f"{path}.finalizers", detail))
    errors += validate_label_map(new.get("labels"), f"{path}.labels")
    errors += validate_annotations(new.get("annotations"), f"{path}.annotations")
    errors += _validate_owners(new.get("ownerReferences") or (), f"{path}.ownerReferences")
    return errors


def _printed(texts: list[str]) -> str:
    """A list as Go's %#v prints it."""
    return "[]string{" + ", ".join(f'"{text}"' for text in texts) + "}"


def _validate_name(meta: Json, path: str, check: NameCheck) -> list[FieldError]:
    name, prefix = meta.get("name") or "", meta.get("generateName") or ""
    errors = []
    if prefix:
        # A trailing hyphen is valid: the generated suffix follows it.
        tested = prefix[:-1] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix
        errors = [invalid(f"{path}.generateName", prefix, text) for text in check(tested)]
    if not name:
        return [*errors, required(f"{path}.name", "name or generateName is required")]
    return errors + [invalid(f"{path}.name", name, text) for text in check(name)]


def _validate_namespace(meta: Json, path: str, namespaced: bool) -> list[FieldError]:
    namespace = meta.get("namespace") or ""
    if not namespaced:
        return [forbidden(f"{path}.namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(f"{path}.namespace")]
    return [invalid(f"{path}.namespace", namespace, text) for text in names.dns_label(namespace)]


def validate_annotations(annotations: Mapping[str, str] | None, path: str) -> list[FieldError]:
    """The errors of annotations: keys are qualified names in any case; at most 256 KiB in total."""
    errors: list[FieldError] = []
    size = 0
    for key, value in (annotations or {}).items():
        errors += [invalid(path, key, text) for text in names.qualified_name(key.lower())]
        size += len(key.encode("utf-8", "surrogatepass")) + len(value.encode("utf-8", "surrogatepass"))
    if size > ANNOTATIONS_LIMIT:
        text = f"Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"
        errors.append(FieldError("FieldValueTooLong", path, text))
    return errors


def _validate_owners(owners: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    managers: list[str] = []
    for owner in owners:
        version = owner.get("apiVersion") or ""
        group, slash, bare = version.partition("/")
        if not (bare if slash else group):
            errors.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                errors.append(invalid(f"{path}.{field}", owner.get(field) or "", "must not be empty"))
        if (version, owner.get("kind")) == ("v1", "Event"):
            errors.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            managers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
    if len(managers) > 1:
        detail = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {managers[0]} and {managers[1]}'
        )
        errors.append(invalid(path, owners, detail))
    return errors


def is_qualified(finalizer: str) -> bool:
    """Whether a finalizer has a domain or is one of the standard ones. Custom kinds accept others too."""
    return "/" in finalizer or finalizer in _STANDARD_FINALIZERS


def validate_finalizers(finalizers: Json, path: str, custom: bool = False) -> list[FieldError]:
    """The errors of the names of finalizers; `custom` as in validate_metadata."""
    errors: list[FieldError] = []
    for i, finalizer in enumerate(finalizers):
        errors += [invalid(f"{path}[{i}]", finalizer, text) for text in names.qualified_name(finalizer)]
        if not custom and not is_qualified(finalizer):
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(f"{path}[{i}]", finalizer, detail))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(path, finalizers, detail))
    return errors
