"""The webhooks of Sluice: names and paths are Kueue's, for which dashboards, alerts and NetworkPolicies were written.

There is one for each phase and kind that has rules (`queue_admission.RULES`, and those of Jobs and priority classes). A
Cohort, LocalQueue, AdmissionCheck or WorkloadPriorityClass has no defaults beyond its schema, so it has no mutating
webhook. Kueue has none for WorkloadPriorityClasses.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, WORKLOAD_PRIORITY_CLASSES, Resource
from queue_manager.api.queue_admission import RULES

MUTATING, VALIDATING = "kueue-mutating-webhook-configuration", "kueue-validating-webhook-configuration"
PORT = 9443

Phase = Literal["mutate", "validate"]
Operation = Literal["CREATE", "UPDATE"]


class WebhookRule(NamedTuple):
    """What an API server asks, and about which writes."""

    phase: Phase
    resource: Resource
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    status: bool = False  # also about writes to /status

    @property
    def name(self) -> str:
        """The name in messages, e.g. vjob.kb.io."""
        return f"{self.phase[0]}{self.resource.kind.lower()}.kb.io"

    @property
    def path(self) -> str:
        """The path of its requests, as controller-runtime names it: /validate-batch-v1-job."""
        group = self.resource.group.replace(".", "-")
        return f"/{self.phase}-{group}-{self.resource.version}-{self.resource.kind.lower()}"


WEBHOOKS: tuple[WebhookRule, ...] = (
    WebhookRule("mutate", JOBS, ("CREATE",)),
    *(
        # The defaults of a ClusterQueue are also needed on an update, those of a ResourceFlavor only on creation.
        WebhookRule(
            "mutate", resource, ("CREATE", "UPDATE") if rules.status or resource == CLUSTER_QUEUES else ("CREATE",)
        )._replace(status=rules.status)
        for resource, rules in RULES.items()
        if rules.prepare is not None
    ),
    WebhookRule("validate", JOBS),
    *(WebhookRule("validate", resource, status=rules.status) for resource, rules in RULES.items()),
    WebhookRule("validate", WORKLOAD_PRIORITY_CLASSES),
)
