"""Functions of texts and regular expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queue_manager.local.cel.cel_values import CelError, Function, OutOfBudget, no_overload
from queue_manager.local.schema.patterns import Pattern, PatternError, compiled

MAX_TEXT = 10_000_000  # characters of one text


def as_text(value: Any) -> str:
    """Return the value if it is a string; raises CelError otherwise."""
    if not isinstance(value, str):
        raise no_overload()
    return value


def pattern(text: str) -> Pattern:
    """A regular expression. Raises CelError."""
    try:
        return compiled(text)
    except PatternError as error:
        raise CelError(str(error)) from error


def matches(value: Any, regex: Any) -> bool:
    """Whether the RE2 expression matches any part of the string. Raises CelError."""
    return pattern(as_text(regex)).search(as_text(value)) is not None


def _find(value: Any, regex: Any) -> str:
    found = pattern(as_text(regex)).search(as_text(value))
    return found[0] if found else ""


def _find_all(value: Any, regex: Any, limit: int = -1) -> list[str]:
    found = [match[0] for match in pattern(as_text(regex)).finditer(as_text(value))]
    return found if limit < 0 else found[:limit]


def _char_at(value: str, index: int) -> str:
    if not 0 <= index <= len(value):
        raise CelError(f"index out of range: {index}")
    return as_text(value)[index : index + 1]


def _replace(value: str, old: str, new: str, limit: int = -1) -> str:
    found = as_text(value).count(as_text(old))
    affordable(len(value) + (found if limit < 0 else min(found, limit)) * len(as_text(new)))
    return value.replace(old, new, limit)


def _split(value: str, by: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    parts = list(as_text(value)) if by == "" else value.split(by)
    return parts if limit < 0 or limit >= len(parts) else [*parts[: limit - 1], by.join(parts[limit - 1 :])]


def _substring(value: str, start: int, end: int | None = None) -> str:
    stop = len(as_text(value)) if end is None else end
    if not 0 <= start <= stop <= len(value):
        raise CelError(f"index out of range: {start if not 0 <= start <= len(value) else stop}")
    return value[start:stop]


def _ascii(change: Callable[[str], str]) -> Function:
    return lambda value: "".join(change(char) if char.isascii() else char for char in as_text(value))


def _join(value: list[str], by: str = "") -> str:
    affordable(sum(len(as_text(item)) + len(by) for item in value))
    return by.join(value)


def affordable(length: int) -> None:
    """Reject a text that would exceed the length limit before it is built."""
    if length > MAX_TEXT:
        raise OutOfBudget


METHODS: dict[str, Function] = {
    "matches": matches,
    "find": _find,
    "findAll": _find_all,
    "startsWith": lambda value, head: as_text(value).startswith(as_text(head)),
    "endsWith": lambda value, tail: as_text(value).endswith(as_text(tail)),
    "contains": lambda value, part: as_text(part) in as_text(value),
    "charAt": _char_at,
    "lowerAscii": _ascii(str.lower),
    "upperAscii": _ascii(str.upper),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "trim": lambda value: as_text(value).strip(),
    "join": _join,
}
