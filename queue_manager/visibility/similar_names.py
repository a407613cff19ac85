"""Suggests existing names for a name that does not exist. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

MIN_SIMILARITY = 0.7  # similarity ratio, 1 is equal; `resn` and `primes`, which share 3 of 10 letters, must not match


def similar_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return up to `most` similar names, the most similar first."""
    return difflib.get_close_matches(name, sorted(set(names)), n=most, cutoff=MIN_SIMILARITY)


def did_you_mean(name: str, names: Iterable[str], most: int = 3) -> str:
    """Return `did you mean train or trial?`; "" if no name is similar."""
    return suggestion(similar_names(name, names, most))


def suggestion(near: Sequence[str]) -> str:
    """Return the question about these names; "" without any."""
    return f"did you mean {' or '.join(near)}?" if near else ""
