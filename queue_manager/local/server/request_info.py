"""One parsed request to one resource: the argument of all verbs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from job_controller.api_rules.field_errors import FieldError, invalid, not_supported, too_long
from job_controller.go_text import quote
from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.local import status_errors
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.server.http_messages import ServerRequest
from queue_manager.local.server.response_encoding import ResponseView, shown
from queue_manager.local.storage.store import Stored, decode

MAX_MANAGER = 128  # bytes of the name of a field manager
FIELD_VALIDATION = ("Strict", "Warn", "Ignore")


class CallTarget(NamedTuple):
    """The object or collection that a URL path of the resource API addresses."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str


@lru_cache(maxsize=4096)
def parse_path(path: str) -> CallTarget | None:
    """Parse `/api/v1/...` and `/apis/<group>/<version>/...`; None for any other path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    # /namespaces/x and its subresources address the namespace; /namespaces/x/pods addresses the pods in it.
    if rest[0] == "namespaces" and len(rest) >= 3 and not (group == "" and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        return None
    return CallTarget(group, version, namespace, *rest, *("",) * (3 - len(rest)))


def check_name(name: str) -> None:
    """Raise StatusError for the name of an object that no URL path can hold."""
    if name in (".", ".."):
        raise status_errors.bad_request(f"Name parameter invalid: {quote(name)}: may not be '{name}'")
    if "%" in name:
        raise status_errors.bad_request(f"Name parameter invalid: {quote(name)}: may not contain '%'")


@dataclass(slots=True)
class Call:
    """A request on its way through the server. `warnings` are sent in the response's headers."""

    request: ServerRequest
    kind: Kind
    namespace: str
    name: str
    subresource: str
    view: ResponseView
    warnings: list[str] = field(default_factory=list)
    created: bool = False  # an apply or a PUT found no object and created one
    generated: str = ""  # the name made from generateName

    @property
    def resource(self) -> Resource:
        """The resource of the kind, in the API version of the URL."""
        return self.kind.resource

    @property
    def table(self) -> str:
        """Return the name of the resource in the store."""
        return self.kind.table

    def load(self, stored: Stored) -> Json:
        """Decode a stored object into a new tree, in the form of this kind."""
        return shown(self.kind, decode(stored))

    def stored(self, obj: Json) -> tuple[Json, dict[str, str]]:
        """Return the object in its stored form, and its fields by which the stored kind is selected."""
        form, stored_fields = self.stored_form(obj), self.kind.stored_fields
        return form, dict(stored_fields(form) if stored_fields else self.kind.fields(obj))

    def stored_form(self, obj: Json) -> Json:
        """Return the object in its stored form. It differs for other versions and names of a kind."""
        translate = self.kind.to_stored
        return translate(obj) if translate else obj

    def option(self, name: str) -> str:
        """Return a query parameter; "" if the request does not have it."""
        return self.request.query.get(name, "")

    @property
    def dry_run(self) -> bool:
        """Whether the client requested a dry run, whose result is returned but not stored."""
        return bool(self.option("dryRun"))


def check_write_options(call: Call, options: str, problems: Sequence[FieldError] = ()) -> None:
    """Check the options that all write requests have. Raises 422 naming `options`, for example CreateOptions.

    `problems` are errors of other options, which are reported first.
    """
    problems = [*problems, *_manager_problems(call.option("fieldManager"))]
    dry_run = call.option("dryRun")
    if dry_run and dry_run != "All":
        problems.append(not_supported("dryRun", [dry_run], ["All"]))
    validation = call.option("fieldValidation")
    if validation and validation not in FIELD_VALIDATION:
        problems.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if problems:
        raise status_errors.invalid(Resource("meta.k8s.io", "v1", "", options), "", problems)


def _manager_problems(manager: str) -> list[FieldError]:
    problems = [too_long("fieldManager", MAX_MANAGER)] if len(manager.encode()) > MAX_MANAGER else []
    for index, char in enumerate(manager):
        if not char.isprintable():
            place = len(manager[:index].encode())
            problems.append(
                invalid("fieldManager", manager, f"invalid character U+{ord(char):04X} (at position {place})")
            )
    return problems


def name_of(obj: Json) -> str:
    """metadata.name of an object, or ""."""
    return str(obj["metadata"].get("name", ""))
