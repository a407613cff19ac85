"""Several versions of one custom kind: each object is served in every version, whichever it was written in.

Conversion is of the strategy None: only the apiVersion changes. An object is stored in the storage version, without
what the schema of that does not know, and shown without what the schema of the version asked for does not know. One
older than the definition is shown as that has it by now: pruned, and with the defaults that came since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import orjson

from job_controller.api_rules.field_errors import FieldError, invalid
from job_controller.json_tree import Json

MAX_DEPRECATION = 256  # bytes of a deprecationWarning


def version_order(name: str) -> tuple[Any, ...]:
    """Releases before betas before alphas, newer before older, others last by name."""
    head, _, rest = name.removeprefix("v").partition("beta")
    stage = 1
    if not rest:
        head, _, rest = name.removeprefix("v").partition("alpha")
        stage = 2 if rest else 0
    if not name.startswith("v") or not head.isdigit() or (rest and not rest.isdigit()):
        return (3, name)
    return (stage, -int(head), -int(rest or 0))


class VersionSchema(Protocol):
    """What conversion asks of the schema of a version."""

    def prune(self, body: Json) -> None:
        """Remove unknown fields in place."""

    def complete(self, body: Json) -> None:
        """Defaults in place."""


class Conversion(NamedTuple):
    """How objects of a version are read from and written to the store; see the fields of `Kind` of these names."""

    from_stored: Callable[[Json], Json] | None = None
    to_stored: Callable[[Json], Json] | None = None
    since: int = 0  # resourceVersion of the definition; older objects are pruned and completed when read


def conversion(crd: Json, version: Json, schemas: Mapping[str, VersionSchema]) -> Conversion:
    """The conversion for a version of a definition; `schemas` are those of all its versions."""
    spec, name = crd["spec"], version["name"]
    reader, writer, since = None, None, 0
    # A definition with one version that was never changed has objects of that version only.
    if len(schemas) > 1 or crd["metadata"].get("generation", 1) > 1:
        since = int(crd["metadata"].get("resourceVersion") or 0)
        reader = _reader(f"{spec['group']}/{name}", schemas[name], since)
    storage = next((v["name"] for v in spec["versions"] if v.get("storage")), name)
    if storage != name:
        writer = _writer(f"{spec['group']}/{storage}", schemas[storage])
    return Conversion(reader, writer, since)


def deprecation_warning(crd: Json, version: Json) -> str:
    """The warning for requests to a deprecated version; empty for other versions."""
    if not version.get("deprecated"):
        return ""
    return str(version.get("deprecationWarning") or _deprecation(crd["spec"], version["name"]))


def _reader(api_version: str, schema: VersionSchema, since: int) -> Callable[[Json], Json]:
    def as_shown(tree: Json) -> Json:
        if tree.get("apiVersion") != api_version:
            tree["apiVersion"] = api_version
            schema.prune(tree)
        elif int(tree["metadata"].get("resourceVersion") or 0) < since:
            schema.prune(tree)
            schema.complete(tree)
        return tree

    return as_shown


def _writer(api_version: str, schema: VersionSchema) -> Callable[[Json], Json]:
    def as_stored(tree: Json) -> Json:
        tree = orjson.loads(orjson.dumps(tree)) | {"apiVersion": api_version}
        schema.prune(tree)
        schema.complete(tree)
        return tree

    return as_stored


def _deprecation(spec: Json, name: str) -> str:
    """The warning of a version that brings none of its own: what to use instead, if that is newer."""
    kind = spec["names"]["kind"]
    order = version_order(name)
    others = [v["name"] for v in spec["versions"] if v.get("served") and not v.get("deprecated")]
    newer = sorted((other for other in others if version_order(other) < order), key=version_order)
    use = f"; use {spec['group']}/{newer[0]} {kind}" if newer else ""
    return f"{spec['group']}/{name} {kind} is deprecated{use}"


def validate_deprecation(version: Json, path: str) -> list[FieldError]:
    """The warning that a version brings goes into a header."""
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    problems = [] if version.get("deprecated") else ["can only be set for deprecated versions"]
    if len(warning.encode()) > MAX_DEPRECATION:
        problems.append(f"must be <= {MAX_DEPRECATION} characters long")
    if not warning:
        problems.append("must not be an empty string")
    odd = next((index for index, character in enumerate(warning) if not character.isprintable()), None)
    if odd is not None:
        at = len(warning[:odd].encode())
        text = "must only contain printable UTF-8 characters; non-printable character found at index"
        problems.append(f"{text} {at}")
    return [invalid(f"{path}.deprecationWarning", warning, text) for text in problems]


def validate_stored(crd: Json) -> list[FieldError]:
    """A version in which objects may be stored stays in the definition."""
    stored = (crd.get("status") or {}).get("storedVersions") or []
    path = "status.storedVersions"
    if not stored:
        return [invalid(path, None, "must have at least one stored version")]
    versions = {version.get("name") for version in crd["spec"].get("versions") or []}
    return [
        invalid(
            f"{path}[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
            f"until a storage migration ensures no data remains persisted in {name} and removes {name} from {path}",
        )
        for index, name in enumerate(stored)
        if name not in versions
    ]
