"""Service accounts of the components, and RBAC rules for exactly what `operator.required_permissions` lists.

    component         service account            ClusterRole, or Roles in the listed namespaces
    queue             kueue-controller-manager   kueue-manager-role
    job-controller    kueue-controller-manager   sluice-job-controller-role      (Together)
                      sluice-job-controller                                      (Apart, JobController)

With `namespaces` the ClusterRole keeps the rules of kinds without a namespace, and the rest is granted by a Role of the
same name in each namespace. The Job controller needs no kind without a namespace, hence no ClusterRole. With
`clusterObjects` the queue reads no such kind from the API server either, and no object without a namespace is made.
"""

from __future__ import annotations

from collections.abc import Mapping

from queue_manager.api.component_names import PUBLIC_NAMESPACE
from queue_manager.installation import object_names
from queue_manager.installation.template import ITEM, NAMESPACE, Each, Node, Template, TemplateCondition, When, when
from queue_manager.operator import required_permissions
from queue_manager.operator.required_permissions import JOB_CONTROLLER, LEADER, QUEUE

QUEUE_RUNS = TemplateCondition("components", ("JobController",), negated=True)
JOB_CONTROLLER_RUNS = TemplateCondition("components", ("Queue",), negated=True)
OWN_DEPLOYMENT = TemplateCondition("components", ("Apart", "JobController"))  # of the Job controller
SHARED_DEPLOYMENT = TemplateCondition("components", ("Together",))
ALL_NAMESPACES = TemplateCondition("namespaces", negated=True)
LISTED_NAMESPACES = TemplateCondition("namespaces")
CLUSTER_WIDE = TemplateCondition("clusterObjects", negated=True)
ROLES_ONLY = TemplateCondition("clusterObjects")
VISIBLE = (TemplateCondition("visibility.enabled"), CLUSTER_WIDE)
WEBHOOKS = (TemplateCondition("webhook.enabled"), CLUSTER_WIDE)
NO_WEBHOOKS = TemplateCondition("webhook.enabled", negated=True)

QUEUE_ROLE, JOB_CONTROLLER_ROLE = "kueue-manager-role", "sluice-job-controller-role"
LEADER_ROLE = "kueue-leader-election-role"
EVENTS_ROLE = "kueue-cluster-events-role"
PUBLISHER_ROLE, PUBLISHED_READER_ROLE = "sluice-config-publisher-role", "sluice-published-config-reader-role"
AUTHENTICATED = "system:authenticated"  # the group of all users, service accounts among them


def account_templates() -> list[Template]:
    """Return the service accounts. They mount no token by default: the pods request it."""
    return [
        when(_account(object_names.MANAGER), QUEUE_RUNS),
        when(_account(object_names.JOB_CONTROLLER), OWN_DEPLOYMENT),
    ]


def _account(name: str) -> Node:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": object_names.LABELS},
        "automountServiceAccountToken": False,
    }


def role_templates() -> list[Template]:
    """Return the roles of the components and their bindings."""
    return [
        *_component(QUEUE, QUEUE_ROLE, ((object_names.MANAGER, QUEUE_RUNS),), QUEUE_RUNS),
        *_component(
            JOB_CONTROLLER,
            JOB_CONTROLLER_ROLE,
            ((object_names.MANAGER, SHARED_DEPLOYMENT), (object_names.JOB_CONTROLLER, OWN_DEPLOYMENT)),
            JOB_CONTROLLER_RUNS,
        ),
        *_cluster_events(),
        *_publication(),
        *_leader_election(),
        *_delegated_auth(),
        _metrics_reader(),
    ]


Accounts = tuple[tuple[str, TemplateCondition], ...]


def _component(component: str, name: str, accounts: Accounts, runs: TemplateCondition) -> list[Template]:
    """Return the ClusterRole of a component or its Roles, bound to its service account."""
    needs = required_permissions.needs([component])
    inside: list[Node] = [required_permissions.rule(need) for need in needs if need.resource.namespaced]
    outside: list[Node] = [required_permissions.rule(need) for need in needs if not need.resource.namespaced]
    rules: list[Node] = [*outside, *(when(rule, ALL_NAMESPACES) for rule in inside)]
    wide = (runs, CLUSTER_WIDE) if outside else (runs, CLUSTER_WIDE, ALL_NAMESPACES)
    in_namespace = inside
    if component == QUEUE:
        own_namespace = when(required_permissions.rule(required_permissions.OWN_NAMESPACE), ROLES_ONLY)
        in_namespace = [*inside, required_permissions.rule(required_permissions.PUBLICATION), own_namespace]
    of_namespace = {"namespace": ITEM}
    return [
        when(account_role("ClusterRole", name, rules), *wide),
        when(account_binding("ClusterRoleBinding", "ClusterRole", name, accounts), *wide),
        when(Each("namespaces", account_role("Role", name, in_namespace, of_namespace)), runs),
        when(Each("namespaces", account_binding("RoleBinding", "Role", name, accounts, of_namespace)), runs),
    ]


def _cluster_events() -> list[Template]:
    """Return the Role to write Events about ClusterQueues, for a queue restricted to listed namespaces."""
    where = {"namespace": required_permissions.CLUSTER_EVENTS_NAMESPACE}
    role = account_role("Role", EVENTS_ROLE, [required_permissions.rule(required_permissions.CLUSTER_EVENTS)], where)
    binding = account_binding("RoleBinding", "Role", EVENTS_ROLE, ((object_names.MANAGER, QUEUE_RUNS),), where)
    return [when(each, QUEUE_RUNS, LISTED_NAMESPACES, CLUSTER_WIDE) for each in (role, binding)]


def _publication() -> list[Template]:
    """Return the Roles in kube-public, where the queue of all namespaces publishes its configuration for all users."""
    where = {"namespace": PUBLIC_NAMESPACE}
    writer = required_permissions.rule(required_permissions.PUBLICATION)
    reader = {**writer, "verbs": ["get"]}
    readers: Node = {"kind": "Group", "apiGroup": object_names.RBAC, "name": AUTHENTICATED}
    roles = [
        account_role("Role", PUBLISHER_ROLE, [writer], where),
        account_binding("RoleBinding", "Role", PUBLISHER_ROLE, ((object_names.MANAGER, QUEUE_RUNS),), where),
        account_role("Role", PUBLISHED_READER_ROLE, [reader], where),
        _binding(
            "RoleBinding",
            f"{PUBLISHED_READER_ROLE}binding",
            {"kind": "Role", "name": PUBLISHED_READER_ROLE},
            [readers],
            where,
        ),
    ]
    return [when(each, QUEUE_RUNS, ALL_NAMESPACES, CLUSTER_WIDE) for each in roles]


def _leader_election() -> list[Template]:
    """Return the Role for the Leases of leader election, in the namespace of the installation."""
    own = {"namespace": NAMESPACE}
    accounts = ((object_names.MANAGER, QUEUE_RUNS), (object_names.JOB_CONTROLLER, OWN_DEPLOYMENT))
    return [
        account_role("Role", LEADER_ROLE, [required_permissions.rule(LEADER)], own),
        account_binding("RoleBinding", "Role", LEADER_ROLE, accounts, own),
    ]


def _delegated_auth() -> list[Template]:
    """Return the bindings by which metrics and the visibility API may ask the API server who makes a request, and
    whether that is allowed. The visibility API also reads which certificate the API server presents.

    A Job controller of listed namespaces gets no cluster-wide right unless its metrics are to be read.
    """
    delegator = _bound(
        "ClusterRoleBinding",
        "kueue-auth-delegator",
        {"kind": "ClusterRole", "name": "system:auth-delegator"},
        ((object_names.MANAGER, QUEUE_RUNS), (object_names.JOB_CONTROLLER, OWN_DEPLOYMENT)),
    )
    reader = _bound(
        "RoleBinding",
        "kueue-visibility-server-auth-reader",
        {"kind": "Role", "name": "extension-apiserver-authentication-reader"},
        ((object_names.MANAGER, QUEUE_RUNS),),
        {"namespace": "kube-system"},
    )
    queue_of_listed_namespaces = when(delegator, LISTED_NAMESPACES, QUEUE_RUNS, CLUSTER_WIDE)
    only_jobs = (LISTED_NAMESPACES, TemplateCondition("components", ("JobController",)), CLUSTER_WIDE)
    return [
        when(delegator, ALL_NAMESPACES, CLUSTER_WIDE),
        queue_of_listed_namespaces,
        when(delegator, *only_jobs, TemplateCondition("monitoring.authorizeReaders")),
        when(reader, QUEUE_RUNS, *VISIBLE),
    ]


def _metrics_reader() -> Template:
    """Return the ClusterRole with which Prometheus may read /metrics."""
    rule: Node = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    return when(account_role("ClusterRole", "kueue-metrics-reader", [rule]), CLUSTER_WIDE)


def account_role(kind: str, name: str, rules: list[Node], where: Mapping[str, Node] | None = None) -> Template:
    """Return a Role or ClusterRole. `where`: the namespace, as metadata."""
    return {
        "apiVersion": f"{object_names.RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name, **(where or {}), "labels": object_names.LABELS},
        "rules": rules,
    }


def account_binding(
    kind: str, role_kind: str, role: str, accounts: Accounts, where: Mapping[str, Node] | None = None
) -> Template:
    """Return the binding of a role to service accounts, each under its condition."""
    return _bound(kind, f"{role}binding", {"kind": role_kind, "name": role}, accounts, where)


def _bound(
    kind: str, name: str, role: Mapping[str, str], accounts: Accounts, where: Mapping[str, Node] | None = None
) -> Template:
    subjects: list[Node] = [
        When((runs,), {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}) for account, runs in accounts
    ]
    return _binding(kind, name, role, subjects, where)


def _binding(
    kind: str, name: str, role: Mapping[str, str], subjects: list[Node], where: Mapping[str, Node] | None
) -> Template:
    return {
        "apiVersion": f"{object_names.RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name, **(where or {}), "labels": object_names.LABELS},
        "roleRef": {"apiGroup": object_names.RBAC, **role},
        "subjects": subjects,
    }
