"""ClusterRoles that the cluster collects: when one can be deleted, and which were created anew."""

from __future__ import annotations

import pytest

from job_controller.json_tree import Json
from queue_manager.cli.aggregated_roles import CONTROLLER, is_leftover, is_settled

GET, LIST = ({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]} for verb in ("get", "list"))


def role(name: str, *rules: Json, labels: tuple[str, ...] = (), collects: str = "", manager: str = "") -> Json:
    managed = [{"manager": manager}] if manager else []
    meta = {"name": name, "labels": dict.fromkeys(labels, "true"), "managedFields": managed}
    selectors = [{"matchLabels": {collects: "true"}}] if collects else []
    return {"metadata": meta, "rules": list(rules) or None, "aggregationRule": {"clusterRoleSelectors": selectors}}


@pytest.mark.parametrize(
    ("rules", "parts", "settled"),
    [
        ([], [], True),
        ([GET], [], False),
        ([], [role("a", GET, labels=("x",))], False),
        ([GET], [role("a", GET, labels=("x",)), role("b", LIST, labels=("y",))], True),
        ([LIST, GET], [role("a", GET, labels=("x",)), role("b", LIST, labels=("x",))], True),
    ],
)
def test_a_role_is_settled_if_it_has_the_rules_of_what_matches_and_no_others(
    rules: list[Json], parts: list[Json], settled: bool
) -> None:
    assert is_settled(role("whole", *rules, collects="x"), parts) is settled


@pytest.mark.parametrize(
    ("name", "rules", "manager", "leftover"),
    [
        ("sluice-viewer", [GET], CONTROLLER, True),
        ("sluice-viewer", [], CONTROLLER, True),
        ("sluice-viewer", [], "", True),  # applied without rules
        ("sluice-viewer", [GET], "", False),
        ("sluice-viewer", [GET], "kubectl", False),
        ("other", [GET], CONTROLLER, False),
    ],
)
def test_a_leftover_has_our_name_and_was_written_by_the_cluster_alone(
    name: str, rules: list[Json], manager: str, leftover: bool
) -> None:
    assert is_leftover(role(name, *rules, manager=manager)) is leftover
