"""The list verb: which objects a list contains, at which revision, and how it is split into pages.

A list shows the newest state unless a continue token or `resourceVersionMatch=Exact` names an older revision. Later
pages show the revision of the first page while the change log reaches back to it. After that the client gets 410 with a
token to continue at the newest revision (an inconsistent list), as from a Kubernetes API server.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from job_controller.api_rules.field_errors import FieldError, forbidden, invalid, not_supported
from queue_manager.api.api_resources import Resource
from queue_manager.local import status_errors
from queue_manager.local.kinds.custom_kinds import CustomSchema
from queue_manager.local.server.event_loop_turns import in_turns
from queue_manager.local.server.http_messages import flag
from queue_manager.local.server.request_info import Call
from queue_manager.local.server.response_encoding import shown
from queue_manager.local.server.selector_parsing import FieldMatcher, LabelMatcher, parse_fields, parse_labels
from queue_manager.local.storage.store import Compacted, Store, Stored, decode, object_key

MATCH = "resourceVersionMatch"
INTEGER = re.compile(r"[+-]?[0-9]+")
LIST_OPTIONS = Resource("meta.k8s.io", "v1", "", "ListOptions")

EXPIRED_TOKEN_MESSAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


class ListPosition(NamedTuple):
    """Start of the next page: after this key, at this revision (-1: the newest)."""

    revision: int
    after: str

    def token(self) -> str:
        """Return the position as a continue token."""
        tree = {"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.after}
        return base64.urlsafe_b64encode(orjson.dumps(tree)).decode().rstrip("=")

    @classmethod
    def of(cls, token: str) -> ListPosition:
        """Decode a continue token. Raises 400."""
        foreign = _bad_token("it was not made by this server")
        stray = next((index for index, char in enumerate(token) if not (char.isalnum() or char in "-_")), len(token))
        if stray < len(token) or len(token) % 4 == 1:
            raise _bad_token(f"illegal base64 data at input byte {min(stray, len(token) // 4 * 4)}")
        try:
            tree = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            revision, start = tree["rv"], tree["start"]
        except (binascii.Error, orjson.JSONDecodeError, ValueError, KeyError, TypeError):
            raise foreign from None
        if not isinstance(revision, int) or not isinstance(start, str) or tree.get("v") != "meta.k8s.io/v1":
            raise foreign
        return cls(revision, start)


def _bad_token(why: str) -> status_errors.StatusError:
    return status_errors.bad_request(f"invalid continue token: continue key is not valid: {why}")


class Selection:
    """Label and field selector of a request. An empty one selects everything."""

    def __init__(self, call: Call) -> None:
        """Parse the selectors. Raises 400 for a malformed selector or a field by which the kind cannot be selected."""
        labels, fields = call.option("labelSelector"), call.option("fieldSelector")
        self.labels: LabelMatcher | None = parse_labels(labels) if labels else None
        self.fields: FieldMatcher | None = parse_fields(fields) if fields else None
        self._kind = call.kind
        if self.fields:
            self.fields.require_supported(self._supported(), call.resource)

    def _supported(self) -> Callable[[str], bool]:
        names = {"metadata.name"} | set(self._kind.fields({"metadata": {}, "spec": {}, "status": {}}))
        if self._kind.resource.namespaced:
            names.add("metadata.namespace")
        return names.__contains__

    def __bool__(self) -> bool:
        return bool(self.labels) or bool(self.fields)

    def name(self) -> str | None:
        """Return the only object name that can match, if the field selector specifies one."""
        return self.fields.exactly("metadata.name") if self.fields else None

    def __call__(self, stored: Stored) -> bool:
        """Whether a stored object matches the selectors."""
        if self.labels is not None and not self.labels(stored.labels):
            return False
        if not self.fields:
            return True
        names = {"metadata.name": stored.name, "metadata.namespace": stored.namespace}
        return self.fields({**self._values(stored), **names})

    def _values(self, stored: Stored) -> Mapping[str, str]:
        if self._kind.from_stored is not None:
            return self._kind.fields(shown(self._kind, decode(stored)))
        if stored.fields is None:
            stored.fields = dict(self._kind.fields(decode(stored)))
        return stored.fields


def number(call: Call, option: str) -> int:
    """Return an integer query parameter, 0 when absent. Raises 400."""
    text = call.option(option)
    if not text:
        return 0
    if not INTEGER.fullmatch(text):
        raise status_errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(text) > 18:
        raise status_errors.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def version(call: Call) -> int:
    """Return the requested resourceVersion, 0 when absent. Raises 400; 500 for a watch, as an API server does."""
    text = call.option("resourceVersion")
    if not text:
        return 0
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
    if flag(call.request.query, "watch"):
        raise status_errors.unexplained(why)
    raise status_errors.bad_request(f"invalid resource version: {why}")


async def list_objects(store: Store, call: Call) -> bytes:
    """Return the body of a list. Raises 400, 410, 422, 504; OSError if a write that it shows cannot be committed."""
    limit = max(0, number(call, "limit"))
    number(call, "timeoutSeconds")
    problems = _list_problems(call)
    if problems:
        raise status_errors.invalid(LIST_OPTIONS, "", problems)
    selection = Selection(call)
    revision = version(call)
    if revision > store.revision:
        raise status_errors.resource_version_too_large(revision, store.revision)
    position = _position(store, call, limit, revision)
    candidates = _candidates(store, call, selection, position)
    await store.settled()  # other requests may write from here on
    found, more = await _page(candidates, selection, limit)
    meta: dict[str, Any] = {"resourceVersion": str(position.revision)}
    if call.view.plain and isinstance(call.kind.schema, CustomSchema):
        meta["continue"] = ""
    if more:
        meta["continue"] = ListPosition(position.revision, found[-1].key).token()
        if not selection:
            meta["remainingItemCount"] = more
    return await call.view.many(found, meta, store.now())


def _position(store: Store, call: Call, limit: int, revision: int) -> ListPosition:
    token = call.option("continue")
    if token:
        if revision:
            raise status_errors.bad_request("specifying resource version is not allowed when using continue")
        position = ListPosition.of(token)
        return position if position.revision >= 0 else ListPosition(store.revision, position.after)
    match = call.option("resourceVersionMatch")
    exact = match == "Exact" or (bool(limit) and revision > 0 and not match)
    return ListPosition(revision if exact else store.revision, "")


async def _page(candidates: list[Stored], selection: Selection, limit: int) -> tuple[list[Stored], int]:
    """Return the objects of a page and the number that follow: exact without selectors, else 1 if any follow."""
    if not selection:
        page = candidates[:limit] if limit else candidates
        return page, len(candidates) - len(page)
    found: list[Stored] = []
    async for stored in in_turns(candidates):
        if selection(stored):
            if limit and len(found) == limit:
                return found, 1
            found.append(stored)
    return found, 0


def _expired(call: Call, position: ListPosition) -> status_errors.StatusError:
    if call.option("continue"):
        return status_errors.gone(EXPIRED_TOKEN_MESSAGE, continue_token=ListPosition(-1, position.after).token())
    return status_errors.gone("The resourceVersion for the provided list is too old.")


def _candidates(store: Store, call: Call, selection: Selection, position: ListPosition) -> list[Stored]:
    """Return the objects to select the page from, all at one revision. Raises 410."""
    name = selection.name()
    newest = position.revision == store.revision
    if name is not None and call.namespace and newest:
        stored = store.get(call.table, call.namespace, name)
        key = object_key(call.namespace, name)
        return [stored] if stored and key > position.after else []
    if newest:
        return list(store.scan(call.table, call.namespace, position.after))
    try:
        return list(store.scan_at(call.table, position.revision, call.namespace, position.after))
    except Compacted:
        raise _expired(call, position) from None


def _list_problems(call: Call) -> list[FieldError]:
    """Return the invalid combinations of list options (ValidateListOptions)."""
    match, version = call.option("resourceVersionMatch"), call.option("resourceVersion")
    problems = []
    if "sendInitialEvents" in call.request.query:
        problems.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if not match:
        return problems
    if not version:
        problems.append(forbidden(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if call.option("continue"):
        problems.append(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    if match not in ("Exact", "NotOlderThan"):
        problems.append(not_supported(MATCH, match, ["Exact", "NotOlderThan", ""]))
    if match == "Exact" and version == "0":
        problems.append(forbidden(MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    return problems


def _watch_problems(call: Call) -> list[FieldError]:
    """Return the invalid combinations of watch options."""
    match, initial = call.option("resourceVersionMatch"), "sendInitialEvents" in call.request.query
    problems = []
    if initial and match != "NotOlderThan":
        problems.append(forbidden(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if not match:
        return problems
    if not initial:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        problems.append(forbidden(MATCH, text))
    if match != "NotOlderThan":
        problems.append(not_supported(MATCH, match, ["NotOlderThan"]))
    if call.option("continue"):
        problems.append(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    return problems


def check_watch_options(call: Call) -> None:
    """Check the options of a watch. Raises 422."""
    number(call, "limit")
    problems = _watch_problems(call)
    if number(call, "timeoutSeconds") > 10**9:
        problems.append(invalid("timeoutSeconds", call.option("timeoutSeconds"), "must be at most 1000000000"))
    if problems:
        raise status_errors.invalid(LIST_OPTIONS, "", problems)
