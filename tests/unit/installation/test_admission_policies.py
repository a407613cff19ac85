"""The admission policies as objects. What they accept and refuse is tested on the real API server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from queue_manager.api.component_names import service_account
from queue_manager.configuration import loads
from queue_manager.installation.admission_policies import admission_policies, configured
from queue_manager.installation.policy_settings import BREAK_GLASS_GROUP, DEFAULT, PolicyName, PolicySettings

QUEUE = service_account("kueue-system", "kueue-controller-manager")
SETTINGS = PolicySettings(queue_accounts=(QUEUE,), job_controllers=(QUEUE,))
EVERYTHING = replace(SETTINGS, policies=frozenset(PolicyName))
NAMESPACE = "kubernetes.io/metadata.name"
HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"

Tree = dict[str, Any]


def names(objects: list[Tree], *, of: str = "Policy") -> list[str]:
    return [tree["metadata"]["name"] for tree in objects if tree["kind"].endswith(of)]


def bindings(settings: PolicySettings) -> list[Tree]:
    return [tree["spec"] for tree in admission_policies(settings) if tree["kind"].endswith("Binding")]


def test_each_policy_is_followed_by_its_binding() -> None:
    objects = admission_policies(EVERYTHING)
    policies, binds = objects[::2], objects[1::2]
    for policy, binding in zip(policies, binds, strict=True):
        assert binding["kind"] == policy["kind"] + "Binding"
        assert binding["apiVersion"] == policy["apiVersion"]
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert len(set(names(objects))) == len(policies)


@pytest.mark.parametrize("policy", PolicyName)
def test_each_policy_can_be_selected_alone(policy: PolicyName) -> None:
    found = names(admission_policies(replace(SETTINGS, policies=frozenset({policy}))))
    assert found[0] == f"sluice-{policy}"
    assert len(found) == (2 if policy is PolicyName.PRIORITY_CLASS_USE else 1)


def test_two_policies_are_off_by_default() -> None:
    assert frozenset(PolicyName) - DEFAULT == {PolicyName.MANAGED_BY, PolicyName.PRIORITY_CLASS_USE}
    found = names(admission_policies(SETTINGS))
    assert len(found) == len(DEFAULT)
    assert not {f"sluice-{PolicyName.MANAGED_BY}", f"sluice-{PolicyName.PRIORITY_CLASS_USE}"}.intersection(found)


def test_every_policy_of_writes_exempts_objects_that_are_being_deleted() -> None:
    for tree in admission_policies(EVERYTHING):
        if tree["kind"] == "ValidatingAdmissionPolicy":
            conditions = {c["name"]: c["expression"] for c in tree["spec"]["matchConditions"]}
            assert conditions["is-not-being-deleted"] == "!has(object.metadata.deletionTimestamp)"
            assert len(conditions) > 1


def test_no_mutating_policy_is_returned_where_the_kind_is_not_served() -> None:
    kinds = {tree["kind"] for tree in admission_policies(replace(EVERYTHING, mutating_version=""))}
    assert kinds == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}


def test_mutating_policies_have_the_version_that_the_cluster_serves() -> None:
    objects = admission_policies(replace(EVERYTHING, mutating_version="v1beta1"))
    versions = {(tree["kind"][:8], tree["apiVersion"]) for tree in objects}
    group = "admissionregistration.k8s.io"
    assert versions == {("Mutating", f"{group}/v1beta1"), ("Validati", f"{group}/v1")}


def test_without_a_break_glass_group_nobody_is_exempt() -> None:
    default, without = (
        json.dumps(admission_policies(s)) for s in (EVERYTHING, replace(EVERYTHING, break_glass_group=""))
    )
    for text in (BREAK_GLASS_GROUP, "in an emergency"):
        assert text in default
        assert text not in without


def test_a_group_of_any_name_is_quoted() -> None:
    text = json.dumps(admission_policies(replace(SETTINGS, break_glass_group='a"b')))
    assert json.dumps(r'"a\"b" in request.userInfo')[1:-1] in text


def test_policies_apply_to_the_configured_namespaces_but_never_to_our_own() -> None:
    selector = {"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}
    settings = replace(SETTINGS, namespace="queue", namespace_selector=selector)
    assert bindings(settings)[0]["matchResources"]["namespaceSelector"] == {
        "matchLabels": {"team": "a"},
        "matchExpressions": [
            {"key": NAMESPACE, "operator": "NotIn", "values": ["kube-system", "queue"]},
            {"key": "x", "operator": "Exists"},
        ],
    }


def test_a_namespaced_installation_has_policies_for_its_namespaces_only() -> None:
    (spec, *_) = bindings(replace(SETTINGS, namespaces=("a", "b")))
    assert spec["matchResources"]["namespaceSelector"]["matchExpressions"] == [
        {"key": NAMESPACE, "operator": "NotIn", "values": ["kube-system", "kueue-system"]},
        {"key": NAMESPACE, "operator": "In", "values": ["a", "b"]},
    ]


def test_the_configuration_says_which_jobs_are_managed() -> None:
    text = "namespace: queue\nmanageJobsWithoutQueueName: true\nmanagedJobsNamespaceSelector: {matchLabels: {a: b}}\n"
    settings = configured(loads(HEAD + text), EVERYTHING)
    assert (settings.namespace, settings.manage_all) == ("queue", True)
    assert settings.namespace_selector["matchLabels"] == {"a": "b"}
    assert settings.policies == EVERYTHING.policies


def test_a_controller_of_all_jobs_needs_no_name_in_them() -> None:
    config = loads(HEAD + "jobController: {manage: All}\n")
    assert PolicyName.MANAGED_BY not in configured(config, EVERYTHING).policies


def test_a_warning_denies_nothing() -> None:
    actions = {spec["policyName"]: spec.get("validationActions") for spec in bindings(EVERYTHING)}
    assert actions.pop("sluice-known-manager") == ["Warn"]
    assert set(map(str, actions.values())) == {"['Deny']", "None"}
