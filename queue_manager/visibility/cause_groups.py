"""Groups deactivated Jobs by cause, and selects those of one cause. Pure.

Causes that differ only in what varies between Jobs (long numbers, times, UIDs, addresses, hosts with ports, the name of
the Job) are one group. In the text of a group an ellipsis stands for what differs between its Jobs; a text with
ellipses selects the group again.
BEHAVIOUR.md#q115-groups-of-causes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

import msgspec

from queue_manager.visibility.deactivated_jobs import FAULTS_OF_PODS, NOT_STARTABLE, DeactivatedJob

VARIES = "…"
STAGGER = "10s"  # between two Jobs of a group in the suggested command
MOST_TEXT = 60  # characters of a cause in `short_action`
_NUMBERED = re.compile(r"[-\d]")  # a Job's name without these may be any word of a message, and is not replaced
_SPECIAL = re.compile(r"""[$`"\\!]""")  # for a shell, between double quotes
_SOURCE_FILE = (
    r"[\w.-]*\.(?:py|pyx|go|rs|c|cc|cpp|h|hpp|java|js|ts|rb|sh|jl|pl|php|R):"  # followed by a line, not a port
)
_VARIABLE = "|".join(
    (
        r"0x[0-9a-fA-F]+",
        r"[0-9a-f]{8}-[0-9a-f-]{27}",
        r"\d{4}-\d\d-\d\d[T ][\d:.,]+Z?",
        r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.]*\d)",  # an address
        r"\[[0-9a-fA-F]*:[0-9a-fA-F:.]+\](?::\d+)?",
        rf"(?<![\w./-])(?!{_SOURCE_FILE})[A-Za-z0-9][\w.-]*:\d{{2,5}}(?!\w)",  # host and port
        r"(?<!exit )\d{3,}",
    )
)


class CauseGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Deactivated Jobs of one cause. `example`: the Job that was deactivated last, and `text` its own cause.

    `jobs`: NAMESPACE/NAME of all. `seconds`: since `example` was deactivated. `action`: reactivates the group.
    """

    cause: str
    count: int
    example: str
    text: str
    seconds: float | None
    jobs: list[str]
    action: str


def cause_groups(rows: Iterable[DeactivatedJob], default_ns: str = "default") -> list[CauseGroup]:
    """Return the groups, the largest first. `default_ns`: the namespace in which commands act without -n."""
    found: dict[tuple[str, ...], list[tuple[DeactivatedJob, list[str]]]] = {}
    for row in rows:
        fixed, varying = _parts(row)
        found.setdefault(tuple(fixed), []).append((row, varying))
    groups = [
        _group(_common(fixed, [varying for _, varying in members]), [row for row, _ in members], default_ns)
        for fixed, members in found.items()
    ]
    return sorted(groups, key=lambda group: (-group.count, group.cause))


def short_action(groups: Sequence[CauseGroup]) -> str:
    """Return the command that selects the Jobs of the first group which a reactivation can help; "" without one.

    A long cause is cut to its first words, unless the shorter command would also select another group.
    """
    first = next((group for group in groups if not group.text.startswith(NOT_STARTABLE)), None)
    if first is None:
        return ""
    short = _beginning(first.cause)
    if any(_contains(text, short) for other in groups if other is not first for text in (other.cause, other.text)):
        return first.action
    return first.action.replace(_quoted(first.cause), _quoted(short))


def _beginning(cause: str) -> str:
    """The first words of a cause, as many as fit in MOST_TEXT characters, but at least one."""
    if len(cause) <= MOST_TEXT:
        return cause
    return cause[: MOST_TEXT + 1].rpartition(" ")[0] or cause[:MOST_TEXT]


def _parts(row: DeactivatedJob) -> tuple[list[str], list[str]]:
    """Split a cause into the texts that all Jobs of a group have, and what may vary between two of these.

    Numbers, times, UIDs, addresses, hosts with ports and the name of the Job may vary; an exit code may not.
    """
    name = rf"(?<![\w-]){re.escape(row.name)}(?!\w)|" if _NUMBERED.search(row.name) else ""
    pieces = re.split(f"({name}{_VARIABLE})", row.cause)
    return pieces[::2], pieces[1::2]


def _common(fixed: Sequence[str], varying: Sequence[Sequence[str]]) -> str:
    """The cause of a group, with an ellipsis where its Jobs differ."""
    values = [found.pop() if len(found := set(column)) == 1 else VARIES for column in zip(*varying, strict=True)]
    return "".join(text for pair in zip(fixed, [*values, ""], strict=True) for text in pair)


def with_cause(rows: Sequence[DeactivatedJob], text: str) -> list[DeactivatedJob]:
    """Return the Jobs of the group that has this text, if there is one; else all whose cause contains it."""
    named = {job for group in cause_groups(rows) if group.cause == text for job in group.jobs}
    if named:
        return [row for row in rows if f"{row.namespace}/{row.name}" in named]
    return [row for row in rows if has_cause(row, text)]


def has_cause(row: DeactivatedJob, text: str) -> bool:
    """Whether cause, reason or message contains the text, in upper or lower case: all that commands say of it.

    `...` in the text matches any characters. The class counts too if the pods are not at fault: `run time` names one
    cause then, and `by a user` those of all users, while Jobs whose pods are `pods not ready` have many.
    """
    classes = () if row.why in FAULTS_OF_PODS else (row.why,)
    return any(_contains(said, text) for said in (row.cause, f"{row.reason}: {row.message}", *classes))


def _contains(cause: str, text: str) -> bool:
    pattern = ".*".join(map(re.escape, text.replace("...", VARIES).split(VARIES)))
    return re.search(pattern, cause, re.IGNORECASE | re.DOTALL) is not None


def _group(cause: str, members: list[DeactivatedJob], default_ns: str) -> CauseGroup:
    newest = min(members, key=lambda row: (row.deactivated_seconds is None, row.deactivated_seconds, row.name))
    names = [f"{row.namespace}/{row.name}" for row in members]
    spaces = {row.namespace for row in members}
    scope = "" if spaces == {default_ns} else f" -n {newest.namespace}" if len(spaces) == 1 else " -A"
    return CauseGroup(
        cause=cause,
        count=len(members),
        example=newest.name if newest.namespace == default_ns else f"{newest.namespace}/{newest.name}",
        text=newest.cause,
        seconds=newest.deactivated_seconds,
        jobs=names,
        action=f"sluice reactivate{scope} --why {_quoted(cause)} --stagger {STAGGER}",
    )


def _quoted(text: str) -> str:
    """The text as one argument of a shell."""
    return f'"{text}"' if "'" in text and not _SPECIAL.search(text) else shlex.quote(text)
