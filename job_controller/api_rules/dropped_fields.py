"""Fields that an API server drops while their feature is switched off (KEP-3329, KEP-3850, upstream
dropDisabledFields).

A field that the stored Job has is kept. See BEHAVIOUR.md#b38-switches.
"""

from __future__ import annotations

from job_controller.json_tree import Json
from job_controller.pod_failure_policy import FAIL_INDEX
from job_controller.switched_off_features import Switches


def drop(job: Json, old: Json | None, switches: Switches) -> list[str]:
    """Remove the fields that are switched off from a Job about to be stored, in place, unless `old` has them.

    On create, FailIndex rules of a podFailurePolicy are removed with backoffLimitPerIndex; a stored policy is immutable
    and kept whole. Returns the paths of the removed fields.
    """
    spec, before = job.get("spec") or {}, (old or {}).get("spec") or {}
    off: list[str] = []
    if not switches.pod_failure_policy:
        off.append("podFailurePolicy")
    if not switches.backoff_limit_per_index:
        off += ["backoffLimitPerIndex", "maxFailedIndexes"]
    dropped = [name for name in off if spec.get(name) is not None and before.get(name) is None]
    for name in dropped:
        del spec[name]
    if old is None and not switches.backoff_limit_per_index:
        dropped += _drop_rules(spec.get("podFailurePolicy") or {})
    return [f"spec.{name}" for name in dropped]


def _drop_rules(policy: Json) -> list[str]:
    rules = policy.get("rules") or ()
    gone = [number for number, rule in enumerate(rules) if (rule or {}).get("action") == FAIL_INDEX]
    if gone:
        policy["rules"] = [rule for number, rule in enumerate(rules) if number not in gone]
    return [f"podFailurePolicy.rules[{number}]" for number in gone]
