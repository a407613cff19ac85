"""Webhooks and policies as they are installed: what the KueueConfig and the admin decide about them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pydantic.alias_generators import to_camel

from job_controller.json_tree import Json
from queue_manager.installation.admission_objects import (
    ACCOUNTS_PLACEHOLDER,
    GROUP_PLACEHOLDER,
    LISTED_PLACEHOLDER,
    PLACEHOLDER,
)
from queue_manager.installation.admission_policies import admission_policies
from queue_manager.installation.helm_values import settings_from
from queue_manager.installation.objects import objects
from queue_manager.installation.policy_settings import DEFAULT, PolicyName, PolicySettings
from queue_manager.installation.settings import CONFIG, PolicyChoice
from queue_manager.installation.webhook_configurations import WebhookScope, webhook_configurations

OUTSIDE = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "own"]}
PROD = {"key": "env", "operator": "In", "values": ["prod"]}
MANAGE_ALL = f"""{CONFIG}manageJobsWithoutQueueName: true
managedJobsNamespaceSelector:
  matchLabels: {{team: a}}
  matchExpressions: [{{key: env, operator: In, values: [prod]}}]
"""
POLICIES = {"enabled": True}


def installed(**values: Json) -> list[Json]:
    return objects(settings_from([values], []), "own")


def configured(text: str) -> Json:
    return {"controllerManagerConfigYaml": text}


def webhooks(trees: list[Json]) -> dict[str, Json]:
    return {hook["name"]: hook for tree in trees for hook in tree.get("webhooks", ())}


def bindings(trees: list[Json]) -> Iterator[Json]:
    return (tree["spec"]["matchResources"] for tree in trees if tree["kind"].endswith("PolicyBinding"))


def texts_of(trees: list[Json], policy: str) -> str:
    return next(json.dumps(tree) for tree in trees if tree["metadata"]["name"] == f"sluice-{policy}")


def test_the_default_webhooks_are_those_of_the_default_scope() -> None:
    expected = webhook_configurations(WebhookScope("own"))
    assert webhooks(installed()) == webhooks(expected)


def test_the_webhooks_follow_the_configuration() -> None:
    found = webhooks(installed(managerConfig=configured(MANAGE_ALL)))
    selector = {"matchLabels": {"team": "a"}, "matchExpressions": [PROD]}
    expected = webhooks(webhook_configurations(WebhookScope("own", manage_all=True, managed_namespaces=selector)))
    assert found == expected
    assert found["mjob.kb.io"]["namespaceSelector"] == {**selector, "matchExpressions": [OUTSIDE, PROD]}
    assert "mjob-default.kb.io" not in found


def test_the_policies_follow_the_configuration() -> None:
    trees = installed(managerConfig=configured(MANAGE_ALL), admissionPolicies=POLICIES)
    expected = {"namespaceSelector": {"matchLabels": {"team": "a"}, "matchExpressions": [OUTSIDE, PROD]}}
    found = list(bindings(trees))
    assert len(found) > 5
    assert all(match == expected for match in found)
    assert "ownerReferences" in texts_of(trees, "unsuspend")
    assert "ownerReferences" not in texts_of(installed(admissionPolicies=POLICIES), "unsuspend")


@pytest.mark.parametrize("group", ["on-call", "sre:break/glass"])
def test_the_break_glass_group_is_that_of_the_settings(group: str) -> None:
    trees = installed(admissionPolicies={**POLICIES, "breakGlassGroup": group})
    text = texts_of(trees, "unsuspend")
    assert f"act as the group {group} in an emergency" in text
    assert f'\\"{group}\\" in request.userInfo' in text
    assert "sluice:break-glass" not in json.dumps(trees)


@pytest.mark.parametrize("group", ["on-call", ""])
def test_webhooks_leave_out_the_break_glass_group_of_the_settings(group: str) -> None:
    found = webhooks(installed(admissionPolicies={"breakGlassGroup": group}))
    assert found == webhooks(webhook_configurations(WebhookScope("own", break_glass_group=group)))


def test_nobody_is_exempt_without_a_break_glass_group() -> None:
    trees = installed(admissionPolicies={**POLICIES, "breakGlassGroup": ""})
    policies = [tree["spec"] for tree in trees if tree["kind"] == "ValidatingAdmissionPolicy"]
    assert len(policies) > 5
    assert {spec["variables"][0]["expression"] for spec in policies} == {"false"}
    assert "emergency" not in json.dumps(policies)


def test_further_accounts_count_as_the_queue() -> None:
    accounts = ["system:serviceaccount:team:operator", "backup"]
    text = texts_of(installed(admissionPolicies={**POLICIES, "queueAccounts": accounts}), "unsuspend")
    own = "system:serviceaccount:own:kueue-controller-manager"
    assert f"only {own}, {accounts[0]}, {accounts[1]} may unsuspend" in text
    assert f'in [\\"{own}\\", \\"{accounts[0]}\\", \\"{accounts[1]}\\"]' in text


def test_failure_policy_and_timeout_leave_unrelated_jobs_alone() -> None:
    found = webhooks(installed(webhook={"failurePolicy": "Ignore", "timeoutSeconds": 2}))
    default = found.pop("mjob-default.kb.io")
    assert (default["failurePolicy"], default["timeoutSeconds"]) == ("Ignore", 1)
    assert {(hook["failurePolicy"], hook["timeoutSeconds"]) for hook in found.values()} == {("Ignore", 2)}


@pytest.mark.parametrize("policy", PolicyName)
def test_each_policy_is_chosen_by_its_own_setting(policy: PolicyName) -> None:
    """`priority-class-use` has a second object, for CronJobs."""
    setting = to_camel(policy.replace("-", "_"))
    names = {
        chosen: {
            tree["metadata"]["name"]
            for tree in installed(admissionPolicies={**POLICIES, "policies": {setting: chosen}})
            if tree["kind"].endswith("AdmissionPolicy")
        }
        for chosen in (True, False)
    }
    further = {"sluice-priority-class-use-in-cron-jobs"} if policy == PolicyName.PRIORITY_CLASS_USE else set()
    assert names[True] - names[False] == {f"sluice-{policy}"} | further
    assert names[False] < names[True]


def test_the_policies_that_are_installed_by_default_are_the_default_of_the_rules() -> None:
    chosen = PolicyChoice().model_dump()
    assert {name for name in PolicyName if chosen[name.replace("-", "_")]} == DEFAULT


@pytest.mark.parametrize("namespaces", [(), ("a", "b")])
def test_all_policies_are_installed_as_the_rules_make_them(namespaces: tuple[str, ...]) -> None:
    chosen = {to_camel(policy.replace("-", "_")): True for policy in PolicyName}
    trees = installed(namespaces=list(namespaces), admissionPolicies={**POLICIES, "policies": chosen})
    found = [tree for tree in trees if "AdmissionPolicy" in tree["kind"]]
    for tree in found:
        del tree["metadata"]["labels"]
    queue = "system:serviceaccount:own:kueue-controller-manager"
    settings = PolicySettings(
        queue_accounts=(queue,),
        job_controllers=(queue, "system:serviceaccount:own:sluice-job-controller"),
        policies=frozenset(PolicyName),
        namespace="own",
        namespaces=namespaces,
    )
    assert found == admission_policies(settings)


def test_listed_namespaces_limit_webhooks_and_policies() -> None:
    """Kinds without a namespace are reviewed all the same."""
    trees = installed(namespaces=["a", "b"], admissionPolicies=POLICIES)
    listed = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
    selectors = {name: hook.get("namespaceSelector") for name, hook in webhooks(trees).items()}
    assert selectors["vclusterqueue.kb.io"] is None
    found = [selector for selector in selectors.values() if selector is not None]
    assert len(found) > 3
    found += [match["namespaceSelector"] for match in bindings(trees)]
    assert all(selector["matchExpressions"] == [OUTSIDE, listed] for selector in found)


@pytest.mark.parametrize(
    "placeholder", [PLACEHOLDER, LISTED_PLACEHOLDER, GROUP_PLACEHOLDER, ACCOUNTS_PLACEHOLDER, "config."]
)
def test_no_placeholder_is_installed(placeholder: str) -> None:
    trees = installed(managerConfig=configured(MANAGE_ALL), admissionPolicies={**POLICIES, "queueAccounts": ["a"]})
    admission = [tree for tree in trees if "admission" in tree["apiVersion"]]
    assert placeholder not in json.dumps(admission)
