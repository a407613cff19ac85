"""The review of writes: all errors, unreadable objects, and the table of webhooks."""

from __future__ import annotations

import copy

import pytest

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from queue_manager.api import admission_review
from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, RESOURCE_FLAVORS, WORKLOADS, Resource
from queue_manager.api.queue_admission import RULES, QueueAdmission, WithoutEffectWarnings
from queue_manager.api.webhook_table import WEBHOOKS

ALL = (QueueAdmission(), WithoutEffectWarnings())
FLAVOR: Json = {"name": "f", "resources": [{"name": "cpu"}]}
QUEUE: Json = {
    "metadata": {"name": "cq"},
    "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [FLAVOR]}]},
}


def review(resource: Resource, obj: Json, old: Json | None = None, subresource: str = "") -> AdmissionReview:
    operation = "CREATE" if old is None else "UPDATE"
    return AdmissionReview(operation, resource, subresource, copy.deepcopy(obj), old, "alice")


def test_defaults_are_added_and_warned_about() -> None:
    asked = review(CLUSTER_QUEUES, QUEUE)
    assert admission_review.mutate(asked, ALL)
    quota = asked.object["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    assert quota["nominalQuota"] == "0"
    assert asked.object["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    assert len(asked.warnings) == 1


def test_every_error_of_an_object_is_in_the_refusal() -> None:
    taint = {"key": "a b", "value": "c d", "effect": "NoSchedule"}
    text = admission_review.refusal(review(RESOURCE_FLAVORS, {"spec": {"nodeTaints": [taint, taint]}}), ALL)
    assert text.startswith("[")
    assert text.count("spec.nodeTaints[0].key") == 1
    assert text.count("spec.nodeTaints[0].value") == 1
    assert text.count("spec.nodeTaints[1]: Duplicate value") == 1


def test_an_allowed_object_has_an_empty_refusal() -> None:
    assert admission_review.refusal(review(RESOURCE_FLAVORS, {"spec": {}}), ALL) == ""


@pytest.mark.parametrize("shape", [None, 5, "text", [], [5], {"a": 5}, [{"flavors": 5}], [{"flavors": ["f"]}]])
@pytest.mark.parametrize("resource", RULES)
def test_an_object_of_another_shape_is_left_to_the_schema(resource: Resource, shape: Json) -> None:
    """A mutating webhook sees custom resources before their schema is checked."""
    for obj in (
        {"metadata": {"name": "x"}, "spec": shape},
        {"metadata": {"name": "x"}, "spec": {"resourceGroups": shape}, "status": shape},
        {"metadata": shape if isinstance(shape, dict) else {"finalizers": shape}},
    ):
        assert isinstance(admission_review.mutate(review(resource, obj), ALL), bool)


def test_a_mistake_of_a_rule_about_jobs_is_not_hidden() -> None:
    """Jobs are decoded before. A Job that is stored without its defaults would start outside of the queue."""
    with pytest.raises(KeyError):
        admission_review.mutate(review(JOBS, {}), [Failing()])
    assert not admission_review.mutate(review(CLUSTER_QUEUES, {}), [Failing()])


class Failing:
    def mutate(self, review: AdmissionReview) -> None:
        raise KeyError("spec")

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        return []


def test_a_status_write_is_reviewed_only_of_workloads() -> None:
    asked = {webhook.resource for webhook in WEBHOOKS if webhook.status}
    assert asked == {WORKLOADS}


def test_names_and_paths_are_those_of_kueue() -> None:
    assert {(webhook.name, webhook.path) for webhook in WEBHOOKS} >= {
        ("mjob.kb.io", "/mutate-batch-v1-job"),
        ("vjob.kb.io", "/validate-batch-v1-job"),
        ("mworkload.kb.io", "/mutate-kueue-x-k8s-io-v1beta2-workload"),
        ("vworkload.kb.io", "/validate-kueue-x-k8s-io-v1beta2-workload"),
        ("mclusterqueue.kb.io", "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue"),
        ("vcohort.kb.io", "/validate-kueue-x-k8s-io-v1beta2-cohort"),
    }
    assert len({webhook.path for webhook in WEBHOOKS}) == len(WEBHOOKS)


@pytest.mark.parametrize("resource", RULES)
def test_what_a_rule_prepares_on_update_has_a_webhook_for_updates(resource: Resource) -> None:
    """An update is not sent to a mutating webhook that would change nothing."""
    prepare = RULES[resource].prepare
    if prepare is None:
        assert not any(w.resource == resource and w.phase == "mutate" for w in WEBHOOKS)
        return
    [webhook] = [w for w in WEBHOOKS if w.resource == resource and w.phase == "mutate"]
    if "UPDATE" not in webhook.operations:
        new = {"metadata": {"name": "x"}, "spec": {}}
        prepare(new, copy.deepcopy(new))
        assert new == {"metadata": {"name": "x"}, "spec": {}}
