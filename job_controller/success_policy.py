"""spec.successPolicy: when an Indexed Job has succeeded before all its indexes have (spec 2.10)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Set

from job_controller.indexes import Intervals, expand, parse_intervals
from job_controller.model import SuccessPolicy, SuccessPolicyRule


def matched(policy: SuccessPolicy | None, succeeded: Set[int], completions: int) -> str | None:
    """The message of the first rule that holds, or None. Rules that list no valid index are passed over."""
    if policy is None or not succeeded:
        return None
    for number, rule in enumerate(policy.rules):
        if _holds(rule, succeeded, completions):
            return f"Matched rules at index {number}"
    return None


def _holds(rule: SuccessPolicyRule, succeeded: Set[int], completions: int) -> bool:
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and len(succeeded) >= rule.succeeded_count
    listed = parse_intervals(rule.succeeded_indexes, completions)
    if not listed:
        return False
    total = sum(last - first + 1 for first, last in listed)
    enough = total if rule.succeeded_count is None else min(total, rule.succeeded_count)
    return len(succeeded) >= enough and _number_of(succeeded, listed, total) >= enough


def _number_of(succeeded: Set[int], listed: Intervals, total: int) -> int:
    """How many of the listed indexes succeeded. A rule may list two thousand million: they are never written out."""
    if total <= len(succeeded):
        return sum(index in succeeded for index in expand(listed))
    firsts = [first for first, _ in listed]
    return sum(index >= firsts[0] and index <= listed[bisect_right(firsts, index) - 1][1] for index in succeeded)
