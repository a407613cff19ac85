"""How many examples hypothesis generates for a test: all of them, or a tenth under the profile of `make quick`."""

from __future__ import annotations

from hypothesis import settings

QUICK = "quick"
QUICK_SHARE = 10
FEWEST = 10


def examples(number: int) -> int:
    """The `max_examples` of a test that generates `number` examples in `make test`."""
    if settings.get_current_profile_name() == QUICK:
        return min(number, max(FEWEST, number // QUICK_SHARE))
    return number
