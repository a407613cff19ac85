"""`format` of texts: '%s is %d'.format([name, count])."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from queue_manager.local.cel.cel_values import CelError, CelType, Function, no_overload
from queue_manager.local.cel.operators import to_string
from queue_manager.local.cel.text_functions import affordable, as_text

_CLAUSE = re.compile(r"%(?:%|(?:\.([0-9]{1,3}))?(.?))", re.DOTALL)
_PRECISION = 6  # digits after the point when the clause does not say
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def format_text(text: str, arguments: list[Any]) -> str:
    """The text with each clause replaced by its argument. Raises CelError."""
    if not isinstance(arguments, list):
        raise no_overload()
    left = iter(enumerate(arguments))
    used = length = 0
    parts: list[str] = []
    end = 0
    for clause in _CLAUSE.finditer(as_text(text)):
        parts.append(text[end : clause.start()])
        end = clause.end()
        if clause[0] == "%%":
            parts.append("%")
            continue
        found = next(left, None)
        if found is None:
            raise CelError(f"index {used} out of range")
        used += 1
        parts.append(_printed(clause[2], found[1], int(clause[1] or _PRECISION)))
        length += len(parts[-1])
        affordable(length)
    if used < len(arguments):
        raise CelError(f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})")
    return "".join([*parts, text[end:]])


def _printed(clause: str, value: Any, precision: int) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    match clause:
        case "s":
            return _plain(value)
        case "d" if whole:
            return str(value)
        case "f" if isinstance(value, float):
            return _fixed(value, precision)
        case "e" if isinstance(value, float):
            return _scientific(value)
        case "b" if isinstance(value, int):
            return f"{value:b}"
        case "o" if whole:
            return f"{value:o}"
        case "x" | "X" if whole:
            return f"{value:{clause}}"
        case "x" | "X" if isinstance(value, str | bytes):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if clause == "X" else digits
        case "":
            raise CelError("unexpected end of string")
        case "d" | "f" | "e" | "b" | "o" | "x" | "X":
            raise CelError(f"error during formatting: clause {clause} does not take such a value")
    raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{clause}"')


def _plain(value: Any) -> str:
    match value:
        case None:
            return "null"
        case float():
            return _float(value)
        case CelType():
            return value.name
        case datetime():
            return _moment(value)
        case timedelta() | bool() | int() | str() | bytes():
            return to_string(value)
        case list():
            return f"[{', '.join(_inside(item) for item in value)}]"
        case dict():
            return f"{{{', '.join(sorted(f'{_inside(key)}:{_inside(item)}' for key, item in value.items()))}}}"
    raise no_overload()


def _inside(value: Any) -> str:
    """The text of a value inside a list or map."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return _fixed(value, _PRECISION) if isinstance(value, float) else _plain(value)


def _float(value: float) -> str:
    return to_string(value) if math.isfinite(value) else _NAMES[str(value)]


def _fixed(value: float, precision: int) -> str:
    return f"{value:,.{precision}f}" if math.isfinite(value) else _NAMES[str(value)]


def _scientific(value: float) -> str:
    """As 1.234500×10⁰³, always with six digits, as the real server's library has it."""
    if not math.isfinite(value):
        return _NAMES[str(value)]
    digits, _, exponent = f"{value:.{_PRECISION}e}".partition("e")
    return f"{digits}×10{exponent.removeprefix('+').translate(_RAISED)}"


def _moment(value: datetime) -> str:
    text = value.astimezone(UTC).isoformat().replace("+00:00", "")
    return f"{text.rstrip('0') if '.' in text else text}Z"


METHODS: dict[str, Function] = {"format": format_text}
