"""Fields of Jobs that an API server drops while their feature is switched off (KEP-3329, KEP-3850).

A field that the stored Job has already is kept.
"""

from __future__ import annotations

from job_controller.json_tree import Json
from job_controller.pod_failure_policy import FAIL_INDEX
from job_controller.switches import Switches


def drop(job: Json, old: Json | None, switches: Switches) -> list[str]:
    """Take what is switched off from a Job about to be stored, in place, unless `old` has it. What was dropped, as
    field paths.

    On create the FailIndex rules of a policy go with backoffLimitPerIndex; a stored policy is
    immutable and stays whole.
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
