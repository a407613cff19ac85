"""Which differences between the saved Kueue and that on the cluster an unfinished adoption explains."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from job_controller.json_tree import Json
from queue_manager.cli.outdated_copies import first_difference, taken_away

DEPLOYMENT = {
    "kind": "Deployment",
    "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "manager", "image": "kueue:v0.14.2"}]}}},
    "metadata": {"name": "kueue-controller-manager", "namespace": "ns"},
}
WEBHOOK = {"name": "mjob.kb.io", "clientConfig": {"caBundle": "b2xk"}, "failurePolicy": "Fail"}
WEBHOOKS = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "kueue"}, "webhooks": [WEBHOOK]}
CONVERSION = {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "b2xk"}}}
CRD = {"kind": "CustomResourceDefinition", "metadata": {"name": "cohorts"}, "spec": {"conversion": CONVERSION}}
ROLE = {"kind": "ClusterRole", "metadata": {"name": "admin"}, "aggregationRule": {}, "rules": [{"verbs": ["get"]}]}
NAMESPACE = {"kind": "Namespace", "metadata": {"name": "ns", "labels": {"cost": "7"}}}
CONFIG = {"kind": "ConfigMap", "data": {"c.yaml": "a: 1\nb: 2\n"}, "metadata": {"name": "config", "namespace": "ns"}}
SAVED: list[Json] = [CONFIG, DEPLOYMENT, WEBHOOKS, ROLE, NAMESPACE, CRD]


def changed(tree: Json, path: str, value: Any) -> list[Json]:
    """The saved objects, of which one has another value in a field."""
    new = copy.deepcopy(tree)
    *parents, field = path.split("/")
    at: Any = new
    for name in parents:
        at = at[int(name)] if name.isdigit() else at.setdefault(name, {})
    at[field] = value
    return [new if each is tree else each for each in SAVED]


@pytest.mark.parametrize(
    "live",
    [
        pytest.param(SAVED, id="unchanged"),
        pytest.param([], id="deleted"),
        pytest.param(changed(DEPLOYMENT, "spec/replicas", 0), id="scaled to 0"),
        pytest.param(changed(DEPLOYMENT, "metadata/annotations", {"deployment.kubernetes.io/revision": "2"}), id="new"),
        pytest.param(changed(WEBHOOKS, "webhooks/0/clientConfig", {"caBundle": "bmV3"}), id="a new certificate"),
        pytest.param(changed(CRD, "spec/conversion", {"strategy": "None"}), id="not converted"),
        pytest.param(changed(ROLE, "rules", []), id="aggregated"),
        pytest.param(changed(NAMESPACE, "metadata/labels", {"cost": "8"}), id="a label that is not restored"),
    ],
)
def test_what_an_adoption_or_a_controller_changes_is_no_difference(live: list[Json]) -> None:
    assert first_difference(SAVED, live) == ""


@pytest.mark.parametrize(
    ("live", "difference"),
    [
        (
            changed(DEPLOYMENT, "spec/template/spec/containers/0/image", "kueue:v0.15.0"),
            "Deployment ns/kueue-controller-manager: spec.template.spec.containers[manager].image: "
            '"kueue:v0.14.2" → "kueue:v0.15.0"',
        ),
        (
            changed(DEPLOYMENT, "spec/replicas", 3),
            "Deployment ns/kueue-controller-manager: spec.replicas: 2 → 3",
        ),
        (
            changed(CONFIG, "data", {"c.yaml": "a: 1\nb: 3\n"}),
            'ConfigMap ns/config: data.c.yaml, line 2: "b: 2" → "b: 3"',
        ),
        (
            changed(WEBHOOKS, "webhooks/0/failurePolicy", "Ignore"),
            'MutatingWebhookConfiguration kueue: webhooks[mjob.kb.io].failurePolicy: "Fail" → "Ignore"',
        ),
        (
            changed(CRD, "spec/conversion/strategy", "Other"),
            'CustomResourceDefinition cohorts: spec.conversion.strategy: "Webhook" → "Other"',
        ),
        (
            changed(NAMESPACE, "metadata/labels", {"pod-security.kubernetes.io/enforce": "privileged"}),
            'Namespace ns: metadata.labels.pod-security.kubernetes.io/enforce added: "privileged"',
        ),
        ([{"kind": "ClusterRole", "metadata": {"name": "more"}}], "ClusterRole more is not in it"),
    ],
)
def test_what_an_admin_changed_is_named_with_its_field(live: list[Json], difference: str) -> None:
    assert first_difference(SAVED, live) == difference


def test_an_adoption_has_begun_if_an_object_of_the_manager_is_gone_or_scaled_down() -> None:
    assert taken_away(SAVED, SAVED) == ""
    assert taken_away(SAVED, changed(DEPLOYMENT, "spec/replicas", 0)) == "Deployment ns/kueue-controller-manager"
    without = [tree for tree in SAVED if tree is not WEBHOOKS]
    assert taken_away(SAVED, without) == "MutatingWebhookConfiguration kueue"
    assert taken_away(SAVED, [tree for tree in SAVED if tree is not CRD]) == ""
