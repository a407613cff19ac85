"""Topology assignments: the domains of v1beta1 and the compressed slices of v1beta2 (KEP-2724).

A domain is a node label value per level and a count of pods. A slice holds many domains, column by column; a column
whose values are all equal is stored once, and others without their common prefix and suffix. How domains are divided
into slices has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from job_controller.json_tree import Json

# Where a Workload has them, as the path of a facet.
REQUEST = ("spec", "podSets[]", "topologyRequest")
ASSIGNMENT = ("status", "admission", "podSetAssignments[]", "topologyAssignment")

MAX_DOMAINS = 100_000  # that are expanded: domainCount is not bounded by the size of a slice


class _Malformed(ValueError):
    """A value that is not a list of domains or slices."""


def slices_of(domains: Json) -> list[Json] | None:
    """Domains as one slice, encoded as Kueue does; None if the value is not a list of domains."""
    try:
        rows = [_row(domain) for domain in _list(domains)]
    except _Malformed:
        return None
    if not rows:
        return []
    if len({len(values) for values, _ in rows}) != 1:
        return None
    counts = [count for _, count in rows]
    columns = zip(*(values for values, _ in rows), strict=True)
    entry: dict[str, Json] = {"domainCount": len(rows), "valuesPerLevel": [_compressed(column) for column in columns]}
    entry |= {"universalPodCount": counts[0]} if len(set(counts)) == 1 else {"podCounts": counts}
    return [entry]


def domains_of(slices: Json) -> list[Json] | None:
    """The domains of all slices; None if the value is not a list of slices, or has more than MAX_DOMAINS domains."""
    try:
        found = _list(slices)
        if sum(_count(entry) for entry in found) > MAX_DOMAINS:
            return None
        return [domain for entry in found for domain in _expanded(entry)]
    except _Malformed:
        return None


def _row(domain: Json) -> tuple[list[str], int]:
    if not isinstance(domain, dict) or set(domain) != {"values", "count"}:
        raise _Malformed
    values = _list(domain["values"])
    if not values or not all(isinstance(value, str) for value in values):
        raise _Malformed
    return values, _int(domain["count"])


def _compressed(values: Sequence[str]) -> Json:
    if len(set(values)) == 1:
        return {"universalValue": values[0]}
    prefix = _common_prefix(values)
    rest = [value.removeprefix(prefix) for value in values]
    suffix = _common_prefix([value[::-1] for value in rest])[::-1]
    column: dict[str, Json] = {"roots": [value.removesuffix(suffix) for value in rest]}
    return column | {name: text for name, text in (("prefix", prefix), ("suffix", suffix)) if text}


def _common_prefix(values: Sequence[str]) -> str:
    first, last = min(values), max(values)
    return next((first[:index] for index, char in enumerate(first) if char != last[index]), first)


def _expanded(entry: Json) -> Iterator[Json]:
    size = _count(entry)
    columns = [_column(column, size) for column in _list(entry.get("valuesPerLevel"))]
    counts = _repeated(entry, "universalPodCount", "podCounts", size)
    for index, count in enumerate(counts):
        yield {"values": [column[index] for column in columns], "count": _int(count)}


def _column(column: Json, size: int) -> list[str]:
    if not isinstance(column, dict):
        raise _Malformed
    prefix, suffix = column.get("prefix", ""), column.get("suffix", "")
    values = _repeated(column, "universalValue", "roots", size)
    if not all(isinstance(text, str) for text in (prefix, suffix, *values)):
        raise _Malformed
    return [f"{prefix}{value}{suffix}" for value in values]


def _repeated(entry: Json, universal: str, individual: str, size: int) -> list[Json]:
    """A value for each of `size` domains, from one of two fields."""
    if (universal in entry) == (individual in entry):
        raise _Malformed
    values = [entry[universal]] * size if universal in entry else _list(entry[individual])
    if len(values) != size:
        raise _Malformed
    return values


def _count(entry: Json) -> int:
    if not isinstance(entry, dict):
        raise _Malformed
    return _int(entry.get("domainCount"))


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise _Malformed
    return value


def _int(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _Malformed
    return value
