"""Structural schemas of custom kinds: pruning, defaulting, validation.

The error texts and their order are those of an API server (apiextensions over kube-openapi). A value of a wrong type is
still tested against the rules that do not depend on the type.

Every walk takes the old value, if any, and skips the parts that equal it: they were pruned, defaulted and validated
when they were written. So the cost of a write depends on what it changes, not on the size of the object. Nodes with
`compile_fit` called first test whether a walk has anything to do (structural_fast_path.py).
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from job_controller.api_rules.field_errors import FieldError, invalid, not_supported, required, show, too_long, too_many
from job_controller.json_tree import Json
from queue_manager.local.schema.json_parsing import Repeated
from queue_manager.local.schema.patterns import compiled
from queue_manager.local.schema.string_formats import has_format
from queue_manager.local.schema.structural_fast_path import Fit

_MISSING: Any = object()
_COMBINATIONS = ("allOf", "anyOf", "oneOf", "not")


class CompiledSchema:
    """One compiled schema. Unknown fields below a node with `preserve` are kept."""

    __slots__ = (
        "additional",
        "children",
        "combined",
        "default",
        "defaulting",
        "embedded",
        "fit",
        "item",
        "keys",
        "list_type",
        "nullable",
        "pattern",
        "preserve",
        "required",
        "schema",
        "types",
    )

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        kind = schema.get("type")
        self.types: tuple[str, ...] = (kind,) if kind else ()
        if schema.get("x-kubernetes-int-or-string"):
            self.types = ("integer", "string")
        self.children = {
            name: CompiledSchema(child) for name, child in sorted((schema.get("properties") or {}).items())
        }
        more = schema.get("additionalProperties")
        self.additional = CompiledSchema(more if isinstance(more, dict) else {}) if more else None
        self.item = CompiledSchema(schema["items"]) if isinstance(schema.get("items"), dict) else None
        self.preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or more is True
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.nullable = bool(schema.get("nullable"))
        self.default = schema.get("default", _MISSING)
        self.required: tuple[str, ...] = tuple(schema.get("required") or ())
        self.list_type = schema.get("x-kubernetes-list-type", "")
        self.keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.pattern = compiled(schema["pattern"]) if schema.get("pattern") else None
        self.combined = {key: _nodes(schema[key]) for key in _COMBINATIONS if schema.get(key)}
        below = [*self.children.values(), *filter(None, (self.additional, self.item))]
        self.defaulting: bool = any(node.default is not _MISSING or node.defaulting for node in below)
        self.fit: Fit | None = None

    def compile_fit(self) -> None:
        """Enable the fast-path test of whole values of this node before each walk."""
        self.fit = Fit(self.schema)

    # --- pruning ---------------------------------------------------------------------------------------------

    def prune(self, value: Json, path: str, found: list[str], old: Json = _MISSING) -> None:
        """Drop unknown fields in place and append their paths to `found`."""
        if value == old or (self.fit is not None and self.fit(value)):
            return
        if isinstance(value, list):
            if self.item is not None:
                for index, item in enumerate(value):
                    self.item.prune(item, f"{path}[{index}]", found, _at(old, index))
            return
        if not isinstance(value, dict):
            return
        for name in sorted(value):
            below = f"{path}.{name}" if path else name
            child = self.children.get(name) or self.additional
            if child is not None:
                child.prune(value[name], below, found, _of(old, name))
            elif not (self.preserve or (self.embedded and name in ("apiVersion", "kind", "metadata"))):
                found.append(below)
                del value[name]

    # --- defaults --------------------------------------------------------------------------------------------

    def fill(self, value: Json, old: Json = _MISSING) -> None:
        """Set defaults for absent fields and remove nulls from fields that are not nullable."""
        if value == old or (self.fit is not None and self.fit(value)):
            return
        if isinstance(value, dict):
            for name, child in self.children.items():
                found = value.get(name, _MISSING)
                if found is _MISSING or (found is None and not child.nullable):
                    if child.default is not _MISSING:
                        value[name] = copy.deepcopy(child.default)
                    elif found is None:
                        del value[name]
                        continue
                    else:
                        continue
                child.fill(value[name], _of(old, name))
            if self.additional is not None:
                for name in [name for name in value if name not in self.children]:
                    if value[name] is None and not self.additional.nullable:
                        if self.additional.default is _MISSING:
                            del value[name]
                            continue
                        value[name] = copy.deepcopy(self.additional.default)
                    self.additional.fill(value[name], _of(old, name))
        elif isinstance(value, list) and self.item is not None:
            for index, item in enumerate(value):
                self.item.fill(item, _at(old, index))

    # --- validation ------------------------------------------------------------------------------------------

    def validate(self, value: Json, path: str = "", old: Json = _MISSING) -> Iterator[FieldError]:
        """Yield all errors of a value. Parts that equal `old` are valid: they were accepted when they were written."""
        if (value is None and self.nullable) or value == old or (self.fit is not None and self.fit(value)):
            return
        kind = type_of(value)
        yield from self._check_type(value, kind, path)
        yield from self._check_combined(value, path)
        if kind == "string":
            yield from self._check_string(value, path)
        elif kind in ("integer", "number"):
            yield from self._check_number(value, path)
        if kind == "array" and isinstance(value, list):
            yield from self._check_list(value, path, old)
        allowed = self.schema.get("enum")
        if allowed and value not in allowed:
            yield _unsupported(path, value, allowed)
        if isinstance(value, dict):
            yield from self._check_object(value, path, old)

    def _check_type(self, value: Json, kind: str, path: str) -> Iterator[FieldError]:
        if not self.types:
            return
        form = str(self.schema.get("format") or "")
        whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53 and "integer" in self.types
        fits = kind in self.types or whole or (kind == "integer" and "number" in self.types)
        if fits or (form and kind in ("string", "array") and not {"integer", "number"} & set(self.types)):
            return
        if form and kind not in ("string", "array"):
            yield _wrong_type(path, form, {"integer": "int64", "number": "float64"}.get(kind, ""))
        else:
            yield _wrong_type(path, ",".join(self.types), kind)

    def _check_combined(self, value: Json, path: str) -> Iterator[FieldError]:
        shown = f'"{path}"'
        for how, nodes in self.combined.items():
            failures = [list(node.validate(value, path)) for node in nodes]
            passed = sum(not errors for errors in failures)
            if how == "anyOf" and not passed:
                yield invalid("<nil>", "", f"{shown} must validate at least one schema (anyOf)")
                yield from min(failures, key=len)
            elif how == "oneOf" and passed != 1:
                count = "none" if not passed else str(passed)
                detail = f"{shown} must validate one and only one schema (oneOf). Found {count} valid"
                yield invalid("<nil>", "", f"{detail} alternatives" if passed else detail)
                if not passed:
                    yield from min(failures, key=len)
            elif how == "allOf" and passed != len(nodes):
                for errors in failures:
                    yield from errors
                more = "" if passed else ". None validated"
                yield invalid("<nil>", "", f"{shown} must validate all the schemas (allOf){more}")
            elif how == "not" and passed:
                yield invalid("<nil>", "", f"{shown} must not validate the schema (not)")

    def _check_string(self, value: str, path: str) -> Iterator[FieldError]:
        schema = self.schema
        longest, shortest = schema.get("maxLength"), schema.get("minLength")
        if longest is not None and len(value) > longest:
            yield too_long(path, longest)
        else:
            if shortest is not None and len(value) < shortest:
                yield _in_body(path, value, f"should be at least {shortest} chars long")
            if self.pattern is not None and not self.pattern.search(value):
                yield _in_body(path, value, f"should match '{schema['pattern']}'")
        form = schema.get("format") or ""
        if form and "string" in self.types and not has_format(value, form):
            yield FieldError(
                "FieldValueTypeInvalid",
                path,
                f"Invalid value: {show(value)}: {path} in body must be of type {form}: {show(value)}",
            )

    def _check_number(self, value: float, path: str) -> Iterator[FieldError]:
        schema = self.schema
        form = schema.get("format") or ""
        limit = {"int32": 2**31, "int64": 2**63}.get(form)
        if limit and "integer" in self.types and not (-limit <= value < limit and value == int(value)):
            yield invalid("<nil>", "", f"Checked value must be of type integer with format {form} in {path}")
        factor = schema.get("multipleOf")
        if factor and isinstance(value, int):
            factor = int(factor)  # the server converts the factor to the type of the value
        if factor == 0:
            yield invalid(path, 0, f"factor MultipleOf declared for {path} must be positive: 0")
        elif factor and not _is_multiple(value, factor):
            yield _in_body(path, value, f"should be a multiple of {_shown(factor)}")
        least, most = schema.get("minimum"), schema.get("maximum")
        if most is not None:
            if schema.get("exclusiveMaximum") and value >= most:
                yield _in_body(path, value, f"should be less than {_shown(most)}")
            elif value > most:
                yield _in_body(path, value, f"should be less than or equal to {_shown(most)}")
        if least is not None:
            if schema.get("exclusiveMinimum") and value <= least:
                yield _in_body(path, value, f"should be greater than {_shown(least)}")
            elif value < least:
                yield _in_body(path, value, f"should be greater than or equal to {_shown(least)}")

    def _check_list(self, value: list[Json], path: str, old: Json) -> Iterator[FieldError]:
        yield from self._check_items(value, path, old)
        most, least = self.schema.get("maxItems"), self.schema.get("minItems")
        if most is not None and len(value) > most:
            yield too_many(path, len(value), most)
        if least is not None and len(value) < least:
            yield _in_body(path, len(value), f"should have at least {least} items")

    def _check_items(self, value: list[Json], path: str, old: Json) -> Iterator[FieldError]:
        if self.item is None:
            return
        before = _by_key(old, self.keys) if self.list_type == "map" and isinstance(old, list) else None
        for index, item in enumerate(value):
            was = _MISSING
            if before is not None and isinstance(item, dict):
                if item == _at(old, index):
                    continue
                was = before.get(_key(item, self.keys), _MISSING)
            yield from self.item.validate(item, f"{path}[{index}]", was)

    def _check_object(self, value: dict[str, Json], path: str, old: Json) -> Iterator[FieldError]:
        most, least = self.schema.get("maxProperties"), self.schema.get("minProperties")
        if most is not None and len(value) > most:
            yield too_many(path, len(value), most)
        if least is not None and len(value) < least:
            yield _in_body(path, len(value), f"should have at least {least} properties")
        dot = f"{path}." if path else ""
        for name in self.required:
            if name not in value:
                yield required(f"{dot}{name}")
        was = old if isinstance(old, dict) else {}
        for name, item in value.items():
            child = self.children.get(name) or self.additional
            if child is not None:
                yield from child.validate(item, f"{dot}{name}", was.get(name, _MISSING))

    # --- lists that are maps or sets -------------------------------------------------------------------------

    def repeated(self, value: Json, path: str = "", old: Json = _MISSING) -> Iterator[FieldError]:
        """Yield an error for each duplicate item in a set or map list."""
        if value == old or (self.fit is not None and self.fit(value)):
            return
        if isinstance(value, dict):
            for name, item in value.items():
                child = self.children.get(name) or self.additional
                if child is not None:
                    yield from child.repeated(item, f"{path}.{name}" if path else name, _of(old, name))
        elif isinstance(value, list):
            if self.list_type in ("map", "set"):
                yield from self._duplicates(value, path)
            if self.item is not None:
                for index, item in enumerate(value):
                    yield from self.item.repeated(item, f"{path}[{index}]", _at(old, index))

    def _duplicates(self, value: list[Json], path: str) -> Iterator[FieldError]:
        seen: set[Hashable] = set()
        for index, item in enumerate(value):
            keyed = self.list_type == "map" and isinstance(item, dict)
            what = _key(item, self.keys) if keyed else _hashable(item)
            if what in seen:
                shown = {key: item[key] for key in sorted(self.keys) if key in item} if keyed else item
                yield FieldError("FieldValueDuplicate", f"{path}[{index}]", f"Duplicate value: {show(shown)}")
            seen.add(what)


def _is_multiple(value: float, factor: float) -> bool:
    """Compute as the server does: exactly for integers, otherwise with floats (0.3 is a multiple of 0.1)."""
    if isinstance(value, int):
        return value % factor == 0
    times = 1 / factor * value if factor < 1 else value / factor
    return abs(times) < 2**53 and float(times).is_integer()


def _of(old: Json, name: str) -> Json:
    """Return the old value of a field, if it had one."""
    return old.get(name, _MISSING) if isinstance(old, dict) else _MISSING


def _at(old: Json, index: int) -> Json:
    """Return the old value of an item, if it had one."""
    return old[index] if isinstance(old, list) and index < len(old) else _MISSING


def _nodes(schemas: Json) -> list[CompiledSchema]:
    return [CompiledSchema(schema) for schema in (schemas if isinstance(schemas, list) else [schemas])]


def _hashable(value: Json) -> Hashable:
    """Return a key that is equal for equal values. Strings, the usual case, need no encoding."""
    return value if isinstance(value, str) else (show(value),)


def _key(item: Json, keys: Iterable[str]) -> Hashable:
    return tuple([_hashable(item.get(key)) for key in keys])


def _by_key(items: list[Json], keys: Iterable[str]) -> dict[Hashable, Json]:
    return {_key(item, keys): item for item in items if isinstance(item, dict)}


def type_of(value: Json) -> str:
    """Return the JSON type of a value, with integers as a type of their own."""
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return names.get(type(value), "object")


def _wrong_type(path: str, wanted: str, found: str) -> FieldError:
    detail = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return FieldError("FieldValueTypeInvalid", path, detail)


def _in_body(path: str, value: Json, detail: str) -> FieldError:
    return invalid(path, value, f"{path} in body {detail}")


def _unsupported(path: str, value: Json, allowed: list[Json]) -> FieldError:
    if all(isinstance(item, str) for item in allowed):
        return not_supported(path, value, allowed)
    listed = ", ".join(f'"{_shown(item)}"' for item in allowed)
    return FieldError("FieldValueNotSupported", path, f"Unsupported value: {show(value)}: supported values: {listed}")


def _shown(number: Json) -> str:
    whole = isinstance(number, float) and number.is_integer()
    return str(int(number) if whole else number)


def duplicate_fields(value: Json, path: str = "") -> list[str]:
    """Return a message for each field that a sent object repeats (see json_parsing.Repeated)."""
    found: list[str] = []
    if isinstance(value, list):
        for index, item in enumerate(value):
            found += duplicate_fields(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        seen: set[str] = set()
        for name in value.names if isinstance(value, Repeated) else value:
            below = f"{path}.{name}" if path else name
            if name in seen:
                found.append(f'duplicate field "{below}"')
            else:
                found += duplicate_fields(value[name], below)
            seen.add(name)
    return found
