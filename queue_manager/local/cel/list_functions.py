"""Functions of lists. `indexOf` and `lastIndexOf` take texts too."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from queue_manager.local.cel.cel_values import CelError, Function, equal, less, no_overload
from queue_manager.local.cel.operators import add
from queue_manager.local.cel.text_functions import as_text


def _is_sorted(value: list[Any]) -> bool:
    return not any(less(after, before) for before, after in pairwise(value))


def _check_list(value: object) -> None:
    """Raise CelError for a map, of which an item 0 would be looked for."""
    if not isinstance(value, list):
        raise no_overload()


def _sum(value: list[Any]) -> Any:
    _check_list(value)
    total: Any = value[0] if value else 0
    for item in value[1:]:
        total = add(total, item)
    return total


def extreme(value: list[Any], largest: bool) -> Any:
    """The largest or smallest item of a list. Raises CelError if it is empty, or no list."""
    _check_list(value)
    if not value:
        raise CelError(f"{'max' if largest else 'min'} called on empty list")
    best = value[0]
    for item in value[1:]:
        if less(best, item) if largest else less(item, best):
            best = item
    return best


def flatten(value: list[Any]) -> list[Any]:
    """The list with the items of its inner lists in their place, one level deep."""
    return [inner for item in value for inner in (item if isinstance(item, list) else [item])]


def _distinct(value: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in value:
        if not any(equal(item, one) for one in found):
            found.append(item)
    return found


def _index_of(value: Any, item: Any, start: int = 0) -> int:
    if isinstance(value, list):
        return next((at for at, one in enumerate(value) if equal(one, item)), -1)
    if as_text(item) == "":
        return start
    return as_text(value).find(item, _within(start))


def _last_index_of(value: Any, item: Any, start: int | None = None) -> int:
    if isinstance(value, list):
        return next((at for at in range(len(value) - 1, -1, -1) if equal(value[at], item)), -1)
    if start is None:
        return as_text(value).rfind(as_text(item))
    if as_text(item) == "":
        return start
    return as_text(value).rfind(item, 0, _within(start) + len(item)) if start < len(value) else -1


def _within(index: int) -> int:
    if index < 0:
        raise CelError(f"index out of range: {index}")
    return index


METHODS: dict[str, Function] = {
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": lambda value: extreme(value, False),
    "max": lambda value: extreme(value, True),
    "flatten": flatten,
    "distinct": _distinct,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "reverse": lambda value: value[::-1],
}
