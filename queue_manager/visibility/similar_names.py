"""Names that may have been meant by one that does not exist. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ALIKE = 0.7  # of 1: `resn` is no `primes`, which share 3 letters of 10


def similar_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Up to `most` of these names, the most similar first."""
    return difflib.get_close_matches(name, sorted(set(names)), n=most, cutoff=ALIKE)
