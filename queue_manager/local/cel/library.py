"""The functions of the Common Expression Language that rules can call: the standard ones and those of Kubernetes.

A function that does not fit its arguments raises CelError("no such overload"); Python's own TypeError counts as that.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from job_controller import names
from queue_manager.local.cel.operators import (
    add,
    arithmetic,
    divide,
    duration,
    is_in,
    modulo,
    negate,
    size,
    subtract,
    timestamp,
    to_bool,
    to_double,
    to_int,
    to_string,
    to_uint,
)
from queue_manager.local.cel.values import (
    NONE,
    CelError,
    Optional,
    OutOfBudget,
    Quantity,
    Type,
    equal,
    less,
    no_overload,
    type_of,
    whole,
)
from queue_manager.local.schema.values import parse_quantity

Function = Callable[..., Any]
MAX_TEXT = 10_000_000  # characters of one text

# --- strings -------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise no_overload()
    return value


@lru_cache(512)
def pattern(text: str) -> re.Pattern[str]:
    """A regular expression. Raises CelError."""
    try:
        return re.compile(re.sub(r"\\z$", r"\\Z", text))
    except re.error as error:
        raise CelError(f"error parsing regexp: {error}") from error


def _matches(value: Any, regex: Any) -> bool:
    return pattern(_text(regex)).search(_text(value)) is not None


def _find(value: Any, regex: Any) -> str:
    found = pattern(_text(regex)).search(_text(value))
    return found[0] if found else ""


def _find_all(value: Any, regex: Any, limit: int = -1) -> list[str]:
    found = [match[0] for match in pattern(_text(regex)).finditer(_text(value))]
    return found if limit < 0 else found[:limit]


def _char_at(value: str, index: int) -> str:
    if not 0 <= index <= len(value):
        raise CelError(f"index out of range: {index}")
    return _text(value)[index : index + 1]


def _index_of(value: Any, item: Any, start: int = 0) -> int:
    if isinstance(value, list):
        return next((at for at, one in enumerate(value) if equal(one, item)), -1)
    return _text(value).find(_text(item), start)


def _last_index_of(value: Any, item: Any) -> int:
    if isinstance(value, list):
        return next((at for at in range(len(value) - 1, -1, -1) if equal(value[at], item)), -1)
    return _text(value).rfind(_text(item))


def _replace(value: str, old: str, new: str, limit: int = -1) -> str:
    found = _text(value).count(_text(old))
    _affordable(len(value) + (found if limit < 0 else min(found, limit)) * len(_text(new)))
    return value.replace(old, new, limit)


def _split(value: str, by: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    parts = list(_text(value)) if by == "" else value.split(by)
    return parts if limit < 0 or limit >= len(parts) else [*parts[: limit - 1], by.join(parts[limit - 1 :])]


def _substring(value: str, start: int, end: int | None = None) -> str:
    stop = len(_text(value)) if end is None else end
    if not 0 <= start <= stop <= len(value):
        raise CelError(f"index out of range: {start if not 0 <= start <= len(value) else stop}")
    return value[start:stop]


def _ascii(change: Callable[[str], str]) -> Function:
    return lambda value: "".join(change(char) if char.isascii() else char for char in _text(value))


def _join(value: list[str], by: str = "") -> str:
    _affordable(sum(len(_text(item)) + len(by) for item in value))
    return by.join(value)


def _affordable(length: int) -> None:
    """Refuse a text of more memory than its parts have, before it is made."""
    if length > MAX_TEXT:
        raise OutOfBudget


# --- lists ---------------------------------------------------------------------------------------------------


def _is_sorted(value: list[Any]) -> bool:
    return not any(less(after, before) for before, after in pairwise(value))


def _sum(value: list[Any]) -> Any:
    total: Any = value[0] if value else 0
    for item in value[1:]:
        total = add(total, item)
    return total


def _extreme(value: list[Any], largest: bool) -> Any:
    if not value:
        raise CelError(f"{'max' if largest else 'min'} called on empty list")
    best = value[0]
    for item in value[1:]:
        if less(best, item) if largest else less(item, best):
            best = item
    return best


def _flatten(value: list[Any]) -> list[Any]:
    return [inner for item in value for inner in (item if isinstance(item, list) else [item])]


def _distinct(value: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in value:
        if not any(equal(item, one) for one in found):
            found.append(item)
    return found


# --- quantities, addresses, formats --------------------------------------------------------------------------


def quantity(value: Any) -> Quantity:
    try:
        return Quantity(parse_quantity(_text(value))[0])
    except ValueError as error:
        raise CelError(str(error)) from error


def _fits(make: Function) -> Function:
    def fits(value: Any) -> bool:
        _text(value)
        try:
            make(value)
        except CelError:
            return False
        return True

    return fits


def _amount(value: Any) -> Fraction:
    if isinstance(value, Quantity):
        return value.value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    raise no_overload()


def _compare_to(left: Quantity, right: Any) -> int:
    mine, other = _amount(left), _amount(right)
    return (mine > other) - (mine < other)


def _as_integer(value: Quantity) -> int:
    if _amount(value).denominator != 1:
        raise CelError("cannot convert value to integer")
    return whole(int(_amount(value)))


def ip(value: Any) -> Any:
    try:
        return ipaddress.ip_address(_text(value))
    except ValueError as error:
        raise CelError(f"IP Address {value!r} parse error during conversion from string: {error}") from error


def cidr(value: Any) -> Any:
    try:
        if "/" not in _text(value):
            raise ValueError("no '/'")
        return ipaddress.ip_interface(value)
    except ValueError as error:
        raise CelError(f"network address parse error during conversion from string: {error}") from error


def _contains_ip(network: Any, address: Any) -> bool:
    return (ip(address) if isinstance(address, str) else address) in network.network


def _contains_cidr(network: Any, other: Any) -> bool:
    other = cidr(other) if isinstance(other, str) else other
    return bool(other.version == network.version and other.network.subnet_of(network.network))


class Url:
    """A parsed absolute URL or path."""

    def __init__(self, text: str) -> None:
        self.parts = urlsplit(text)
        if not (self.parts.scheme or text.startswith("/")):
            raise CelError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")


def _host_name(url: Url) -> str:
    return url.parts.hostname or ""


_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "uuid": lambda text: (
        []
        if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text)
        else ["does not match the UUID format"]
    ),
    "byte": lambda text: [] if re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", text) else ["invalid base64"],
    "date": lambda text: [] if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else ["invalid date"],
}


class Format:
    """A named format of strings."""

    def __init__(self, check: Callable[[str], list[str]]) -> None:
        self.check = check


def _validate_format(form: Format, value: Any) -> Optional:
    found = form.check(_text(value))
    return Optional(True, found) if found else NONE


def _named_format(name: Any) -> Optional:
    return Optional(True, Format(_FORMATS[name])) if name in _FORMATS else NONE


# --- optionals -----------------------------------------------------------------------------------------------


def _value(of: Optional) -> Any:
    if not of.there:
        raise CelError("optional.none() dereference")
    return of.value


def _or_value(of: Optional, other: Any) -> Any:
    return of.value if of.there else other


# --- tables --------------------------------------------------------------------------------------------------


def _get_part(name: str) -> Function:
    def part(value: Any, zone: str = "UTC") -> int:
        if isinstance(value, timedelta):
            total = int(value.total_seconds())
            scale = {"getHours": 3600, "getMinutes": 60, "getSeconds": 1}
            if name == "getMilliseconds":
                return value.microseconds // 1000
            return total // scale[name] if total >= 0 else -(-total // scale[name])
        moment = value.astimezone(UTC)
        return int(_PARTS[name](moment))

    return part


_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda t: t.year,
    "getMonth": lambda t: t.month - 1,
    "getDate": lambda t: t.day,
    "getDayOfMonth": lambda t: t.day - 1,
    "getDayOfWeek": lambda t: t.isoweekday() % 7,
    "getDayOfYear": lambda t: t.timetuple().tm_yday - 1,
    "getHours": lambda t: t.hour,
    "getMinutes": lambda t: t.minute,
    "getSeconds": lambda t: t.second,
    "getMilliseconds": lambda t: t.microsecond // 1000,
}

FUNCTIONS: dict[str, Function] = {
    "+": add,
    "-": subtract,
    "*": lambda left, right: arithmetic(left, right, lambda a, b: a * b),
    "/": divide,
    "%": modulo,
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": less,
    ">": lambda left, right: less(right, left),
    "<=": lambda left, right: not less(right, left),
    ">=": lambda left, right: not less(left, right),
    "in": is_in,
    "!": negate,
    "size": size,
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "string": to_string,
    "bool": to_bool,
    "bytes": lambda value: value if isinstance(value, bytes) else _text(value).encode(),
    "dyn": lambda value: value,
    "type": type_of,
    "timestamp": timestamp,
    "duration": duration,
    "matches": _matches,
    "quantity": quantity,
    "isQuantity": _fits(quantity),
    "ip": ip,
    "isIP": _fits(ip),
    "cidr": cidr,
    "isCIDR": _fits(cidr),
    "url": lambda value: Url(_text(value)),
    "isURL": _fits(lambda value: Url(_text(value))),
}

METHODS: dict[str, Function] = {
    "size": size,
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "startsWith": lambda value, head: _text(value).startswith(_text(head)),
    "endsWith": lambda value, tail: _text(value).endswith(_text(tail)),
    "contains": lambda value, part: _text(part) in _text(value),
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "lowerAscii": _ascii(str.lower),
    "upperAscii": _ascii(str.upper),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "trim": lambda value: _text(value).strip(),
    "reverse": lambda value: value[::-1],
    "join": _join,
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": lambda value: _extreme(value, False),
    "max": lambda value: _extreme(value, True),
    "flatten": _flatten,
    "distinct": _distinct,
    "isGreaterThan": lambda left, right: _compare_to(left, right) > 0,
    "isLessThan": lambda left, right: _compare_to(left, right) < 0,
    "compareTo": _compare_to,
    "isInteger": lambda value: _amount(value).denominator == 1,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_amount(value)),
    "sign": lambda value: (_amount(value) > 0) - (_amount(value) < 0),
    "add": lambda left, right: Quantity(_amount(left) + _amount(right)),
    "sub": lambda left, right: Quantity(_amount(left) - _amount(right)),
    "family": lambda value: value.version,
    "isLoopback": lambda value: value.is_loopback,
    "isUnspecified": lambda value: value.is_unspecified,
    "isLinkLocalUnicast": lambda value: value.is_link_local,
    "isGlobalUnicast": lambda value: not (value.is_loopback or value.is_multicast or value.is_unspecified),
    "ip": lambda value: value.ip,
    "prefixLength": lambda value: value.network.prefixlen,
    "masked": lambda value: ipaddress.ip_interface(str(value.network)),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "getScheme": lambda url: url.parts.scheme,
    "getHost": lambda url: url.parts.netloc.rpartition("@")[2],
    "getHostname": _host_name,
    "getPort": lambda url: "" if url.parts.port is None else str(url.parts.port),
    "getEscapedPath": lambda url: quote(url.parts.path, safe="/%:@!$&'()*+,;=-._~"),
    "getQuery": lambda url: parse_qs(url.parts.query, keep_blank_values=True),
    "validate": _validate_format,
    "hasValue": lambda of: of.there,
    "value": _value,
    "orValue": _or_value,
    "or": lambda of, other: of if of.there else other,
    **{name: _get_part(name) for name in _PARTS},
}

NAMESPACED: dict[str, Function] = {
    "optional.of": lambda value: Optional(True, value),
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": lambda value: Optional(True, value) if value else NONE,
    "format.named": _named_format,
    **{f"format.{name}": partial(Format, check) for name, check in _FORMATS.items()},
    "sets.contains": lambda left, right: all(is_in(item, left) for item in right),
    "sets.intersects": lambda left, right: any(is_in(item, left) for item in right),
    "sets.equivalent": lambda left, right: all(is_in(a, right) for a in left) and all(is_in(b, left) for b in right),
    "math.greatest": lambda *values: _extreme(_flatten(list(values)), True),
    "math.least": lambda *values: _extreme(_flatten(list(values)), False),
    "ip.isCanonical": lambda value: str(ip(value)) == value,
}

CONSTANTS: dict[str, Any] = {
    **{
        name: Type(name)
        for name in ("int", "uint", "double", "string", "bool", "bytes", "list", "map", "null_type", "type")
    },
    "google.protobuf.Timestamp": Type("google.protobuf.Timestamp"),
    "google.protobuf.Duration": Type("google.protobuf.Duration"),
}
