"""Quantities as exact integers: cpu in thousandths, everything else in whole units (spec: kueue.md 6.3)."""

from __future__ import annotations

from job_controller import quantities

Amounts = dict[str, int]  # by resource


def amount(resource: str, quantity: str | int) -> int:
    """The quantity in the unit of its resource, rounded up, saturating. Raises ValueError if it is none."""
    return quantities.parse(quantity, resource)


def text(resource: str, value: int) -> str:
    """The canonical way to write an amount: "1500m", "2", "8Gi"."""
    return quantities.to_text(value, resource)
