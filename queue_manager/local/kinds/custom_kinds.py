"""Builds Kinds from CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson

from job_controller.api_rules import metadata_validation
from job_controller.api_rules.field_errors import FieldError, invalid, show
from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.local.kinds.ages import since
from queue_manager.local.kinds.crd_versions import (
    api_version,
    conversion,
    deprecation_warning,
    has_webhook,
    storage_version,
    to_version,
    version_order,
)
from queue_manager.local.kinds.jsonpath import Path, compile_path, find
from queue_manager.local.kinds.kind import Column, Kind, OtherVersion
from queue_manager.local.kinds.tables import AGE, NAME, age
from queue_manager.local.schema.builtin_types import shape_of
from queue_manager.local.schema.cpu_time_limits import OUT_OF_BUDGET, TimeLimitExceeded, limited
from queue_manager.local.schema.strict_decoding import Undecodable, Walk
from queue_manager.local.schema.structural_schemas import CompiledSchema, duplicate_fields
from queue_manager.local.schema.validation_cache import text_of
from queue_manager.local.status_errors import bad_request

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class CustomSchema:
    """The `Schema` of a custom kind: metadata is typed, the rest follows the structural schema."""

    def __init__(self, schema: Json, kind: str, version: str) -> None:
        self.node = CompiledSchema(schema)
        for name in ("spec", "status"):
            if name in self.node.children:
                self.node.children[name].compile_fit()
        self.definition = schema
        self._has_rules = b"x-kubernetes-validations" in orjson.dumps(schema)
        self._rules: Any = None
        self._kind = kind
        self._version = version

    def check(self, body: Json, old: Json | None = None) -> list[str]:
        """Unknown fields, which are dropped, and duplicate ones. Raises StatusError 400 on malformed metadata."""
        found = [] if text_of(body) is not None else duplicate_fields(body)
        problem, unknown = self._check_metadata(body) if old is None or _brings_metadata(body, old) else ("", [])
        if problem:
            raise bad_request(
                f'{self._kind} in version "{self._version}" cannot be handled as a {self._kind}: {problem}'
            )
        return found + unknown + [f'unknown field "{path}"' for path in self._prune(body, old)]

    def problems(self, found: list[FieldError], new: Json, old: Json | None = None) -> list[FieldError]:
        """All violations of the schema and its rules, after the errors already `found`.

        Unchanged values stay valid when the schema has become stricter (ratcheting, KEP-4008).
        """
        errors = found + _validate(self.node, new, old)
        return errors[len(found) :] + self.broken_rules(errors, new, old)

    def limited_problems(self, found: list[FieldError], *trees: Json) -> list[FieldError]:
        """`problems` for the new object and the old one, if any, in bounded time. Raises NeedsWorkerProcess."""
        try:
            return limited(
                lambda: self.problems(found, *trees),
                "custom-object",
                lambda: [self.definition, [list(error) for error in found], *map(_lasting, trees)],
                lambda errors: [FieldError(*error) for error in errors],
            )
        except TimeLimitExceeded:
            return [invalid("<nil>", "object", OUT_OF_BUDGET)]

    def broken_rules(self, found: list[FieldError], new: Json, old: Json | None = None) -> list[FieldError]:
        """The rules that an object violates; none are evaluated if an error in `found` prevents it."""
        if not self._has_rules:
            return []
        from queue_manager.local.cel import compiled_rules as cel_rules

        if any(error.reason in cel_rules.BLOCKING for error in found):
            return [invalid("<nil>", None, cel_rules.NOT_CHECKED)]
        if self._rules is None:
            self._rules = cel_rules.CompiledRules(self.definition)
        broken: list[FieldError] = self._rules.check(new, **({} if old is None else {"old": old}))
        return broken

    def prune(self, body: Json) -> None:
        """See `Schema.prune`; unknown fields of metadata are removed as well."""
        self._check_metadata(body)
        self._prune(body)

    def complete(self, body: Json) -> None:
        """Set defaults in place."""
        self.node.fill(body)

    def _prune(self, body: Json, old: Json | None = None) -> list[str]:
        found: list[str] = []
        head = {name: body.pop(name) for name in ("apiVersion", "kind", "metadata") if name in body}
        self.node.prune(body, "", found, old)
        tail = dict(body)
        body.clear()
        body.update(head)
        body.update(tail)
        return found

    def _check_metadata(self, body: Json) -> tuple[str, list[str]]:
        meta = body.get("metadata")
        if meta is None:
            return "", []
        if not isinstance(meta, dict):
            found = {str: "string", list: "array", bool: "bool"}.get(type(meta), "number")
            return f"json: cannot unmarshal {found} into Go value of type v1.ObjectMeta", []
        walk = Walk()
        try:
            walk.object(shape_of(OBJECT_META), meta, None)
        except Undecodable as error:
            return str(error), []
        unknown = [text.replace('unknown field "', 'unknown field "metadata.', 1) for text in walk.unknown]
        return walk.wrong, [text for text in unknown if text.startswith("unknown")]


def _brings_metadata(new: Json, old: Json) -> bool:
    """Whether the metadata of `new` contains a field or value that is not in that of `old`."""
    meta, before = new.get("metadata"), old["metadata"]
    return not isinstance(meta, dict) or any(name not in before or meta[name] != before[name] for name in meta)


def custom_kinds(crd: Json) -> list[Kind]:
    """The Kinds of the served versions, the preferred one first."""
    served = [version for version in crd["spec"]["versions"] if version.get("served")]
    schemas = {version["name"]: _schema(crd, version) for version in crd["spec"]["versions"]}
    return [_kind(crd, version, schemas) for version in sorted(served, key=lambda v: version_order(v["name"]))]


def _schema(crd: Json, version: Json) -> CustomSchema:
    definition = (version.get("schema") or {}).get("openAPIV3Schema") or {"x-kubernetes-preserve-unknown-fields": True}
    return CustomSchema(definition, crd["spec"]["names"]["kind"], version["name"])


def _kind(crd: Json, version: Json, schemas: Mapping[str, CustomSchema]) -> Kind:
    spec = crd["spec"]
    names = spec["names"]
    namespaced = spec.get("scope") == "Namespaced"
    resource = Resource(spec["group"], version["name"], names["plural"], names["kind"], namespaced)
    schema = schemas[version["name"]]
    columns, row = _columns(version.get("additionalPrinterColumns"))
    subresources = version.get("subresources") or {}
    versions = conversion(crd, version, schemas)
    storage = storage_version(spec)
    is_stored = storage is version or not storage.get("served")
    return Kind(
        resource=resource,
        schema=schema,
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        has_status="status" in subresources,
        prepare_create=schema.node.fill,
        prepare_update=schema.node.fill,
        prepare_status=schema.node.fill,
        validate_create=_validate_create(schema, namespaced),
        validate_update=_validate_update(schema),
        validate_status=_validate_update(schema),
        warnings=_warnings,
        fields=_fields(version.get("selectableFields") or ()),
        columns=columns,
        row=row,
        is_custom=True,
        deprecation=deprecation_warning(crd, version),
        to_stored=versions.to_stored,
        from_stored=versions.from_stored,
        converted_since=versions.since,
        stored_as=None if is_stored else replace(resource, version=storage["name"]),
        stored_fields=None if is_stored else _fields(storage.get("selectableFields") or ()),
        versions=_other_versions(crd, version["name"], schemas),
    )


def _other_versions(crd: Json, name: str, schemas: Mapping[str, CustomSchema]) -> dict[str, OtherVersion]:
    """The versions whose fields differ: those of a definition with conversion webhook."""
    if not has_webhook(crd):
        return {}
    return {
        api_version(crd, other): OtherVersion(schema, to_version(crd, other), to_version(crd, name))
        for other, schema in schemas.items()
        if other != name
    }


def _validate_create(schema: CustomSchema, namespaced: bool) -> Callable[[Json], list[FieldError]]:
    def validate(new: Json) -> list[FieldError]:
        errors = metadata_validation.validate_metadata(new["metadata"], namespaced=namespaced, custom=True)
        return errors + schema.limited_problems(errors, new)

    return validate


def _warnings(new: Json, old: Json | None) -> list[str]:
    before = (old["metadata"].get("finalizers") or ()) if old else ()
    return [
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid accidental conflicts with '
        "other finalizer writers"
        for name in new["metadata"].get("finalizers") or ()
        if name not in before and not metadata_validation.is_qualified(name)
    ]


def _validate_update(schema: CustomSchema) -> Callable[[Json, Json], list[FieldError]]:
    def validate(new: Json, old: Json) -> list[FieldError]:
        errors = metadata_validation.validate_metadata_update(new["metadata"], old["metadata"])
        return errors + schema.limited_problems(errors, new, old)

    return validate


# Metadata that differs at each attempt of the same request. Rules cannot read it.
_FLEETING = frozenset(("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation"))


def _lasting(tree: Json) -> Json:
    """The object without the metadata that differs at each attempt of the same request."""
    meta = {name: value for name, value in tree["metadata"].items() if name not in _FLEETING}
    return {**tree, "metadata": meta}


def _validate(node: CompiledSchema, new: Json, old: Json | None = None) -> list[FieldError]:
    body = _body(new)
    if old is not None:
        before = _body(old)
        return [*node.validate(body, "", before), *node.repeated(body, "", before)]
    return [*node.validate(body), *node.repeated(body)]


def _body(tree: Json) -> Json:
    """The object without metadata, which has validation of its own."""
    return {name: value for name, value in tree.items() if name not in ("metadata", "apiVersion", "kind")}


def _fields(selectable: Any) -> Callable[[Json], dict[str, str]]:
    paths = [(field["jsonPath"].removeprefix("."), path) for field, path in _readable(selectable)]

    def fields(tree: Json) -> dict[str, str]:
        return {name: _text(next(iter(find(path, tree)), "")) for name, path in paths}

    return fields


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""


def _columns(declared: Any) -> tuple[tuple[Column, ...], Callable[[Json, datetime], list[Any]]]:
    """The name, then the declared columns; the age if none is declared."""
    if not declared:
        return (NAME, replace(AGE, type="date")), lambda tree, now: [tree["metadata"].get("name", ""), age(tree, now)]
    readable = _readable(declared)
    columns = tuple(
        Column(c["name"], c["type"], c.get("description", ""), c.get("format", ""), c.get("priority", 0))
        for c, _ in readable
    )
    paths = [(path, column["type"]) for column, path in readable]

    def row(tree: Json, now: datetime) -> list[Any]:
        return [tree["metadata"].get("name", ""), *(_cell(find(path, tree), shape, now) for path, shape in paths)]

    return (NAME, *columns), row


def _readable(declared: Any) -> list[tuple[Json, Path]]:
    """The declared columns with their paths, up to the first malformed path, as on a real server.

    Validation of a definition checks only the beginning of a path. An error here would keep a cluster with such a
    stored definition from starting.
    """
    found = []
    for one in declared:
        try:
            found.append((one, compile_path(one["jsonPath"])))
        except ValueError:
            break
    return found


def _cell(found: list[Json], shape: str, now: datetime) -> Any:
    """The first value in the column's type; None if it is absent or its type does not match."""
    if not found:
        return None
    value = found[0]
    match shape:
        case "integer":
            return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "number":
            return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            age_text = since(value, now) if isinstance(value, str) else "<unknown>"
            return "<invalid>" if age_text == "<unknown>" and value else age_text
    return value if isinstance(value, str) else _printed(value)


def _printed(value: Json) -> str:
    if isinstance(value, dict | list):
        return show(value)
    return _text(value)
