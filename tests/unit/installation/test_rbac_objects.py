"""Who may do what: the roles of the components are the permissions table, and those of people say what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from queue_manager.configuration import loads
from queue_manager.installation.granted_permissions import granted, rights_in
from queue_manager.installation.helm_values import SettingsError, settings_from
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import CONFIG, Components, Settings, Webhook
from queue_manager.installation.user_roles import AGGREGATED
from queue_manager.operator.required_permissions import (
    ALL,
    CLUSTER_EVENTS,
    JOB_CONTROLLER,
    LEADER,
    OWN_NAMESPACE,
    QUEUE,
    each_verb,
    needs,
)
from queue_manager.operator.webhooks.webhook_permissions import CA_INJECTION, certificate_secret

Json = dict[str, Any]
Right = tuple[str, str, str, str]  # namespace ("" for all), group, resource, verb
ROOT = Path(__file__).parents[3]
OBJECTS = "kind: ResourceFlavor"
MANAGER, OWN_ACCOUNT = "kueue-controller-manager", "sluice-job-controller"


def rights_of(trees: list[Json], account: str) -> set[Right]:
    """The rights that the installed bindings grant a service account, without those of the cluster's own roles."""
    return {grant[:4] for grant in granted(trees, account)}


def rules_of(role: Json) -> set[tuple[str, str, str]]:
    return {right[:3] for right in rights_in(role["rules"])}


def required(components: tuple[str, ...], namespaces: list[str]) -> set[Right]:
    found = {
        (namespace, need.resource.group, need.name, verb)
        for need, verb in each_verb(needs(components))
        for namespace in (namespaces if need.resource.namespaced and namespaces else [""])
    }
    if QUEUE in components:  # which then serves webhooks
        secret = certificate_secret("kueue-webhook-server-cert")
        found |= {("", need.resource.group, need.name, verb) for need, verb in each_verb(CA_INJECTION)}
        found |= {
            (place, "", "configmaps", verb) for place in namespaces or ["kube-public"] for verb in ("get", "patch")
        }
        found |= {("sys", "", secret.name, verb) for verb in secret.verbs}
    if namespaces and QUEUE in components:
        found |= {("default", "", CLUSTER_EVENTS.name, verb) for verb in CLUSTER_EVENTS.verbs}
    return found | {("sys", LEADER.resource.group, LEADER.name, verb) for verb in LEADER.verbs}


@pytest.mark.parametrize("namespaces", [[], ["a", "b"]], ids=["everywhere", "in two namespaces"])
@pytest.mark.parametrize(
    ("components", "expected"),
    [
        ("Together", {MANAGER: ALL}),
        ("Apart", {MANAGER: (QUEUE,), OWN_ACCOUNT: (JOB_CONTROLLER,)}),
        ("Queue", {MANAGER: (QUEUE,)}),
        ("JobController", {OWN_ACCOUNT: (JOB_CONTROLLER,)}),
    ],
)
def test_each_service_account_may_do_exactly_what_its_components_require(
    components: Components, expected: dict[str, tuple[str, ...]], namespaces: list[str]
) -> None:
    trees = objects(Settings(components=components, namespaces=namespaces), "sys")
    accounts = {tree["metadata"]["name"] for tree in trees if tree["kind"] == "ServiceAccount"}
    assert accounts == set(expected)
    for account, own in expected.items():
        assert rights_of(trees, account) == required(own, namespaces)


def test_the_queue_may_neither_create_pods_nor_read_secrets_but_its_own() -> None:
    trees = objects(Settings(components="Apart"))
    rights = rights_of(trees, MANAGER)
    assert not {right for right in rights if right[2] == "pods" and right[3] not in ("list", "watch")}
    assert not {right for right in rights if "*" in right}
    named = [rule for tree in trees for rule in tree.get("rules", ()) if "secrets" in rule.get("resources", ())]
    assert [rule["resourceNames"] for rule in named] == [["kueue-webhook-server-cert"]]


def test_without_webhooks_the_queue_reads_no_secret() -> None:
    rights = rights_of(objects(Settings(webhook=Webhook(enabled=False))), MANAGER)
    assert not {right for right in rights if right[2] in ("secrets", "customresourcedefinitions")}


def test_the_job_controller_of_listed_namespaces_has_no_cluster_wide_right() -> None:
    trees = objects(Settings(components="JobController", namespaces=["a"]))
    assert not [tree["metadata"]["name"] for tree in trees if tree["kind"] == "ClusterRoleBinding"]


@pytest.mark.parametrize(
    ("components", "webhooks", "roles"),
    [
        ("Together", True, {"kueue-manager-role", "kueue-webhook-role", "system:auth-delegator"}),
        ("Queue", False, {"kueue-manager-role", "system:auth-delegator"}),
        ("JobController", True, set()),
    ],
)
def test_listed_namespaces_leave_these_bindings_for_the_whole_cluster(
    components: Components, webhooks: bool, roles: set[str]
) -> None:
    """As deploy/CLUSTER.md says; none of them grants anything on objects of a namespace."""
    trees = objects(Settings(components=components, namespaces=["a"], webhook=Webhook(enabled=webhooks)))
    bindings = [tree for tree in trees if tree["kind"] == "ClusterRoleBinding"]
    assert {binding["roleRef"]["name"] for binding in bindings} == roles
    page = (ROOT / "deploy" / "CLUSTER.md").read_text()
    assert all(f"| `{role}` |" in page for role in roles)
    ours = [tree for tree in trees if tree["kind"] == "ClusterRole" and tree["metadata"]["name"] in roles]
    granted_kinds = {name for role in ours for _, name, _ in rules_of(role)}
    assert not granted_kinds & {need.name for need in needs(ALL) if need.resource.namespaced}


def aggregated(trees: list[Json], name: str) -> set[tuple[str, str, str]]:
    """The rules that the API server gives an aggregated role."""
    label = {AGGREGATED[name]: "true"}.items()
    roles = [tree for tree in trees if tree["kind"] == "ClusterRole" and label <= tree["metadata"]["labels"].items()]
    return {right for role in roles for right in rules_of(role)}


KUEUE = "kueue.x-k8s.io"


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        ("sluice-viewer", (KUEUE, "workloads", "list"), (KUEUE, "workloads", "patch")),
        ("sluice-viewer", ("batch", "jobs", "watch"), ("batch", "jobs", "create")),
        ("sluice-queue-user", ("batch", "jobs", "create"), (KUEUE, "workloads", "patch")),
        ("sluice-queue-user", (KUEUE, "localqueues", "get"), (KUEUE, "localqueues", "patch")),
        ("sluice-queue-user", (KUEUE, "clusterqueues", "list"), (KUEUE, "workloadpriorityclasses", "use")),
        ("sluice-queue-operator", (KUEUE, "workloads", "patch"), (KUEUE, "workloads", "delete")),
        ("sluice-queue-operator", (KUEUE, "clusterqueues", "patch"), (KUEUE, "clusterqueues", "create")),
        ("sluice-queue-operator", (KUEUE, "localqueues", "patch"), (KUEUE, "resourceflavors", "update")),
        ("sluice-queue-admin", (KUEUE, "clusterqueues", "create"), ("", "secrets", "get")),
        ("sluice-queue-admin", ("", "limitranges", "list"), ("", "namespaces", "patch")),
        ("kueue-batch-admin-role", (KUEUE, "resourceflavors", "update"), (KUEUE, "workloads/status", "patch")),
        ("kueue-batch-user-role", ("batch", "jobs", "create"), (KUEUE, "clusterqueues", "get")),
    ],
)
def test_an_aggregated_role_may_what_its_name_says(
    role: str, may: tuple[str, str, str], may_not: tuple[str, str, str]
) -> None:
    rights = aggregated(objects(Settings()), role)
    assert may in rights
    assert may_not not in rights


def test_nobody_may_write_a_status() -> None:
    trees = objects(Settings())
    for role in AGGREGATED:
        assert not {right for right in aggregated(trees, role) if right[1].endswith("/status") and right[2] != "get"}


def test_no_role_for_people_reads_the_configuration() -> None:
    """It may contain a password, which is accepted in the URL of the history."""
    loads(f'{CONFIG}history: {{url: "postgresql://user:password@host/database"}}', "config")
    people = [tree for tree in objects(Settings()) if _is_for_people(tree)]
    assert len(people) > len(AGGREGATED)
    read = {right for role in people for right in rights_in(role["rules"]) if right[1] == "configmaps"}
    assert read == {("", "configmaps", "get", "sluice-published-config")}


def test_all_users_read_the_published_configuration_and_nothing_else() -> None:
    trees = objects(Settings(), "sys")
    (binding,) = [
        tree
        for tree in trees
        if tree["kind"].endswith("Binding")
        and any(subject["kind"] != "ServiceAccount" for subject in tree.get("subjects", ()))
    ]
    (role,) = [
        tree for tree in trees if tree["kind"] == "Role" and tree["metadata"]["name"] == binding["roleRef"]["name"]
    ]
    assert [subject["name"] for subject in binding["subjects"]] == ["system:authenticated"]
    assert {binding["metadata"]["namespace"], role["metadata"]["namespace"]} == {"kube-public"}
    assert list(rights_in(role["rules"])) == [("", "configmaps", "get", "sluice-published-config")]


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ({}, ["kube-public"]),
        ({"namespaces": ["a", "b"]}, ["a", "b"]),
        ({"namespaces": ["a", "b"], "clusterObjects": OBJECTS}, ["a", "b"]),
        ({"components": "JobController"}, []),
    ],
    ids=["all namespaces", "listed ones", "Roles only", "no queue"],
)
def test_the_configuration_is_published_where_the_managers_work(values: Json, places: list[str]) -> None:
    """Without data, which the manager writes: applying an installation again must not change it."""
    trees = objects(Settings.model_validate(values), "a")
    made = [tree for tree in trees if tree["metadata"]["name"] == "sluice-published-config"]
    assert [tree["metadata"]["namespace"] for tree in made] == places
    assert not any("data" in tree for tree in made)
    outside = {tree["metadata"]["namespace"] for tree in trees if "namespace" in tree["metadata"]} - {"a", "b"}
    assert ("kube-public" in outside) == (places == ["kube-public"])


def _is_for_people(tree: Json) -> bool:
    """Whether the rules of a role become part of an aggregated one."""
    labels = tree["metadata"].get("labels") or {}
    return tree["kind"] == "ClusterRole" and any(label in labels for label in AGGREGATED.values())


@pytest.mark.parametrize("components", ["Together", "Apart", "Queue"])
def test_with_cluster_objects_everything_is_in_the_listed_namespaces(components: Components) -> None:
    settings = Settings(components=components, namespaces=["a", "b"], cluster_objects=OBJECTS)
    trees = objects(settings, "a")
    assert {tree["metadata"].get("namespace") for tree in trees} == {"a", "b"}
    assert {tree["roleRef"]["kind"] for tree in trees if tree["kind"] == "RoleBinding"} == {"Role"}
    assert not {tree["kind"] for tree in trees} & {"Secret", "Service"} or components == "Apart"


def test_with_cluster_objects_the_queue_has_rights_in_its_namespaces_only() -> None:
    trees = objects(Settings(components="Queue", namespaces=["a", "b"], cluster_objects=OBJECTS), "a")
    expected = {
        (namespace, need.resource.group, need.name, verb)
        for need, verb in each_verb([*(need for need in needs([QUEUE]) if need.resource.namespaced), OWN_NAMESPACE])
        for namespace in ("a", "b")
    }
    expected |= {("a", LEADER.resource.group, LEADER.name, verb) for verb in LEADER.verbs}
    expected |= {(namespace, "", "configmaps", verb) for namespace in ("a", "b") for verb in ("get", "patch")}
    assert rights_of(trees, MANAGER) == expected


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"namespaces": ["a"], "components": "JobController"},
        {"namespaces": ["a"], "admissionPolicies": {"enabled": True}},
        {"namespaces": ["a"], "monitoring": {"serviceMonitor": {"enabled": True}}},
    ],
)
def test_what_roles_cannot_grant_is_refused_beside_cluster_objects(values: Json) -> None:
    with pytest.raises(SettingsError, match=r"^clusterObjects: "):
        settings_from([{**values, "clusterObjects": OBJECTS}], [])
