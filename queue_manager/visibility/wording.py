"""Shortens reasons and messages of the API for tables. Pure.

Objects and JSON output keep the API's strings, which other programs parse. Unknown texts are returned unchanged.
"""

from __future__ import annotations

import re

from job_controller.reasons import COMPLETIONS_REACHED
from queue_manager.api import condition_types, messages, reasons

GAVE_UP = reasons.deactivated_due_to(reasons.REQUEUING_LIMIT_EXCEEDED)

_PREFIX = re.compile(r"couldn't assign flavors to pod set \S+: ")
_UNCOVERED = re.compile(r"resource (?P<resource>\S+) unavailable in ClusterQueue")
_UNUSED = re.compile(
    r"insufficient unused quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), (?P<more>\S+) more needed"
)
_CAPACITY = re.compile(
    r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), previously considered podsets requests "
    r"\((?P<before>[^)]*)\) \+ current podset request \((?P<asked>[^)]*)\) > maximum capacity \((?P<limit>[^)]*)\)"
)
_LACKS = (_UNCOVERED, _UNUSED, _CAPACITY)


def plain(reason: str, message: str, *, attempts: int = 0, equivalent: str = "") -> str:
    """Return one sentence. `equivalent`: a Job with equal requests that was tried and does not fit."""
    if reason == GAVE_UP:
        return gave_up(attempts)
    if reason == COMPLETIONS_REACHED:
        return ""  # the state is explanation enough
    if (reason, message) == (reasons.DEACTIVATED, messages.DEACTIVATED_MESSAGE):
        return "by a user"
    if message == messages.EQUIVALENT_MESSAGE:
        who = f"{equivalent}, which" if equivalent else "one that"
        return f"not tried again: {who} asks for the same{',' if equivalent else ''} does not fit"
    if reason == reasons.PENDING_EVALUATION and message != messages.PENDING_EVALUATION_MESSAGE:
        return message  # a message of Sluice, already short
    return quota(message) or ": ".join(part for part in (reason, message) if part)


def gave_up(attempts: int) -> str:
    return f"gave up after {attempts} {'attempt' if attempts == 1 else 'attempts'}"


def quota(message: str) -> str:
    """`needs 1 more cpu (default-flavor)`, `asks 64 cpu, queue limit 4`; "" for any other message."""
    text = _PREFIX.sub("", message)
    found = sorted((match for kind in _LACKS for match in kind.finditer(text)), key=lambda match: match.start())
    rest = _UNUSED.sub("", _CAPACITY.sub("", _UNCOVERED.sub("", text)))
    if not found or rest.strip(",; "):
        return ""
    several = len({match["flavor"] for match in found if match.re is _CAPACITY}) > 1
    return "; ".join(_lack(match, several) for match in found)


def _lack(match: re.Match[str], several: bool) -> str:
    if match.re is _UNCOVERED:
        return f"queue has no quota for {match['resource']}"
    if match.re is _UNUSED:
        return f"needs {match['more']} more {match['resource']} ({match['flavor']})"
    beside = f" beside {match['before']}" if match["before"] != "0" else ""
    flavor = f" ({match['flavor']})" if several else ""
    return f"asks {match['asked']} {match['resource']}{beside}, queue limit {match['limit']}{flavor}"


def event_reason(reason: str) -> str:
    """Return `Evicted` for any EvictedDueTo... reason, since the Event's message gives the cause."""
    return condition_types.EVICTED if reason.startswith(reasons.EVICTED_DUE_TO) else reason
