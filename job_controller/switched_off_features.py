"""How a Job is handled while backoffLimitPerIndex or podFailurePolicy is switched off.

The rules are those of the feature gates of these fields (KEP-3850 and KEP-3329, "Feature Enablement and Rollback"):

    off     the Job is handled as if the fields were absent: failures count against backoffLimit alone, failedIndexes is
            removed from status, and the indexes it listed run again
    on      the fields apply from then on. A pod keeps its failure count in its annotations and continues from there;
            failures in between stay in status.failed and belong to no index

No other state is kept, so a restart in between makes no difference. What an API server does with the fields while they
are off is in api_rules/dropped_fields.py. See BEHAVIOUR.md#b38-switches.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from job_controller.model import Job, PodFailurePolicy, PodFailurePolicyRule
from job_controller.pod_failure_policy import FAIL_INDEX

# Replaces a rule that does not apply: it matches nothing, and later rules keep their index.
_DISABLED_RULE = PodFailurePolicyRule(action="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Features of the Job API that an admin can switch off."""

    backoff_limit_per_index: bool = True
    pod_failure_policy: bool = True


ALL_ON = Switches()


def effective(job: Job, switches: Switches) -> Job:
    """The Job without the fields that are switched off."""
    if switches == ALL_ON:
        return job
    spec = job.spec
    policy = spec.pod_failure_policy
    if not switches.pod_failure_policy:
        spec = msgspec.structs.replace(spec, pod_failure_policy=None)
    elif policy is not None and not switches.backoff_limit_per_index:
        spec = msgspec.structs.replace(spec, pod_failure_policy=_without_indexes(policy))
    if not switches.backoff_limit_per_index:
        spec = msgspec.structs.replace(spec, backoff_limit_per_index=None, max_failed_indexes=None)
    return msgspec.structs.replace(job, spec=spec)


def _without_indexes(policy: PodFailurePolicy) -> PodFailurePolicy:
    """The policy with its FailIndex rules disabled; the other rules keep their position."""
    rules = tuple(_DISABLED_RULE if rule.action == FAIL_INDEX else rule for rule in policy.rules or ())
    return PodFailurePolicy(rules=rules)
