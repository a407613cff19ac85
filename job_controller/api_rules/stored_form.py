"""The stored form of an object: what an API server's encoder leaves out.

A decoded object is written back without nulls, empty lists and the zero values of fields that are not
pointers ("", 0, false, an empty map). Whether a zero value means something is a property of the field; the
tables below hold those of Job and Pod. Names in them have one meaning throughout these kinds.
"""

from __future__ import annotations

from datetime import UTC, datetime

from job_controller.json_tree import Json

# Fields whose empty map says nothing. An empty struct ("emptyDir", "securityContext") says something.
_MAPS = frozenset(
    [
        "annotations",
        "data",
        "labels",
        "limits",
        "matchLabels",
        "nodeSelector",
        "overhead",
        "requests",
        "stringData",
        "volumeAttributes",
    ]
)
# Fields whose "" is a value: pointers in the API, or fields that are always written.
_TEXTS = frozenset(
    [
        "action",
        "completionMode",
        "containerName",
        "failedIndexes",
        "fieldPath",
        "key",
        "managedBy",
        "mountPath",
        "name",
        "operator",
        "path",
        "podReplacementPolicy",
        "resource",
        "restartPolicy",
        "service",
        "status",
        "storageClassName",
        "succeededIndexes",
        "topologyKey",
        "type",
        "whenUnsatisfiable",
    ]
)
# Fields whose 0 or false says nothing; any other is a pointer or always written.
_ZEROS = frozenset(
    [
        "active",
        "failed",
        "failureThreshold",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostPort",
        "initialDelaySeconds",
        "periodSeconds",
        "readOnly",
        "stdin",
        "stdinOnce",
        "successThreshold",
        "succeeded",
        "timeoutSeconds",
        "tty",
    ]
)
# What a null in a list decodes to: an empty struct, unless the items are texts or numbers.
_TEXT_LISTS = frozenset(
    [
        "accessModes",
        "add",
        "args",
        "command",
        "drop",
        "failed",
        "finalizers",
        "ips",
        "hostnames",
        "matchLabelKeys",
        "mismatchLabelKeys",
        "nameservers",
        "namespaces",
        "searches",
        "succeeded",
        "values",
    ]
)
_NUMBER_LISTS = frozenset({"supplementalGroups"})
_AMOUNTS = frozenset({"limits", "requests", "overhead"})


def tidy(node: dict[str, Json]) -> None:
    """Bring a tree into stored form, in place."""
    empty = None
    for key, value in node.items():
        if value.__class__ is dict:
            if key not in _MAPS:
                tidy(value)
            elif not value:
                empty = [*(empty or ()), key]
            elif None in value.values():
                _fill(value, "0" if key in _AMOUNTS else "")
        elif value.__class__ is list:
            if value:
                _tidy_list(key, value)
            else:
                empty = [*(empty or ()), key]
        elif not value and _says_nothing(key, value):
            empty = [*(empty or ()), key]
    for key in empty or ():
        del node[key]


def _says_nothing(key: str, value: Json) -> bool:
    if value is None:
        return True
    return key not in _TEXTS if value == "" else key in _ZEROS


def _tidy_list(key: str, items: list[Json]) -> None:
    for i, item in enumerate(items):
        if item.__class__ is dict:
            tidy(item)
        elif item is None:
            items[i] = "" if key in _TEXT_LISTS else 0 if key in _NUMBER_LISTS else {}


def _fill(texts: dict[str, Json], zero: str) -> None:
    """A map of texts or amounts: null decodes as an empty one."""
    for key, value in texts.items():
        if value is None:
            texts[key] = zero


def parse_time(text: str) -> datetime | None:
    """An RFC 3339 time, in UTC; None if it is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.tzinfo is None:
        return None
    try:
        return time.astimezone(UTC)
    except OverflowError:  # before the year 1, or after 9999
        return None


def stored_time(text: str) -> str:
    """metav1.Time as it is stored: whole seconds, UTC. A text that is no time is left alone."""
    if len(text) == 20 and text[10] == "T" and text[19] == "Z":
        return text  # stored form already, as nearly always
    time = parse_time(text)
    return text if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
