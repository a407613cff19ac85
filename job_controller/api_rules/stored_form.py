"""The stored form of an object: what the encoder of an API server leaves out.

Decoding and encoding drops nulls, empty lists, and the zero values ("", 0, false, empty map) of fields that are not
pointers. Whether a zero value is kept is a property of the field; the tables list those of Job and Pod, in which each
field name has the same meaning everywhere.
"""

from __future__ import annotations

from datetime import UTC, datetime

from job_controller.json_tree import Json

# Fields whose empty map is omitted. An empty struct ("emptyDir", "securityContext") is stored.
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
# Fields whose "" is stored: pointers in the API, or fields without omitempty.
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
# Fields whose 0 or false is omitted; all others are pointers or without omitempty.
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
# A null item of a list decodes to an empty struct, except in lists of texts or numbers.
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
    """Convert a tree to its stored form, in place."""
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
        elif not value and _is_omitted(key, value):
            empty = [*(empty or ()), key]
    for key in empty or ():
        del node[key]


def _is_omitted(key: str, value: Json) -> bool:
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
    """Replace null in a map of texts or quantities by `zero`, as decoding does."""
    for key, value in texts.items():
        if value is None:
            texts[key] = zero


def parse_time(text: str) -> datetime | None:
    """An RFC 3339 time in UTC; None if the text is malformed or out of range."""
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
    """A metav1.Time as stored: whole seconds, UTC. Malformed text is returned unchanged."""
    if len(text) == 20 and text[10] == "T" and text[19] == "Z":
        return text  # the common case: already in stored form
    time = parse_time(text)
    return text if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
