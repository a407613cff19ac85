"""Shrinks a history while the two controllers still differ on it.

Each round plays all smaller variants at once, since a play mostly waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.control_plane.jobs.history import History
from tests.control_plane.jobs.lockstep import Comparison, compare
from tests.control_plane.jobs.shared_server import SharedServer

NEEDED = {"completionMode", "completions", "parallelism"}
ROUNDS = 6


def smaller(history: History) -> Iterator[History]:
    """The history with one step, one field or one rule less, or with one number lower."""
    for number in range(len(history.steps)):
        yield replace(history, steps=history.steps[:number] + history.steps[number + 1 :])
    for field, value in history.spec.items():
        if field not in NEEDED:
            yield replace(history, spec={name: v for name, v in history.spec.items() if name != field})
        if field in ("completions", "parallelism") and value > 1:
            yield replace(history, spec={**history.spec, field: value - 1})
        if isinstance(value, dict) and len(value.get("rules", ())) > 1:
            for rule in range(len(value["rules"])):
                rules = value["rules"][:rule] + value["rules"][rule + 1 :]
                yield replace(history, spec={**history.spec, field: {"rules": rules}})
    if history.template:
        yield replace(history, template={})


async def shrink(shared: SharedServer, found: Comparison, run: str) -> Comparison:
    """The smallest history on which the two differ, as far as ROUNDS rounds find it."""
    for attempt in range(ROUNDS):
        candidates = list(smaller(found.history))
        if not candidates:
            return found
        tried = await compare(shared, candidates, f"{run}-{attempt}", allow_invalid=True, tries=1)
        still = [comparison for comparison in tried if comparison.differences]
        if not still:
            return found
        found = still[0]
    return found
