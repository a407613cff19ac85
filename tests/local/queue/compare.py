"""Compares two histories of one scenario: the recorded one and ours.

A history is, per object and key, the sequence of values of that key. Ours must contain every value of the recording
that stood longer than MOMENT_SECONDS, and no value that the recording does not have, in this order: so ours may skip
what Kueue wrote and overwrote at once, and may not add anything. The end is compared key by key. Not compared: times,
counts of writes, interleaving, and what two recordings of the scenario disagree about.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tests.local.queue.facts import EMPTY, Facts, facts, name_of, plain, said, seconds

MOMENT_SECONDS = 0.2  # a value that is overwritten sooner may be skipped
GONE = "gone"
Key = tuple[str, str]
Values = dict[Key, list[Any]]

# Keys of which all values are compared; of the others only the last one.
COURSE = {
    "Workload": ("cond.", "spec.active", "status.requeueState", "status.admission", "status.admissionChecks"),
    "Job": ("spec.suspend", "spec.parallelism", "spec.completions", "template."),
    "ClusterQueue": ("cond.Active",),
    "LocalQueue": ("cond.Active",),
}
# Not compared at the end: times, counts of writes, labels that contain a uid.
NOT_AT_THE_END = ("generation", "spec", "owners", "status.uncounted", "cond.Suspended")
ONLY_PRESENCE = (
    "deletionTimestamp",
    "status.startTime",
    "status.completionTime",
    "status.accumulatedPastExecutionTimeSeconds",
)


class Course(NamedTuple):
    """What happened: all values, those that stood longer than MOMENT_SECONDS, the end, and the Events."""

    values: Values
    lasting: Values
    end: dict[str, Facts]
    events: set[tuple[str, str, str, str]]
    # What the recording ended too early to contain: counters of queues, Events with these messages.
    stale: frozenset[str] = frozenset()
    unheard: frozenset[str] = frozenset()


class _Timeline:
    """Collects changes in the order of their writes."""

    def __init__(self) -> None:
        self._values: dict[Key, list[tuple[float, Any]]] = {}
        self.objects: dict[str, Facts] = {}

    def write(self, t: float, obj: str, new: Facts) -> None:
        old = self.objects.get(obj, {})
        self.objects[obj] = new
        for key in sorted({*old, *new}):
            value = comparable(key, new)
            if key.startswith(COURSE.get(obj.split("/")[0], ("-",))) and (key in new or key in old):
                seen = self._values.setdefault((obj, key), [])
                if not seen or seen[-1][1] != value:
                    seen.append((t, value))

    def delete(self, obj: str) -> None:
        self.objects.pop(obj, None)

    def values(self, *, at_least: float) -> Values:
        return {
            key: _without_repeats(
                value for i, (t, value) in enumerate(seen) if i + 1 == len(seen) or seen[i + 1][0] - t > at_least
            )
            for key, seen in self._values.items()
        }

    def course(self, events: set[tuple[str, str, str, str]]) -> Course:
        return Course(self.values(at_least=-1.0), self.values(at_least=MOMENT_SECONDS), self.objects, events)


def _without_repeats(values: Any) -> list[Any]:
    result: list[Any] = []
    for value in values:
        if not result or result[-1] != value:
            result.append(value)
    return result


def comparable(key: str, table: Facts) -> Any:
    """A value without its times and other parts that differ from run to run."""
    value = table.get(key, GONE)
    if key == "status.requeueState" and isinstance(value, dict):
        evicted = table.get("evicted at")
        wait = round(value["requeueAt"] - evicted, 3) if "requeueAt" in value and evicted is not None else None
        return {"count": value.get("count"), "wait": wait}
    if key == "status.admissionChecks" and value != GONE:
        return [{k: v for k, v in check.items() if k != "lastTransitionTime"} for check in value]
    if key == "template.labels" and value != GONE:
        return {k: v for k, v in value.items() if "uid" not in k}
    return without_uids(value)


def without_uids(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(r"<uid [^>]*>|[0-9a-f]{8}-[0-9a-f-]{27}", "<uid>", value)
    if isinstance(value, dict):
        return {k: without_uids(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(without_uids(v) for v in value)
    return value


# --- reading -----------------------------------------------------------------------------------------------


def recorded(trace: dict[str, Any]) -> Course:
    book = _Timeline()
    events = set()
    for change in trace["history"]:
        if "event" in change:
            e = change["event"]
            if e.get("by") != "job-controller":
                events.add((e["type"], e["reason"], without_uids(plain(e["note"])), e["regarding"]))
            continue
        obj = change["obj"]
        if change["op"] == "del":
            book.delete(obj)
            continue
        table = {} if change["op"] == "add" else dict(book.objects.get(obj, {}))
        for key, value in (change.get("set") or {}).items():
            if key == "cond.Evicted":
                table["evicted at"] = value["at"]
            table[key] = said(value) if key.startswith("cond.") else value
        for key in change.get("unset") or ():
            table.pop(key, None)
        book.write(change["t"], obj, table)
    return book.course(events)._replace(stale=_stale_counters(trace), unheard=_late_messages(trace))


def _late_messages(trace: dict[str, Any]) -> frozenset[str]:
    """Messages written in the last MOMENT_SECONDS, whose Events may be missing."""
    end = max(change["t"] for change in trace["history"]) - MOMENT_SECONDS
    values = (v for c in trace["history"] if c["t"] >= end for k, v in (c.get("set") or {}).items() if "cond." in k)
    return frozenset(without_uids(plain(value["message"])) for value in values)


def _stale_counters(trace: dict[str, Any]) -> frozenset[str]:
    """Queues whose counters were last written before the last change of a Workload that they count."""
    counted = ("cond.QuotaReserved", "cond.Admitted", "cond.Finished", "spec.active", "cond.Requeued")
    written: dict[str, float] = {}
    last = 0.0
    for change in trace["history"]:
        obj = change.get("obj", "")
        if obj.startswith(("ClusterQueue/", "LocalQueue/")):
            written[obj] = change["t"]
        elif obj.startswith("Workload/") and any(key in (change.get("set") or {}) for key in counted):
            last = change["t"]
    return frozenset(obj for obj, t in written.items() if t < last)


def played(history: list[bytes], start: datetime) -> Course:
    """The course of a history, given as lines of `World.history`: type, resource, object."""
    book = _Timeline()
    events = set()
    for line in history:
        what, resource, data = line.split(b" ", 2)
        tree = msgspec.json.decode(data)
        if resource == b"events":
            if tree["source"]["component"] != "job-controller":
                on = tree["involvedObject"]
                where = "/".join(filter(None, (on["kind"], on.get("namespace"), plain(on["name"]))))
                events.add((tree["type"], tree["reason"], without_uids(plain(tree["message"])), where))
            continue
        if tree.get("kind") not in (*COURSE, "Pod"):
            continue
        obj = name_of(tree)
        if what == b"DELETED":
            book.delete(obj)
            continue
        table: Facts = seconds(facts(tree), start)
        for condition in (tree.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Evicted":
                table["evicted at"] = seconds(condition["lastTransitionTime"], start)
        book.write(0.0, obj, table)
    return book.course(events)


# --- comparing ---------------------------------------------------------------------------------------------


def differences(
    theirs: Course, ours: Course, later: dict[str, Facts], unstable: dict[str, Any]
) -> dict[str, tuple[object, object]]:
    """The differences by object and key (or "events", "pods"), as (recorded, ours).

    Counters of queues lag behind: they must be right at the end, or in `later`, the state a moment after the end.
    """
    killed = unstable.get("killed", False)  # Events that Kueue had not sent yet are lost
    chance = {
        (obj, f"cond.{one}") for obj, types in unstable.items() if obj not in ("events", "killed") for one in types
    }
    chance |= {(obj, "status.resourceRequests") for obj, key in chance if key == "cond.QuotaReserved"}
    result: dict[str, tuple[object, object]] = {}
    for key in sorted({*theirs.values, *ours.values} - chance):
        did = ours.values.get(key, [])
        if not (_within(theirs.lasting.get(key, []), did) and _within(did, theirs.values.get(key, []))):
            result[" ".join(key)] = (theirs.values.get(key), did)
    for obj in sorted({*theirs.end, *ours.end}):
        if obj.startswith("Pod/"):
            continue
        if obj in theirs.stale:
            continue
        found = _at_the_end(obj, theirs.end.get(obj), ours.end.get(obj), chance)
        if found and obj.startswith(("ClusterQueue/", "LocalQueue/")):
            settled = _at_the_end(obj, theirs.end.get(obj), later.get(obj), chance)
            found = {key: pair for key, pair in found.items() if key in settled}
        result |= found
    pods = _pods(theirs.end), _pods(ours.end)
    if pods[0] != pods[1]:
        result["pods"] = pods
    missing = theirs.events - ours.events
    invented = {event for event in ours.events - theirs.events if event[2] not in theirs.unheard}
    if (missing or (invented and not killed)) and "events" not in unstable:
        result["events"] = (sorted(missing), sorted(invented))
    return result


def _within(few: list[Any], many: list[Any]) -> bool:
    """Whether all of `few` occur in `many`, in this order."""
    rest = iter(many)
    return all(value in rest for value in few)


def _at_the_end(obj: str, theirs: Facts | None, ours: Facts | None, chance: set[Key]) -> dict[str, Any]:
    if theirs is None or ours is None:
        return {f"end {obj}": ("exists" if theirs else "gone", "exists" if ours else "gone")}
    result: dict[str, tuple[object, object]] = {}
    for key in sorted({*theirs, *ours}):
        if key in NOT_AT_THE_END or key == "evicted at" or (obj, key) in chance:
            continue
        pair = comparable(key, theirs), comparable(key, ours)
        if key in ONLY_PRESENCE:
            pair = pair[0] != GONE, pair[1] != GONE
        if pair[0] != pair[1] and not (pair[0] in ("", GONE, 0) and pair[1] in ("", GONE, 0)):
            result[f"end {obj} {key}"] = pair
    return result


def _pods(end: dict[str, Facts]) -> list[Any]:
    pods = [table for obj, table in end.items() if obj.startswith("Pod/")]
    shown = ("job", "phase", "ready", "nodeSelector", "tolerations", "kueueMeta", "terminating")
    rows = [{k: p[k] for k in shown if p.get(k) not in EMPTY and (k, p[k]) != ("ready", "False")} for p in pods]
    return sorted(rows, key=str)
