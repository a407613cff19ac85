"""Whether spec.successPolicy of an Indexed Job is met: success before all its indexes succeed (KEP-3998,
BEHAVIOUR.md#b30-success-policy). verdict.py ends the Job for it.
"""

from __future__ import annotations

from job_controller.index_intervals import parse_intervals
from job_controller.index_set import IndexSet
from job_controller.model import SuccessPolicy, SuccessPolicyRule


def matched(policy: SuccessPolicy | None, succeeded: IndexSet, completions: int) -> str | None:
    """The message of the first rule that matches, None if none does (upstream matchSuccessPolicy).

    A rule whose succeededIndexes list no index below `completions` is skipped.
    """
    if policy is None or not succeeded:
        return None
    for number, rule in enumerate(policy.rules):
        if _matches(rule, succeeded, completions):
            return f"Matched rules at index {number}"
    return None


def _matches(rule: SuccessPolicyRule, succeeded: IndexSet, completions: int) -> bool:
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and len(succeeded) >= rule.succeeded_count
    listed = IndexSet(parse_intervals(rule.succeeded_indexes, completions))
    if not listed:
        return False
    needed = len(listed) if rule.succeeded_count is None else min(len(listed), rule.succeeded_count)
    return len(succeeded) >= needed and listed.common(succeeded) >= needed
