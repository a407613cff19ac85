"""ClusterRoles for people. Bind one of the aggregated roles; the others carry its rules.

    role                     for                                        bind it
    sluice-viewer            auditors: read everything                  cluster-wide or in a namespace
    sluice-queue-user        submit Jobs, see queues and positions      in a namespace
    sluice-queue-operator    hold, drain, release, reactivate           cluster-wide or in a namespace
    sluice-queue-admin       quotas and classes                         cluster-wide
    kueue-batch-user-role    Kueue's name of what users may             in a namespace
    kueue-batch-admin-role   Kueue's name of what admins may            cluster-wide

Names and aggregation labels of the roles per kind are those of Kueue (config/components/rbac), so that bindings to them
keep their meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    JOBS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from queue_manager.api.component_names import PUBLISHED_CONFIG, VISIBILITY_GROUP
from queue_manager.installation import object_names
from queue_manager.installation.rbac_objects import CLUSTER_WIDE, PUBLISHED_READER_ROLE
from queue_manager.installation.template import Node, Template, TemplateCondition, when

READ = ("get", "list", "watch")
EDIT = ("create", "delete", "get", "list", "patch", "update", "watch")

BATCH_ADMIN, BATCH_USER = "rbac.kueue.x-k8s.io/batch-admin", "rbac.kueue.x-k8s.io/batch-user"
VIEWER, USER, OPERATOR = "sluice/aggregate-to-viewer", "sluice/aggregate-to-queue-user", "sluice/aggregate-to-operator"
ADMIN = "sluice/aggregate-to-admin"
TO_VIEW, TO_EDIT, TO_ADMIN = (f"rbac.authorization.k8s.io/aggregate-to-{role}" for role in ("view", "edit", "admin"))

AGGREGATED = {
    "sluice-viewer": VIEWER,
    "sluice-queue-user": USER,
    "sluice-queue-operator": OPERATOR,
    "sluice-queue-admin": ADMIN,
    "kueue-batch-admin-role": BATCH_ADMIN,
    "kueue-batch-user-role": BATCH_USER,
}


@dataclass(frozen=True, slots=True)
class KindRoles:
    """The aggregation labels of the roles that may edit and view the objects of a kind."""

    resource: Resource
    edit: tuple[str, ...]
    view: tuple[str, ...]
    has_status: bool = True


ADMINS_EDIT, ADMINS_VIEW = (BATCH_ADMIN, ADMIN), (BATCH_ADMIN, TO_ADMIN, VIEWER, OPERATOR, ADMIN)
ALL_VIEW = (BATCH_ADMIN, BATCH_USER, VIEWER, USER, OPERATOR, ADMIN)

ROLES = (
    KindRoles(ADMISSION_CHECKS, ADMINS_EDIT, ADMINS_VIEW),
    KindRoles(CLUSTER_QUEUES, ADMINS_EDIT, (*ADMINS_VIEW, USER)),
    KindRoles(COHORTS, ADMINS_EDIT, ADMINS_VIEW),
    KindRoles(JOBS, (BATCH_ADMIN, BATCH_USER, USER, ADMIN), ALL_VIEW),
    KindRoles(LOCAL_QUEUES, ADMINS_EDIT, (*ALL_VIEW, TO_VIEW, TO_EDIT, TO_ADMIN)),
    KindRoles(RESOURCE_FLAVORS, ADMINS_EDIT, ADMINS_VIEW, has_status=False),
    KindRoles(WORKLOADS, ADMINS_EDIT, ALL_VIEW),
    KindRoles(WORKLOAD_PRIORITY_CLASSES, ADMINS_EDIT, (*ADMINS_VIEW, USER), has_status=False),
)
# What else decides about admissions: `sluice explain` and `sluice import` compute them. (Group, resource.)
DECIDE_WITH_QUEUES = (
    ("", "namespaces"),
    ("", "limitranges"),
    ("node.k8s.io", "runtimeclasses"),
    ("scheduling.k8s.io", "priorityclasses"),
)
OPERATED = (LOCAL_QUEUES, CLUSTER_QUEUES, WORKLOADS)  # spec.stopPolicy and spec.active


def user_role_templates() -> list[Template]:
    """Return the roles per kind, what operators may beyond viewing, and the aggregated roles."""
    single = [role for kind in ROLES for role in _roles_of(kind)]
    single += [
        _role(
            "kueue-pending-workloads-cq-viewer-role",
            (BATCH_ADMIN, VIEWER, OPERATOR, ADMIN),
            [_rule(VISIBILITY_GROUP, "clusterqueues/pendingworkloads", ["get"])],
        ),
        _role(
            "kueue-pending-workloads-lq-viewer-role",
            ALL_VIEW,
            [_rule(VISIBILITY_GROUP, "localqueues/pendingworkloads", ["get"])],
        ),
        _role(
            "sluice-explanation-reader-role", ALL_VIEW, [_rule(VISIBILITY_GROUP, "localqueues/explanation", ["get"])]
        ),
        _role(
            PUBLISHED_READER_ROLE,
            ALL_VIEW,
            [{**_rule(CONFIG_MAPS.group, CONFIG_MAPS.plural, ["get"]), "resourceNames": [PUBLISHED_CONFIG]}],
        ),
        _role(
            "sluice-queue-operation-role",
            (OPERATOR, ADMIN),
            [_rule(kind.group, kind.plural, ["patch"]) for kind in OPERATED],
        ),
        _role("sluice-quota-reader-role", (ADMIN,), [_rule(*pair, ["get", "list"]) for pair in DECIDE_WITH_QUEUES]),
        _role(
            "sluice-priority-class-user-role",
            (OPERATOR, ADMIN),
            [_rule(WORKLOAD_PRIORITY_CLASSES.group, WORKLOAD_PRIORITY_CLASSES.plural, ["use"])],
        ),
    ]
    wanted = (TemplateCondition("userRoles.enabled"), CLUSTER_WIDE)
    return [when(role, *wanted) for role in (*single, *(_aggregated(*pair) for pair in AGGREGATED.items()))]


def _roles_of(kind: KindRoles) -> list[Template]:
    resource = kind.resource
    status: list[Node] = [_rule(resource.group, f"{resource.plural}/status", ["get"])] if kind.has_status else []
    name = resource.kind.lower()
    return [
        _role(f"kueue-{name}-editor-role", kind.edit, [_rule(resource.group, resource.plural, EDIT), *status]),
        _role(f"kueue-{name}-viewer-role", kind.view, [_rule(resource.group, resource.plural, READ), *status]),
    ]


def _rule(group: str, resource: str, verbs: Sequence[str]) -> dict[str, Node]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _role(name: str, labels: Iterable[str], rules: list[Node]) -> Template:
    return {
        "apiVersion": f"{object_names.RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {**object_names.LABELS, **dict.fromkeys(labels, "true")}},
        "rules": rules,
    }


def _aggregated(name: str, label: str) -> Template:
    """Return a role whose rules the API server collects from the roles with the label; `rules` is its to write."""
    return {
        "apiVersion": f"{object_names.RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": object_names.LABELS},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
    }
