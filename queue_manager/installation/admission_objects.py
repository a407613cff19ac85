"""The admission webhooks and policies of an installation, and what the manager needs to serve the webhooks.

`webhook_configurations` and `admission_policies` return objects for settings that are known. Here they are made with
placeholders for what an admin chooses: texts in the place of names, and a tree for each value of a choice that changes
the form of the objects. `filled` and `either` make one template of them. Which Jobs are managed is read from the
KueueConfig, which is a setting too, so webhooks and policies apply to the Jobs that the manager manages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic.alias_generators import to_camel

from job_controller.json_tree import Json
from queue_manager.api.component_names import service_account
from queue_manager.installation import object_names
from queue_manager.installation.admission_policies import admission_policies
from queue_manager.installation.certificate_objects import MANAGED, injected, trusted
from queue_manager.installation.policy_settings import PolicyName, PolicySettings
from queue_manager.installation.rbac_objects import (
    CLUSTER_WIDE,
    LISTED_NAMESPACES,
    QUEUE_RUNS,
    WEBHOOKS,
    account_binding,
    account_role,
)
from queue_manager.installation.template import (
    CONFIG_FIELDS,
    ITEM,
    NAMESPACE,
    Choice,
    Each,
    Joined,
    Node,
    Setting,
    Template,
    TemplateCondition,
    Text,
    either,
    when,
)
from queue_manager.installation.webhook_configurations import (
    NOT_BREAKING_GLASS,
    WebhookScope,
    webhook_configurations,
)
from queue_manager.operator import required_permissions
from queue_manager.operator.webhooks.webhook_permissions import CA_INJECTION, certificate_secret

PLACEHOLDER = "namespace-of-the-installation"
GROUP_PLACEHOLDER = "group-of-the-installation"
ACCOUNTS_PLACEHOLDER = "accounts-of-the-installation"
VERSION_PLACEHOLDER = "version-of-the-installation"
LISTED_PLACEHOLDER = "listed-namespaces-of-the-installation"
MATCH_LABELS = f"{CONFIG_FIELDS}managedJobsNamespaceSelector.matchLabels"
MATCH_EXPRESSIONS = f"{CONFIG_FIELDS}managedJobsNamespaceSelector.matchExpressions"
MANAGED_NAMESPACES: Json = {"matchLabels": MATCH_LABELS, "matchExpressions": [MATCH_EXPRESSIONS]}

MANAGES_ALL = TemplateCondition(f"{CONFIG_FIELDS}manageJobsWithoutQueueName")
MANAGES_SOME = replace(MANAGES_ALL, negated=True)
MUTATING_VERSION = "admissionPolicies.mutatingPolicyVersion"
GROUP, ACCOUNTS = "admissionPolicies.breakGlassGroup", "admissionPolicies.queueAccounts"
SERVED = (QUEUE_RUNS, *WEBHOOKS)
POLICIES = (QUEUE_RUNS, TemplateCondition("admissionPolicies.enabled"), CLUSTER_WIDE)
ROLE = "kueue-webhook-role"

_IN_TEXT: dict[str, Setting | Joined] = {
    f', "{ACCOUNTS_PLACEHOLDER}"': Joined(ACCOUNTS, ', "', '"'),
    f", {ACCOUNTS_PLACEHOLDER}": Joined(ACCOUNTS, ", ", ""),
    GROUP_PLACEHOLDER: Setting(GROUP),
    VERSION_PLACEHOLDER: Setting(MUTATING_VERSION),
    PLACEHOLDER: NAMESPACE,
}
_PLACEHOLDERS = re.compile(f"({'|'.join(map(re.escape, _IN_TEXT))})")


def admission_templates() -> list[Template]:
    """Return the configurations of the webhooks, the rights of the manager for them, and the policies."""
    return [
        *(when(template, *SERVED, MANAGED) for template in _rights()),
        *(when(template, *SERVED) for template in _webhooks()),
        *(when(template, *POLICIES) for template in _policies()),
    ]


def if_served(then: Node, otherwise: Node) -> Node:
    """Return `then` if the manager serves webhooks and writes its CA into the caBundles, else `otherwise`."""
    node = then
    for condition in SERVED:
        node = Choice(condition, node, otherwise)
    return node


def filled(tree: Json) -> Node:
    """Return the tree with each placeholder replaced by its setting."""
    if isinstance(tree, dict):
        return {key: _entry(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_list_item(each) for each in tree]
    if not isinstance(tree, str) or not _PLACEHOLDERS.search(tree):
        leaf: Node = tree
        return leaf
    return NAMESPACE if tree == PLACEHOLDER else Text(*_parts(tree))


def _list_item(item: Json) -> Node:
    if item == MATCH_EXPRESSIONS:
        return Each(item, ITEM)
    if isinstance(item, dict) and item.get("values") == [LISTED_PLACEHOLDER]:
        return when({**item, "values": Setting("namespaces")}, LISTED_NAMESPACES)
    if isinstance(item, dict) and item.get("name") == NOT_BREAKING_GLASS:
        return when(filled(item), TemplateCondition(GROUP))
    return filled(item)


def _entry(value: Json) -> Node:
    return when(Setting(value), TemplateCondition(value)) if value == MATCH_LABELS else filled(value)


def _parts(text: str) -> Iterator[str | Setting | Joined]:
    for part in _PLACEHOLDERS.split(text):
        if part:
            yield _IN_TEXT.get(part, part)


def _rights() -> list[Template]:
    accounts = ((object_names.MANAGER, QUEUE_RUNS),)
    own = {"namespace": NAMESPACE}
    secret: list[Node] = [required_permissions.rule(certificate_secret(object_names.WEBHOOK_SECRET))]
    bundles: list[Node] = [required_permissions.rule(need) for need in CA_INJECTION]
    return [
        account_role("ClusterRole", ROLE, bundles),
        account_binding("ClusterRoleBinding", "ClusterRole", ROLE, accounts),
        account_role("Role", ROLE, secret, own),
        account_binding("RoleBinding", "Role", ROLE, accounts, own),
    ]


def _webhooks() -> Iterator[Template]:
    """The configurations, whose webhooks for Jobs depend on whether Jobs without a queue name are managed."""
    scope = WebhookScope(
        PLACEHOLDER,
        managed_namespaces=MANAGED_NAMESPACES,
        listed_namespaces=(LISTED_PLACEHOLDER,),
        break_glass_group=GROUP_PLACEHOLDER,
        labels=object_names.LABELS,
    )
    of_some, of_all = webhook_configurations(scope), webhook_configurations(scope._replace(manage_all=True))
    for some, all_ in zip(of_some, of_all, strict=True):
        hooks = [
            *(
                _hook(each) if each in all_["webhooks"] else when(_hook(each), MANAGES_SOME)
                for each in some["webhooks"]
            ),
            *(when(_hook(each), MANAGES_ALL) for each in all_["webhooks"] if each not in some["webhooks"]),
        ]
        yield {**some, "metadata": injected(some["metadata"]), "webhooks": hooks}


def _hook(hook: Json) -> Node:
    """Return a webhook with the configured failurePolicy and timeout; one with failurePolicy Ignore keeps it."""
    chosen = ("failurePolicy", "timeoutSeconds") if hook["failurePolicy"] == "Fail" else ()
    filled_in = {key: Setting(f"webhook.{key}") if key in chosen else _entry(value) for key, value in hook.items()}
    return {**filled_in, "clientConfig": trusted({"service": filled(hook["clientConfig"]["service"])})}


def _policies() -> Iterator[Template]:
    """Yield each policy under the setting that installs it. The Job controller's account is always exempt."""
    queue, job_controller = (
        service_account(PLACEHOLDER, name) for name in (object_names.MANAGER, object_names.JOB_CONTROLLER)
    )
    settings = PolicySettings(
        queue_accounts=(queue, ACCOUNTS_PLACEHOLDER),
        job_controllers=(queue, job_controller),
        namespace=PLACEHOLDER,
        namespaces=(LISTED_PLACEHOLDER,),
        namespace_selector=MANAGED_NAMESPACES,
        mutating_version=VERSION_PLACEHOLDER,
    )
    for policy in PolicyName:
        chosen = TemplateCondition(f"admissionPolicies.policies.{to_camel(policy.replace('-', '_'))}")
        for template in _policy(replace(settings, policies=frozenset({policy}))):
            is_mutating = str(template["kind"]).startswith("Mutating")
            yield when(template, chosen, *((TemplateCondition(MUTATING_VERSION),) if is_mutating else ()))


def _policy(settings: PolicySettings) -> Iterator[Mapping[str, Node]]:
    """The objects of one policy, whose form depends on whether a group is exempt and which Jobs are managed."""

    def trees(manage_all: bool, group: str) -> Sequence[Json]:
        return admission_policies(replace(settings, manage_all=manage_all, break_glass_group=group))

    of_all, of_some = (
        [
            either(TemplateCondition(GROUP), filled(with_group), filled(without))
            for with_group, without in zip(trees(manage_all, GROUP_PLACEHOLDER), trees(manage_all, ""), strict=True)
        ]
        for manage_all in (True, False)
    )
    for all_, some in zip(of_all, of_some, strict=True):
        tree = either(MANAGES_ALL, all_, some)
        assert isinstance(tree, dict)
        yield {**tree, "metadata": {**tree["metadata"], "labels": object_names.LABELS}}
