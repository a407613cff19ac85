"""The webhook configurations of an installation: about which writes an API server asks the manager.

While no manager answers, a write in the scope of a webhook with failurePolicy Fail is refused. So the scopes are as
narrow as the rules allow:

| webhook | asked about | without an answer |
|---|---|---|
| mjob.kb.io | creation of a Job that names a queue (with manageJobsWithoutQueueName: of any Job) | refused |
| mjob-default.kb.io | creation of any other Job, for the LocalQueue "default" of its namespace | proceeds, unqueued |
| vjob.kb.io | writes to a Job with labels or annotations of the queue, before or after | refused |
| vworkloadpriorityclass.kb.io | writes to a WorkloadPriorityClass with an annotation for its Jobs | refused |
| of the queue's other kinds | creation and updates; of Workloads also their status | refused |

- *Jobs without a queue name.* Whether there is a default LocalQueue is not known to a selector, so the API server asks
  about each Job. It must not depend on the answer: an outage would stop every Job of the cluster, also without
  queues. A Job that is created in those seconds in a namespace with a default LocalQueue runs outside of the
  queue, as it would with a LocalQueue that is created a second later. `strict_default_queue` refuses such Jobs instead.
- *Never*: namespaces kube-system and the manager's own, so that an outage cannot prevent its own end; objects that are
  being deleted, so that finalizers can be removed; writes of the manager itself, which follow the rules and would only
  become slower; writes to the status of Jobs.
- *Break glass*: about Jobs, requests of the break-glass group are left out too, so that its members can start a Job
  during an outage. Afterwards the manager treats the Job like one that was written without webhooks.
- *timeoutSeconds*: an answer takes milliseconds. A manager that hangs delays writes by this time; a Job that is not the
  queue's business by one second.

Without webhooks the controllers still suspend a queued Job that was created unsuspended.
BEHAVIOUR.md#q71-scope-of-the-webhooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from job_controller.json_tree import Json
from queue_manager.api.api_resources import (
    JOBS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
)
from queue_manager.api.component_names import MANAGER, WEBHOOK_SERVICE, service_account
from queue_manager.api.keys import MIN_RUNTIME, QUEUE_NAME
from queue_manager.api.webhook_table import MUTATING, VALIDATING, WEBHOOKS, Phase, WebhookRule
from queue_manager.installation import cel_texts
from queue_manager.installation.policy_settings import BREAK_GLASS_GROUP

TIMEOUT_SECONDS, UNRELATED_TIMEOUT_SECONDS = 5, 1
KEY_PREFIXES = ("kueue.x-k8s.io/", "sluice/")

# Conditions in CEL. `object` and `oldObject` are null where a write has none.
NAMES_QUEUE = (
    f"has(object.metadata.labels) && '{QUEUE_NAME}' in object.metadata.labels "
    f"&& object.metadata.labels['{QUEUE_NAME}'] != ''"
)
_IS_OURS = " || ".join(f"key.startsWith('{prefix}')" for prefix in KEY_PREFIXES)
HAS_KEYS = " || ".join(
    f"({obj} != null && has({obj}.metadata.{field}) && {obj}.metadata.{field}.exists(key, {_IS_OURS}))"
    for obj in ("object", "oldObject")
    for field in ("labels", "annotations")
)
HAS_CLASS_RULE = f"has(object.metadata.annotations) && '{MIN_RUNTIME}' in object.metadata.annotations"
NOT_DELETED = "!has(object.metadata.deletionTimestamp)"
NOT_BREAKING_GLASS = "not-by-the-break-glass-group"  # name of a condition


class WebhookScope(NamedTuple):
    """What an installation decides about the webhooks."""

    namespace: str
    service: str = WEBHOOK_SERVICE
    account: str = MANAGER  # the service account of the manager
    manage_all: bool = False  # manageJobsWithoutQueueName
    managed_namespaces: Json = None  # managedJobsNamespaceSelector; None: all but the two that are always left out
    listed_namespaces: tuple[str, ...] = ()  # of an installation that manages only these; empty: all
    strict_default_queue: bool = False
    break_glass_group: str = BREAK_GLASS_GROUP  # whose writes of Jobs are not asked about; empty: no group
    labels: Mapping[str, str] = {}


def webhook_configurations(scope: WebhookScope) -> list[Json]:
    """Both configurations, without a caBundle, which the manager writes."""
    return [
        _configuration(MUTATING_WEBHOOKS, MUTATING, "mutate", scope),
        _configuration(VALIDATING_WEBHOOKS, VALIDATING, "validate", scope),
    ]


def _configuration(resource: Resource, name: str, phase: Phase, scope: WebhookScope) -> Json:
    labels = {"labels": dict(scope.labels)} if scope.labels else {}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **labels},
        "webhooks": [hook for webhook in WEBHOOKS if webhook.phase == phase for hook in _hooks(webhook, scope)],
    }


def _hooks(webhook: WebhookRule, scope: WebhookScope) -> Iterator[Json]:
    if webhook.resource == WORKLOAD_PRIORITY_CLASSES:
        yield _hook(webhook, scope, has_rule=HAS_CLASS_RULE)
    elif webhook.resource != JOBS or scope.manage_all:
        yield _hook(webhook, scope)
    elif webhook.phase == "validate":
        yield _hook(webhook, scope, has_keys=HAS_KEYS)
    else:
        yield _hook(webhook, scope, names_queue=NAMES_QUEUE)
        hook = _hook(webhook, scope, names_no_queue=f"!({NAMES_QUEUE})")
        policy = "Fail" if scope.strict_default_queue else "Ignore"
        timeout = {"timeoutSeconds": UNRELATED_TIMEOUT_SECONDS, "failurePolicy": policy}
        yield {**hook, **timeout, "name": webhook.name.replace(".", "-default.", 1)}


def _hook(webhook: WebhookRule, scope: WebhookScope, **conditions: str) -> Json:
    resource = webhook.resource
    plurals = [resource.plural, *([f"{resource.plural}/status"] if webhook.status else [])]
    account = service_account(scope.namespace, scope.account)
    conditions |= {"not_deleted": NOT_DELETED, "not_by_the_manager": f"request.userInfo.username != '{account}'"}
    if resource == JOBS and scope.break_glass_group:
        conditions[NOT_BREAKING_GLASS] = f"!({cel_texts.text(scope.break_glass_group)} in {cel_texts.GROUPS})"
    return {
        "name": webhook.name,
        "clientConfig": {"service": {"namespace": scope.namespace, "name": scope.service, "path": webhook.path}},
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "operations": list(webhook.operations),
                "resources": plurals,
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
        ],
        **({"namespaceSelector": _namespaces(webhook, scope)} if resource.namespaced else {}),
        "matchConditions": [
            {"name": name.replace("_", "-"), "expression": expression} for name, expression in conditions.items()
        ],
        "matchPolicy": "Equivalent",  # a write in another version of the kind is converted
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }


def _namespaces(webhook: WebhookRule, scope: WebhookScope) -> Json:
    """Return the namespaceSelector of a webhook: managed namespaces for Jobs, else all that the manager watches."""
    chosen = (scope.managed_namespaces or {}) if webhook.resource == JOBS else {}
    values = ["kube-system", scope.namespace]
    outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": values}
    listed = {"key": outside["key"], "operator": "In", "values": list(scope.listed_namespaces)}
    further = [expression for expression in chosen.get("matchExpressions") or () if expression != outside]
    return {**chosen, "matchExpressions": [outside, *([listed] if scope.listed_namespaces else []), *further]}
