"""Applies all rules to a snapshot; a second snapshot confirms problems that may be temporary. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from queue_manager.visibility.diagnosis import (
    manager_and_certificate_rules,
    preemption_rules,
    queue_rules,
    refused_write_rules,
    retry_rules,
    stuck_object_rules,
    waiting_rules,
)
from queue_manager.visibility.diagnosis.problem import Problem
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot

RULES: tuple[Callable[[ClusterSnapshot], Iterable[Problem]], ...] = (
    manager_and_certificate_rules.leases_without_holder,
    manager_and_certificate_rules.deployments_that_never_led,
    manager_and_certificate_rules.unanswered_webhooks,
    manager_and_certificate_rules.dead_conversions,
    manager_and_certificate_rules.hanging_namespaces,
    manager_and_certificate_rules.missing_certificate_secrets,
    manager_and_certificate_rules.expiring_certificates,
    manager_and_certificate_rules.skewed_clocks,
    manager_and_certificate_rules.stalled_history,
    manager_and_certificate_rules.left_configurations,
    queue_rules.missing_cluster_queues,
    queue_rules.missing_flavors,
    queue_rules.missing_checks,
    queue_rules.inactive_cluster_queues,
    queue_rules.flavors_without_nodes,
    queue_rules.quotas_above_nodes,
    queue_rules.unreachable_borrowing,
    refused_write_rules.refused_writes,
    refused_write_rules.refused_pods,
    waiting_rules.cordoned_nodes,
    waiting_rules.never_starting,
    waiting_rules.stopped_queues,
    waiting_rules.unplaced_pods,
    waiting_rules.pods_that_fit_no_node,
    preemption_rules.repeated_preemptions,
    retry_rules.without_retry_limit,
    retry_rules.timeout_too_short,
    retry_rules.unusual_settings,
    retry_rules.images_not_pulled,
    stuck_object_rules.stuck_finalizers,
    stuck_object_rules.deletions_in_use,
    stuck_object_rules.orphaned_workloads,
)


TRANSIENT = manager_and_certificate_rules.TRANSIENT | stuck_object_rules.TRANSIENT | waiting_rules.TRANSIENT


def examine(snapshot: ClusterSnapshot) -> list[Problem]:
    """Apply all rules; return the problems, errors before warnings, each in the order of the rules."""
    found = [problem for rule in RULES for problem in rule(snapshot)]
    return sorted(found, key=lambda problem: problem.severity != "error")


def needs_confirmation(problems: Iterable[Problem]) -> bool:
    """Whether a problem may be temporary (code in TRANSIENT), so that a second snapshot has to confirm it."""
    return any(problem.code in TRANSIENT for problem in problems)


def confirmed(first: Collection[Problem], second: Collection[Problem]) -> list[Problem]:
    """The problems of the second examination; temporary ones (TRANSIENT) only if the first had them too."""
    before = {(problem.code, problem.place) for problem in first}
    return [problem for problem in second if problem.code not in TRANSIENT or (problem.code, problem.place) in before]
