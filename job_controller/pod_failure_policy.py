"""spec.podFailurePolicy: how one failed pod affects its Job (KEP-3329, BEHAVIOUR.md#b29-pod-failure-policy).

Rules are evaluated in order and the first match decides. A rule with an unknown action or operator is skipped, so that
rules of a newer API server do no harm.
"""

from __future__ import annotations

from typing import NamedTuple

from job_controller.model import OnExitCodes, OnPodCondition, Pod, PodFailurePolicy, PodFailurePolicyRule

COUNT = "Count"
IGNORE = "Ignore"
FAIL_INDEX = "FailIndex"
FAIL_JOB = "FailJob"


class PolicyOutcome(NamedTuple):
    """What the policy says about one failed pod: the action of the first rule that matches it.

    `action` is None if no rule matches: the failure counts against backoffLimit, and the metrics count no action.
    `message`: with FailJob, the message of the condition on the Job.
    """

    action: str | None = None
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether the failure counts against backoffLimit and in status.failed."""
        return self.action != IGNORE


COUNTED = PolicyOutcome()


def evaluate(policy: PodFailurePolicy | None, pod: Pod) -> PolicyOutcome:
    """The outcome of the policy for a failed pod (upstream matchPodFailurePolicy)."""
    if policy is None:
        return COUNTED
    for number, rule in enumerate(policy.rules or ()):
        if rule.action in (COUNT, IGNORE, FAIL_INDEX, FAIL_JOB):
            description = _match(rule, pod)
            if description is not None:
                message = f"{description} matching FailJob rule at index {number}" if rule.action == FAIL_JOB else ""
                return PolicyOutcome(rule.action, message)
    return COUNTED


def _match(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """The part of the message that describes the match, None if the rule does not match."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        return _match_exit_codes(rule.on_exit_codes, pod, name)
    return _match_conditions(rule.on_pod_conditions, pod, name)


def _match_exit_codes(requirement: OnExitCodes, pod: Pod, name: str) -> str | None:
    for container in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if requirement.container_name is not None and container.name != requirement.container_name:
            continue
        ended = container.state.terminated
        if ended is None or ended.exit_code == 0 or not _matches_exit_code(requirement, ended.exit_code):
            continue
        return f"Container {container.name} for pod {name} failed with exit code {ended.exit_code}"
    return None


def _matches_exit_code(requirement: OnExitCodes, code: int) -> bool:
    match requirement.operator:
        case "In":
            return code in requirement.values
        case "NotIn":
            return code not in requirement.values
        case _:
            return False


def _match_conditions(requirement: tuple[OnPodCondition, ...], pod: Pod, name: str) -> str | None:
    for condition in pod.status.conditions:
        if any(condition.type == w.type and condition.status == w.status for w in requirement):
            return f"Pod {name} has condition {condition.type}"
    return None
