"""All rules over one snapshot, and the exit code of their findings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from queue_manager.visibility.diagnosis import (
    object_rules,
    platform_rules,
    preemption_rules,
    queue_rules,
    retry_rules,
    waiting_rules,
)
from queue_manager.visibility.diagnosis.problem import Problem
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot

RULES: tuple[Callable[[ClusterSnapshot], Iterable[Problem]], ...] = (
    platform_rules.leases_without_holder,
    platform_rules.deployments_that_never_led,
    platform_rules.unanswered_webhooks,
    platform_rules.hanging_namespaces,
    platform_rules.missing_certificate_secrets,
    platform_rules.expiring_certificates,
    platform_rules.skewed_clocks,
    queue_rules.missing_cluster_queues,
    queue_rules.missing_flavors,
    queue_rules.missing_checks,
    queue_rules.inactive_cluster_queues,
    queue_rules.flavors_without_nodes,
    queue_rules.quotas_above_nodes,
    queue_rules.unreachable_borrowing,
    waiting_rules.cordoned_nodes,
    waiting_rules.never_starting,
    waiting_rules.stopped_queues,
    waiting_rules.unplaced_pods,
    waiting_rules.too_large_pods,
    preemption_rules.repeated_preemptions,
    retry_rules.without_retry_limit,
    retry_rules.timeout_too_short,
    object_rules.stuck_finalizers,
    object_rules.orphaned_workloads,
)


TRANSIENT = platform_rules.TRANSIENT | object_rules.TRANSIENT | waiting_rules.TRANSIENT


def examine(snapshot: ClusterSnapshot) -> list[Problem]:
    """All findings: errors first, each group in the order of the rules."""
    found = [problem for rule in RULES for problem in rule(snapshot)]
    return sorted(found, key=lambda problem: problem.severity != "error")


def needs_confirmation(problems: Iterable[Problem]) -> bool:
    """Whether a finding may be of a state that is passing, so that a second snapshot has to confirm it."""
    return any(problem.code in TRANSIENT for problem in problems)


def confirmed(first: Collection[Problem], second: Collection[Problem]) -> list[Problem]:
    """The findings of the second examination, of those that may pass only the ones that the first had too."""
    before = {(problem.code, problem.place) for problem in first}
    return [problem for problem in second if problem.code not in TRANSIENT or (problem.code, problem.place) in before]
