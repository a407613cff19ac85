"""The scope of the webhooks. That an API server evaluates the conditions so is tested on a real one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from job_controller.json_tree import Json
from queue_manager.api.webhook_table import WEBHOOKS
from queue_manager.installation.webhook_configurations import (
    NOT_BREAKING_GLASS,
    WebhookScope,
    webhook_configurations,
)
from queue_manager.operator.webhooks.kopf_admission import KopfAdmission

ROOT = Path(__file__).parents[3]
SCOPE = WebhookScope("system")


def hooks(scope: WebhookScope = SCOPE) -> list[Json]:
    return [hook for configuration in webhook_configurations(scope) for hook in configuration["webhooks"]]


def named(name: str, scope: WebhookScope = SCOPE) -> Json:
    return next(hook for hook in hooks(scope) if hook["name"] == name)


def conditions(hook: Json) -> set[str]:
    return {condition["name"] for condition in hook["matchConditions"]}


def test_every_path_that_is_asked_is_answered() -> None:
    asked = {hook["clientConfig"]["service"]["path"] for hook in hooks()}
    assert asked == {webhook.path for webhook in WEBHOOKS}
    assert asked == set(KopfAdmission(None).routes)  # type: ignore[arg-type]


def test_names_are_unique_and_of_kueue() -> None:
    names = [hook["name"] for hook in hooks()]
    assert len(set(names)) == len(names)
    assert all(name.endswith(".kb.io") for name in names)
    assert [each["metadata"]["name"] for each in webhook_configurations(SCOPE)] == [
        "kueue-mutating-webhook-configuration",
        "kueue-validating-webhook-configuration",
    ]


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook["name"])
def test_every_webhook_is_short_and_spares_deletions_and_the_manager(hook: Json) -> None:
    assert hook["timeoutSeconds"] <= 5
    assert {"not-deleted", "not-by-the-manager"} <= conditions(hook)
    assert hook["sideEffects"] == "None"
    assert "DELETE" not in hook["rules"][0]["operations"]
    if hook["rules"][0]["scope"] == "Namespaced":
        [expression] = hook["namespaceSelector"]["matchExpressions"]
        assert (expression["operator"], expression["values"]) == ("NotIn", ["kube-system", "system"])


def test_an_unrelated_job_does_not_depend_on_the_manager() -> None:
    assert "names-queue" in conditions(named("mjob.kb.io"))
    assert "has-keys" in conditions(named("vjob.kb.io"))
    default = named("mjob-default.kb.io")
    assert (default["failurePolicy"], default["timeoutSeconds"]) == ("Ignore", 1)
    assert [hook["name"] for hook in hooks() if hook["failurePolicy"] != "Fail"] == ["mjob-default.kb.io"]


def test_a_class_without_annotation_for_its_jobs_does_not_depend_on_the_manager() -> None:
    assert "has-rule" in conditions(named("vworkloadpriorityclass.kb.io"))


def test_only_the_status_of_workloads_is_asked_about() -> None:
    asked = {plural for hook in hooks() for rule in hook["rules"] for plural in rule["resources"] if "/" in plural}
    assert asked == {"workloads/status"}


def test_a_strict_default_queue_refuses_jobs_in_an_outage() -> None:
    assert named("mjob-default.kb.io", WebhookScope("system", strict_default_queue=True))["failurePolicy"] == "Fail"


def test_only_webhooks_of_jobs_leave_out_the_break_glass_group() -> None:
    spared = {hook["name"] for hook in hooks() if NOT_BREAKING_GLASS in conditions(hook)}
    assert spared == {"mjob.kb.io", "mjob-default.kb.io", "vjob.kb.io"}
    assert all(NOT_BREAKING_GLASS not in conditions(hook) for hook in hooks(SCOPE._replace(break_glass_group="")))


def test_all_jobs_of_managed_namespaces_are_asked_about_if_all_are_managed() -> None:
    selector = {"matchLabels": {"team": "a"}}
    scope = WebhookScope("system", manage_all=True, managed_namespaces=selector)
    assert conditions(named("mjob.kb.io", scope)) == conditions(named("vjob.kb.io", scope))
    assert conditions(named("mjob.kb.io", scope)) == {"not-deleted", "not-by-the-manager", NOT_BREAKING_GLASS}
    assert named("mjob.kb.io", scope)["namespaceSelector"]["matchLabels"] == {"team": "a"}
    assert "matchLabels" not in named("vworkload.kb.io", scope)["namespaceSelector"]
    assert "mjob-default.kb.io" not in [hook["name"] for hook in hooks(scope)]


def test_the_settings_say_when_a_job_without_queue_is_refused() -> None:
    hook = named("mjob.kb.io", WebhookScope("system", manage_all=True))
    assert "names-queue" not in conditions(hook)
    assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Fail", 5)
    chosen = json.loads((ROOT / "deploy/chart/values.schema.json").read_text())["properties"]["webhook"]["properties"]
    for setting in ("failurePolicy", "timeoutSeconds"):
        assert "unless the KueueConfig sets manageJobsWithoutQueueName" in chosen[setting]["description"]
