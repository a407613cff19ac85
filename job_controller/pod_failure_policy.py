"""spec.podFailurePolicy: what one failed pod means for its Job (spec 2.9).

The rules stand in order and the first that matches decides. A rule with an action or operator that this code
does not know is passed over, so that a newer API server does no harm.
"""

from __future__ import annotations

from typing import NamedTuple

from job_controller.model import OnExitCodes, OnPodCondition, Pod, PodFailurePolicy, PodFailurePolicyRule

COUNT = "Count"
IGNORE = "Ignore"
FAIL_INDEX = "FailIndex"
FAIL_JOB = "FailJob"


class PolicyOutcome(NamedTuple):
    """action is None when no rule matched: the failure counts, but no rule is credited with it."""

    action: str | None = None
    message: str = ""  # only with FailJob

    @property
    def counts(self) -> bool:
        return self.action != IGNORE


COUNTED = PolicyOutcome()


def evaluate(policy: PodFailurePolicy | None, pod: Pod) -> PolicyOutcome:
    """What the policy says about a failed pod."""
    if policy is None:
        return COUNTED
    for number, rule in enumerate(policy.rules or ()):
        if rule.action in (COUNT, IGNORE, FAIL_INDEX, FAIL_JOB):
            found = _match(rule, pod)
            if found is not None:
                message = f"{found} matching FailJob rule at index {number}" if rule.action == FAIL_JOB else ""
                return PolicyOutcome(rule.action, message)
    return COUNTED


def _match(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """What about the pod fits the rule, as the message says it."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        return _match_exit_codes(rule.on_exit_codes, pod, name)
    return _match_conditions(rule.on_pod_conditions, pod, name)


def _match_exit_codes(wanted: OnExitCodes, pod: Pod, name: str) -> str | None:
    for container in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if wanted.container_name is not None and container.name != wanted.container_name:
            continue
        ended = container.state.terminated
        if ended is None or ended.exit_code == 0 or not _fits(wanted, ended.exit_code):
            continue
        return f"Container {container.name} for pod {name} failed with exit code {ended.exit_code}"
    return None


def _fits(wanted: OnExitCodes, code: int) -> bool:
    match wanted.operator:
        case "In":
            return code in wanted.values
        case "NotIn":
            return code not in wanted.values
        case _:
            return False


def _match_conditions(wanted: tuple[OnPodCondition, ...], pod: Pod, name: str) -> str | None:
    for condition in pod.status.conditions:
        if any(condition.type == w.type and condition.status == w.status for w in wanted):
            return f"Pod {name} has condition {condition.type}"
    return None
