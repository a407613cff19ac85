"""The facets of ClusterQueue: the cohort, admission checks and the names of fungibility policies."""

from __future__ import annotations

from queue_manager.api.conversion.facets import (
    Facet,
    Fields,
    only_in_v1beta1,
    only_in_v1beta2,
    renamed,
    unchanged,
)

CHECKS, STRATEGY = "admissionChecks", "admissionChecksStrategy"
ALIASES = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def _to_strategy(fields: Fields) -> Fields:
    """The field admissionChecksStrategy of v1beta2, from the two fields of v1beta1.

    The list admissionChecks, if it is not empty, becomes a strategy with each check for all flavors. It then replaces
    the strategy that v1beta1 has, as in Kueue.
    """
    names = fields.get(CHECKS)
    if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        return {STRATEGY: {CHECKS: [{"name": name} for name in dict.fromkeys(names)]}}
    strategy = fields.get(STRATEGY)
    checks = strategy.get(CHECKS) if isinstance(strategy, dict) else None
    return {STRATEGY: strategy} if isinstance(checks, list) and checks else {}


def _without_alias(fields: Fields) -> Fields:
    return {name: ALIASES.get(value, value) if isinstance(value, str) else value for name, value in fields.items()}


def _policy(field: str) -> Facet:
    return Facet(("spec", "flavorFungibility"), (field,), (field,), _without_alias, unchanged)


FACETS = (
    renamed(("spec",), "cohort", "cohortName"),
    Facet(("spec",), (CHECKS, STRATEGY), (STRATEGY,), _to_strategy, unchanged),
    _policy("whenCanBorrow"),
    _policy("whenCanPreempt"),
    only_in_v1beta2(("spec",), "concurrentAdmissionPolicy"),
    only_in_v1beta1(("status",), "pendingWorkloadsStatus"),
)
