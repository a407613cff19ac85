"""Amounts of bytes as people read them, for tables; objects and JSON output keep the exact quantity. Pure."""

from __future__ import annotations

from job_controller.quantities import MalformedQuantity, parse

MOST = 6  # characters of a quantity that stays as it is: `1536Mi`
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES = ("memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"


def readable(resource: str, quantity: str) -> str:
    """Return `23.5Gi` for 24105Mi of memory; other resources, short quantities and malformed ones unchanged."""
    if len(quantity) <= MOST or not (resource in _BYTES or resource.startswith(_HUGE_PAGES)):
        return quantity
    try:
        value = float(parse(quantity, resource))
    except MalformedQuantity:
        return quantity
    power = 0
    while abs(value) >= 1023.95 and power < len(_UNITS) - 1:  # which would be printed as 1024.0
        value, power = value / 1024, power + 1
    return f"{value:.1f}{_UNITS[power]}" if power else quantity


def readable_pair(resource: str, used: str, of: str) -> str:
    """Return `used/of`, with the exact quantities if two that differ would read the same."""
    short = readable(resource, used), readable(resource, of)
    if short[0] == short[1] and used != of:
        return f"{used}/{of}"
    return "/".join(short)
