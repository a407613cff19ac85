"""Conversion between the versions of a custom kind: each object is served in every version.

With the conversion strategy None, only the apiVersion changes. The strategy Webhook is for the queue's own kinds: the
server converts them itself and calls no webhook. An object is stored in the storage version and pruned by its schema,
and it is returned pruned by the schema of the requested version. An object that was stored before the definition last
changed is pruned and defaulted by the current schema when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import orjson

from job_controller.api_rules.field_errors import FieldError, invalid
from job_controller.json_tree import Json
from queue_manager.api.conversion import FACETS, convert
from queue_manager.api.keys import GROUP

MAX_DEPRECATION = 256  # bytes of a deprecationWarning


def version_order(name: str) -> tuple[Any, ...]:
    """Sort key: GA before beta before alpha, newer before older, other names last and alphabetical."""
    head, _, rest = name.removeprefix("v").partition("beta")
    stage = 1
    if not rest:
        head, _, rest = name.removeprefix("v").partition("alpha")
        stage = 2 if rest else 0
    if not name.startswith("v") or not head.isdigit() or (rest and not rest.isdigit()):
        return (3, name)
    return (stage, -int(head), -int(rest or 0))


def api_version(crd: Json, version: str) -> str:
    """The apiVersion of objects in a version of a definition."""
    return f"{crd['spec']['group']}/{version}"


def to_version(crd: Json, version: str) -> Callable[[Json], Json]:
    """Return the function that converts objects of a definition to a version. It does not change its argument."""
    target = api_version(crd, version)
    if has_webhook(crd):
        return lambda tree: convert(tree, target)
    return lambda tree: {**tree, "apiVersion": target}


def has_webhook(crd: Json) -> bool:
    """Whether a definition has a conversion webhook, whose place this server takes."""
    return (crd["spec"].get("conversion") or {}).get("strategy") == "Webhook"


def is_converted_here(spec: Json) -> bool:
    """Whether this server can take the place of the conversion webhook of a definition."""
    known = {version["name"] for version in spec.get("versions") or ()} <= {"v1beta1", "v1beta2"}
    return spec.get("group") == GROUP and spec["names"].get("kind") in FACETS and known


class VersionSchema(Protocol):
    """The part of a version's schema that conversion uses."""

    def prune(self, body: Json) -> None:
        """Remove unknown fields in place."""

    def complete(self, body: Json) -> None:
        """Set defaults in place."""


class Conversion(NamedTuple):
    """How objects of a version are read from and written to the store; see the fields of `Kind` of the same names."""

    from_stored: Callable[[Json], Json] | None = None
    to_stored: Callable[[Json], Json] | None = None
    since: int = 0  # resourceVersion of the definition; older objects are pruned and completed when read


def conversion(crd: Json, version: Json, schemas: Mapping[str, VersionSchema]) -> Conversion:
    """The conversion for a version of a definition; `schemas` are those of all its versions."""
    spec, name = crd["spec"], version["name"]
    reader, writer, since = None, None, 0
    storage = storage_version(spec)["name"]
    # While a definition is unchanged, all objects are stored in its storage version.
    if name != storage or crd["metadata"].get("generation", 1) > 1:
        since = int(crd["metadata"].get("resourceVersion") or 0)
        reader = _reader(api_version(crd, name), schemas[name], since, to_version(crd, name))
    if storage != name:
        writer = _writer(schemas[storage], to_version(crd, storage))
    return Conversion(reader, writer, since)


def storage_version(spec: Json) -> Json:
    """The version in which objects are stored."""
    return next(version for version in spec["versions"] if version.get("storage"))


def deprecation_warning(crd: Json, version: Json) -> str:
    """The warning for requests to a deprecated version; empty for other versions."""
    if not version.get("deprecated"):
        return ""
    return str(version.get("deprecationWarning") or _deprecation(crd["spec"], version["name"]))


def _reader(
    target: str, schema: VersionSchema, since: int, converted: Callable[[Json], Json]
) -> Callable[[Json], Json]:
    def as_shown(tree: Json) -> Json:
        if tree.get("apiVersion") != target:
            tree = converted(tree)
            schema.prune(tree)
        elif int(tree["metadata"].get("resourceVersion") or 0) < since:
            schema.prune(tree)
            schema.complete(tree)
        return tree

    return as_shown


def _writer(schema: VersionSchema, converted: Callable[[Json], Json]) -> Callable[[Json], Json]:
    def as_stored(tree: Json) -> Json:
        tree = converted(orjson.loads(orjson.dumps(tree)))
        schema.prune(tree)
        schema.complete(tree)
        return tree

    return as_stored


def _deprecation(spec: Json, name: str) -> str:
    """The default deprecation warning: names the newest served version that is not deprecated, if it is newer."""
    kind = spec["names"]["kind"]
    order = version_order(name)
    others = [v["name"] for v in spec["versions"] if v.get("served") and not v.get("deprecated")]
    newer = sorted((other for other in others if version_order(other) < order), key=version_order)
    use = f"; use {spec['group']}/{newer[0]} {kind}" if newer else ""
    return f"{spec['group']}/{name} {kind} is deprecated{use}"


def validate_deprecation(version: Json, path: str) -> list[FieldError]:
    """Errors of deprecationWarning, which is sent as a header."""
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
    """Errors for versions in status.storedVersions that the definition no longer contains."""
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
