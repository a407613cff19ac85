"""Writes records as JSON, YAML, CSV and names. Pure; config/OUTPUT.md documents the keys.

Each record begins with `schemaVersion`. Within one version keys are added, but none is removed or gets another meaning.

    json   a list of records, or the one record of a command about one Job
    yaml   the same
    csv    RFC 4180: a header with the keys, then a line per record; lists and objects within a record are JSON
    name   `job/NAME` per line: the argument that other commands take; NAMESPACE/NAME where -n does not give NAMESPACE
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

SCHEMA_VERSION = 4
MACHINE_FORMS = ("json", "yaml", "csv", "name")

Namer: TypeAlias = Callable[[object], str]


def job_names(namespace: str = "") -> Namer:
    """Return the function that names the Job of a row.

    `namespace`: the one that is left out of the name; with "" every namespace is left out.
    """

    def name(row: object) -> str:
        own = getattr(row, "namespace", namespace)
        return f"job/{_name(row)}" if namespace in ("", own) else f"job/{own}/{_name(row)}"

    return name


ANY_JOB = job_names()


def cluster_queue_name(row: object) -> str:
    """Name a ClusterQueue as `sluice hold` and `sluice ps -q` take it."""
    return f"clusterqueue/{_name(row)}"


def object_name(row: object) -> str:
    """Name the object of a row as kubectl does: `localqueue/q`."""
    return f"{getattr(row, 'kind', '').lower()}/{_name(row)}"


def object_names(namespace: str) -> Namer:
    """Return the function that names the objects that a command has changed, as an argument of further commands.

    `namespace`: the one that is left out. Jobs and LocalQueues of another one are KIND/NAMESPACE/NAME.
    """

    def name(row: object) -> str:
        own = getattr(row, "namespace", "")
        return object_name(row) if own in ("", namespace) else f"{getattr(row, 'kind', '').lower()}/{own}/{_name(row)}"

    return name


def _name(row: object) -> str:
    return str(getattr(row, "name", ""))


def text_of_rows(form: str, rows: Sequence[object], row_type: type[object] | None, name: Namer) -> str:
    """Return a list of records in a machine format. `row_type` gives the header of CSV without rows."""
    if form == "json":
        return as_json(rows)
    if form == "yaml":
        return as_yaml(rows)
    if form == "csv":
        return csv_header(row_type or (type(rows[0]) if rows else None)) + csv_lines(rows)
    return names(rows, name)


def text_of_record(form: str, record: object, name: Namer) -> str:
    """Return one record in a machine format: JSON and YAML without a list around it."""
    if form == "json":
        return as_json(record)
    if form == "yaml":
        return as_yaml(record)
    return text_of_rows(form, [record], type(record), name)


def text_of_change(form: str, rows: Sequence[object], name: Namer) -> str:
    """Return records that are appended to a stream: JSON lines, YAML documents, CSV without header, names."""
    if form == "json":
        return "".join(f"{msgspec.json.encode(_versioned(row)).decode()}\n" for row in rows)
    if form == "yaml":
        return "".join(f"---\n{as_yaml(row)}" for row in rows)
    return csv_lines(rows) if form == "csv" else names(rows, name)


def as_json(records: object) -> str:
    """Return indented JSON that ends with a newline; the keys of mappings within a record are sorted."""
    return msgspec.json.format(msgspec.json.encode(_plain(records))).decode() + "\n"


def as_yaml(records: object) -> str:
    """Return the same fields as `as_json`, in the order of the record."""
    import yaml  # imported late: only this format needs it

    return str(yaml.safe_dump(_plain(records), sort_keys=False, allow_unicode=True, width=120))


def csv_header(row_type: type[object] | None) -> str:
    """Return the line of keys; "" if the type of the records is unknown."""
    return _csv([["schemaVersion", *keys_of(row_type)]]) if row_type is not None else ""


def keys_of(row_type: type[object]) -> list[str]:
    """Return the keys of a record as JSON has them, in order."""
    fields = getattr(row_type, "__struct_encode_fields__", None) or row_type.__dataclass_fields__  # type: ignore[attr-defined]
    return list(fields)


def csv_lines(rows: Iterable[object]) -> str:
    """Return the records as CSV lines without a header."""
    return _csv([[_cell(value) for value in _versioned(row).values()] for row in rows])


def names(rows: Iterable[object], name: Namer) -> str:
    """Return a name per line."""
    return "".join(f"{name(row)}\n" for row in rows)


def _csv(lines: Iterable[Iterable[object]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(lines)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    return value


def _plain(records: object) -> object:
    if isinstance(records, Sequence):
        return [_versioned(record) for record in records]
    return _versioned(records)


def _versioned(record: object) -> dict[str, object]:
    return {"schemaVersion": SCHEMA_VERSION, **msgspec.to_builtins(record, order="deterministic")}
