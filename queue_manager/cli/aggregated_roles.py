"""ClusterRoles whose rules are collected from others: when one can be deleted for good. Pure.

kube-controller-manager writes such a role by server-side apply whenever the rules of a role that it collects from have
changed. If the role was deleted a moment before, that write creates it anew, without labels. So the collected roles are
deleted first. Once an aggregated role has the rules of what still matches, nothing is left to write.

Helm knows no such order: what is created anew after `helm uninstall` is found by its name and its only field manager.
A role that is applied without rules has no field manager, since its name is all that was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from job_controller.json_tree import Json
from queue_manager.installation.user_roles import AGGREGATED

CONTROLLER = "clusterrole-aggregation-controller"  # field manager


def is_aggregated(role: Json) -> bool:
    """Whether a ClusterRole has an aggregationRule, so that its rules are collected from other roles."""
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def is_settled(role: Json, roles: Iterable[Json]) -> bool:
    """Whether an aggregated role has exactly the rules of the ClusterRoles among `roles` that it selects."""
    wanted = [selector.get("matchLabels") or {} for selector in role["aggregationRule"]["clusterRoleSelectors"]]
    collected = set[str]()
    for each in roles:
        labels = each["metadata"].get("labels") or {}
        if any(labels.items() >= selected.items() for selected in wanted):
            collected |= _rules(each)
    return _rules(role) == collected


def is_leftover(role: Json) -> bool:
    """Whether the cluster created this aggregated ClusterRole of an installation anew after its deletion."""
    managers = {entry.get("manager") for entry in role["metadata"].get("managedFields") or ()}
    only_a_name = not managers and not role.get("rules")
    return role["metadata"]["name"] in AGGREGATED and (managers == {CONTROLLER} or only_a_name)


def _rules(role: Json) -> set[str]:
    return {json.dumps(rule, sort_keys=True) for rule in role.get("rules") or ()}
