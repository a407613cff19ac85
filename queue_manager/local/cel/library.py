"""The functions that rules can call: the CEL standard library and the Kubernetes libraries.

A function whose arguments do not match raises CelError("no such overload"); a Python TypeError counts as that.
"""

from __future__ import annotations

from typing import Any

from queue_manager.local.cel import (
    format_functions,
    list_functions,
    network_functions,
    printing,
    quantity_functions,
    text_functions,
    time_functions,
)
from queue_manager.local.cel.cel_values import NONE, CelError, CelType, Function, Optional, equal, less, type_of
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
from queue_manager.local.cel.text_functions import as_text


def _fits(make: Function) -> Function:
    def fits(value: Any) -> bool:
        as_text(value)
        try:
            make(value)
        except CelError:
            return False
        return True

    return fits


def _value(of: Optional) -> Any:
    if not of.present:
        raise CelError("optional.none() dereference")
    return of.value


def _or_value(of: Optional, other: Any) -> Any:
    return of.value if of.present else other


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
    "bytes": lambda value: value if isinstance(value, bytes) else as_text(value).encode(),
    "dyn": lambda value: value,
    "type": type_of,
    "timestamp": timestamp,
    "duration": duration,
    "matches": text_functions.matches,
    "quantity": quantity_functions.quantity,
    "isQuantity": _fits(quantity_functions.quantity),
    "ip": network_functions.ip,
    "isIP": _fits(network_functions.ip),
    "cidr": network_functions.cidr,
    "isCIDR": _fits(network_functions.cidr),
    "url": lambda value: network_functions.Url(as_text(value)),
    "isURL": _fits(lambda value: network_functions.Url(as_text(value))),
}

METHODS: dict[str, Function] = {
    "size": size,
    **text_functions.METHODS,
    **list_functions.METHODS,
    **printing.METHODS,
    **quantity_functions.METHODS,
    **network_functions.METHODS,
    **format_functions.METHODS,
    **time_functions.METHODS,
    "hasValue": lambda of: of.present,
    "value": _value,
    "orValue": _or_value,
    "or": lambda of, other: of if of.present else other,
}

NAMESPACED: dict[str, Function] = {
    "optional.of": lambda value: Optional(True, value),
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": lambda value: Optional(True, value) if value else NONE,
    **format_functions.NAMESPACED,
    "sets.contains": lambda left, right: all(is_in(item, left) for item in right),
    "sets.intersects": lambda left, right: any(is_in(item, left) for item in right),
    "sets.equivalent": lambda left, right: all(is_in(a, right) for a in left) and all(is_in(b, left) for b in right),
    "math.greatest": lambda *values: list_functions.extreme(list_functions.flatten(list(values)), True),
    "math.least": lambda *values: list_functions.extreme(list_functions.flatten(list(values)), False),
    "ip.isCanonical": lambda value: str(network_functions.ip(value)) == value,
}

CONSTANTS: dict[str, Any] = {
    **{
        name: CelType(name)
        for name in ("int", "uint", "double", "string", "bool", "bytes", "list", "map", "null_type", "type")
    },
    "google.protobuf.Timestamp": CelType("google.protobuf.Timestamp"),
    "google.protobuf.Duration": CelType("google.protobuf.Duration"),
}
