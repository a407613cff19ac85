"""Quantities as exact integers: cpu in thousandths, all other resources in whole units."""

from __future__ import annotations

from job_controller import quantities

Amounts = dict[str, int]  # by resource


def amount(resource: str, quantity: str | int) -> int:
    """The quantity in the unit of its resource, rounded up and saturating. Raises ValueError if it is malformed."""
    return quantities.parse(quantity, resource)


def text(resource: str, value: int) -> str:
    """The canonical quantity of an amount: "1500m", "2", "8Gi"."""
    return quantities.to_text(value, resource)
