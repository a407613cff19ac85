"""podFailurePolicy and successPolicy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from job_controller.index_set import IndexSet
from job_controller.model import PodFailurePolicy, PodFailurePolicyRule, SuccessPolicy
from job_controller.pod_failure_policy import evaluate
from job_controller.success_policy import matched
from tests.unit.job_controller.build import (
    at,
    condition_texts,
    created,
    deleted,
    final,
    indexed,
    job,
    pod,
    released,
    run,
    wire,
)


def succeeds_at(seconds: float) -> dict[str, str]:
    time = wire(at(seconds))
    return {
        "type": "SuccessCriteriaMet",
        "status": "True",
        "reason": "SuccessPolicy",
        "message": "m",
        "lastTransitionTime": time,
    }


def on_codes(action: str, operator: str, *values: int, container: str | None = None) -> dict[str, Any]:
    codes = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": codes | ({"containerName": container} if container else {})}


def on_condition(action: str, type: str, status: str = "True") -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": type, "status": status}]}


@pytest.mark.parametrize(
    ("rules", "code", "conditions", "action"),
    [
        ([on_codes("FailJob", "In", 1, 2)], 2, [], "FailJob"),
        ([on_codes("FailJob", "In", 1, 2)], 3, [], None),
        ([on_codes("Count", "NotIn", 1)], 3, [], "Count"),
        ([on_codes("Count", "NotIn", 1)], 1, [], None),
        ([on_codes("Ignore", "NotIn", 5)], 0, [], None),  # containers that succeeded are not considered
        ([on_codes("FailJob", "In", 1, container="c")], 1, [], "FailJob"),
        ([on_codes("FailJob", "In", 1, container="other")], 1, [], None),
        ([on_codes("FailJob", "Around", 1)], 1, [], None),  # unknown operator
        ([on_codes("Explode", "In", 1), on_codes("Count", "In", 1)], 1, [], "Count"),  # unknown action
        ([on_condition("Ignore", "DisruptionTarget")], 1, [("DisruptionTarget", "True")], "Ignore"),
        ([on_condition("Ignore", "DisruptionTarget")], 1, [("DisruptionTarget", "False")], None),
        ([on_condition("Ignore", "D")], 1, [("X", "True"), ("D", "True")], "Ignore"),  # any of the pod's
        ([{"action": "Ignore", "onPodConditions": [{"type": "D"}, {"type": "E"}]}], 1, [("E", "True")], "Ignore"),
        ([on_condition("FailIndex", "X", "Unknown")], 1, [("X", "Unknown")], "FailIndex"),
        ([on_condition("Ignore", "D"), on_codes("FailJob", "In", 1)], 1, [("D", "True")], "Ignore"),  # first wins
        ([], 1, [], None),
    ],
)
def test_first_matching_rule_decides(
    rules: list[dict[str, Any]], code: int, conditions: list[tuple[str, str]], action: str | None
) -> None:
    policy = PodFailurePolicy(rules=tuple(msgspec.convert(rules, list[PodFailurePolicyRule])))
    assert evaluate(policy, pod("p", "Failed", exit_code=code, conditions=conditions)).action == action


def test_null_rules_are_no_rules() -> None:
    assert evaluate(PodFailurePolicy(rules=None), pod("p", "Failed")).action is None


def test_exit_code_fails_the_job_with_its_message() -> None:
    policy = {"rules": [on_condition("Ignore", "X"), on_codes("FailJob", "In", 42)]}
    decision = run(job(pod_failure_policy=policy), pod("a", "Failed", exit_code=42))
    text = "PodFailurePolicy Container c for pod ns/a failed with exit code 42 matching FailJob rule at index 1"
    assert condition_texts(final(decision)) == [f"FailureTarget=True/{text}", f"Failed=True/{text}"]


def test_condition_fails_the_job_with_its_message() -> None:
    policy = {"rules": [on_condition("FailJob", "ConfigIssue")]}
    decision = run(job(pod_failure_policy=policy), pod("a", "Failed", conditions=[("ConfigIssue", "True")]))
    assert condition_texts(final(decision))[0] == (
        "FailureTarget=True/PodFailurePolicy Pod ns/a has condition ConfigIssue matching FailJob rule at index 0"
    )


def test_the_pod_that_failed_first_gives_the_message_in_any_order() -> None:
    policy = {"rules": [on_codes("FailJob", "In", 1, 2)]}
    pods = [pod("late", "Failed", exit_code=1, ended=9), pod("early", "Failed", exit_code=2, ended=3)]
    for order in (pods, pods[::-1]):
        decision = run(job(parallelism=2, completions=2, pod_failure_policy=policy), *order, now=9)
        assert "pod ns/early failed with exit code 2" in condition_texts(final(decision))[0]


def test_ignored_failure_is_released_uncounted_but_delays_the_replacement() -> None:
    policy = {"rules": [on_codes("Ignore", "In", 7)]}
    decision = run(job(backoff_limit=0, pod_failure_policy=policy), pod("a", "Failed", exit_code=7), now=1)
    assert released(decision) == ["a"]
    assert (final(decision).failed, condition_texts(final(decision))) == (0, [])
    assert (created(decision), decision.requeue_after) == ([], 9)


def test_deleting_pod_is_judged_only_when_it_has_ended() -> None:
    policy = {"rules": [on_codes("FailJob", "In", 1)]}
    decision = run(job(pod_failure_policy=policy), pod("a", deleted=0, grace=30))
    assert (final(decision).failed, final(decision).terminating, condition_texts(final(decision))) == (0, 1, [])


def test_fail_index_gives_the_index_up_at_its_first_failure() -> None:
    policy = {"rules": [on_codes("FailIndex", "In", 1)]}
    job_ = indexed(2, backoff_limit_per_index=5, pod_failure_policy=policy)
    decision = run(job_, pod("a", "Failed", 0, exit_code=1), pod("b", index=1))
    assert final(decision).failed_indexes == "0"
    assert released(decision) == ["a"]


def test_ignored_failure_of_an_index_does_not_use_up_its_retries() -> None:
    from job_controller.sync_steps import CreatePods

    policy = {"rules": [on_codes("Ignore", "In", 1)]}
    job_ = indexed(1, backoff_limit_per_index=0, pod_failure_policy=policy)
    decision = run(job_, pod("a", "Failed", 0, exit_code=1, ended=0), now=10)
    plans = [plan for step in decision.steps if isinstance(step, CreatePods) for plan in step.plans]
    assert [(plan.failures, plan.ignored) for plan in plans] == [(0, 1)]


def test_policy_actions_are_measured() -> None:
    policy = {"rules": [on_codes("Ignore", "In", 7), on_codes("Count", "In", 8)]}
    job_ = job(parallelism=2, completions=2, pod_failure_policy=policy)
    decision = run(job_, pod("a", "Failed", exit_code=7), pod("b", "Failed", exit_code=8), pod("c", "Failed"), now=1)
    counts = [count for step in decision.steps for count in getattr(step, "counts", ())]
    actions = {c.labels["action"]: c.by for c in counts if c.name == "pod_failures_handled_by_failure_policy_total"}
    assert actions == {"Ignore": 1, "Count": 1}


# --- success policy ---


@pytest.mark.parametrize(
    ("rules", "succeeded", "message"),
    [
        ([{"succeededIndexes": "0,2-3"}], {0, 2, 3}, "Matched rules at index 0"),
        ([{"succeededIndexes": "0,2-3"}], {0, 2}, None),
        ([{"succeededIndexes": "0,2-3", "succeededCount": 2}], {0, 2}, "Matched rules at index 0"),
        ([{"succeededIndexes": "0,2-3", "succeededCount": 2}], {0, 4}, None),
        ([{"succeededCount": 2}], {1, 4}, "Matched rules at index 0"),
        ([{"succeededCount": 3}, {"succeededCount": 2}], {1, 4}, "Matched rules at index 1"),
        ([{"succeededIndexes": ""}, {"succeededIndexes": "1"}], {1}, "Matched rules at index 1"),
        ([{"succeededIndexes": "0-9"}], {0, 1, 2, 3, 4}, "Matched rules at index 0"),  # clipped to completions
        ([{"succeededCount": 0}], set(), None),  # no success, no match
    ],
)
def test_success_rules(rules: list[dict[str, Any]], succeeded: set[int], message: str | None) -> None:
    policy = msgspec.convert({"rules": rules}, SuccessPolicy)
    assert matched(policy, IndexSet.of(succeeded), 5) == message


def test_a_rule_may_list_two_thousand_million_indexes() -> None:
    """Expanding them would exhaust the memory of the controller."""
    most = 2**31 - 1
    rules = [{"succeededIndexes": f"0-{most - 1}"}, {"succeededIndexes": f"0,5-{most - 1}", "succeededCount": 2}]
    policy = msgspec.convert({"rules": rules}, SuccessPolicy)
    assert matched(policy, IndexSet.of({0, 4}), most) is None
    assert matched(policy, IndexSet.of({0, 4, most - 1}), most) == "Matched rules at index 1"


def test_success_policy_deletes_the_rest_uncounted() -> None:
    job_ = indexed(3, success_policy={"rules": [{"succeededIndexes": "0"}]})
    pods = [pod("a", "Succeeded", 0), pod("b", index=1), pod("c", index=2)]
    decision = run(job_, *pods)
    assert deleted(decision) == ["b", "c"]
    status = final(decision)
    assert condition_texts(status) == ["SuccessCriteriaMet=True/SuccessPolicy Matched rules at index 0"]
    assert (status.failed, status.active, status.terminating) == (0, 0, 2)
    assert sorted(released(decision)) == ["a", "b", "c"]


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_pods_deleted_for_success_are_no_failures_after_a_crash(phase: str) -> None:
    """The controller stopped after deleting them and before releasing them."""
    job_ = indexed(2, backoff_limit=0, backoff_limit_per_index=0, status={"conditions": [succeeds_at(5)]})
    pods = [pod("a", "Succeeded", 0), pod("b", phase, 1, deleted=5, grace=30, ended=8)]
    decision = run(job_, *pods, now=9)
    assert (final(decision).failed, final(decision).failed_indexes) == (0, "")


def test_pod_that_a_user_deleted_before_the_success_is_a_failure() -> None:
    """It waits for its replacement when the success policy is met, and counts in whichever sync follows."""
    policy = {"rules": [{"succeededIndexes": "0"}]}
    pods = [pod("a", "Succeeded", 0), pod("b", "Running", 1, deleted=4, grace=30)]
    for conditions in ([], [succeeds_at(5)]):
        job_ = indexed(2, backoff_limit_per_index=1, success_policy=policy, status={"conditions": conditions})
        assert final(run(job_, *pods, now=5)).failed == 1


def test_pod_that_a_user_deleted_may_fail_the_job_that_succeeds_in_the_same_sync() -> None:
    job_ = indexed(2, backoff_limit=0, success_policy={"rules": [{"succeededIndexes": "0"}]})
    decision = run(job_, pod("a", "Succeeded", 0), pod("b", "Running", 1, deleted=4))
    assert condition_texts(final(decision))[-1].startswith("FailureTarget=True/BackoffLimitExceeded")


def test_failure_beats_success_in_one_sync() -> None:
    job_ = indexed(2, backoff_limit=0, success_policy={"rules": [{"succeededIndexes": "0"}]})
    decision = run(job_, pod("a", "Succeeded", 0), pod("b", "Failed", 1))
    assert condition_texts(final(decision))[-1].startswith("Failed=True/BackoffLimitExceeded")


def test_recorded_success_is_never_overturned() -> None:
    conditions = [{"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy", "message": "m"}]
    job_ = indexed(2, backoff_limit=0, status={"conditions": conditions})
    decision = run(job_, pod("b", "Failed", 1))
    assert condition_texts(final(decision))[-1] == "Complete=True/SuccessPolicy m"
    assert final(decision).failed == 1
