"""The rules that need no server, as objects of admissionregistration.k8s.io that an API server evaluates itself.

An API server that has these policies applies them while no manager runs, and no outage of a manager stops a request.
They stand beside the webhooks, which know more (LocalQueues, WorkloadPriorityClasses, configuration), and before the
controllers, which undo what neither has refused: BEHAVIOUR.md#q79-what-guards-what lists who holds which rule.

    objects = admission_policies(PolicySettings(queue_accounts=("system:serviceaccount:kueue-system:queue",), ...))

`objects` are manifests for `kubectl apply --server-side`: policies first, each followed by its binding. They contain
everything that the settings say; nothing is read from the cluster, except the permissions of a request's user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from job_controller.json_tree import Json
from queue_manager.configuration import KueueConfig
from queue_manager.installation import controller_only_policies, job_policies
from queue_manager.installation.policy_settings import PolicyName, PolicySettings
from queue_manager.installation.policy_types import Mutating, Validating

Rule = Callable[[PolicySettings], Mutating | Validating]

# The name by which it is selected, what its object's name adds to that, and the rule.
RULES: tuple[tuple[PolicyName, str, Rule], ...] = (
    (PolicyName.SUSPEND_ON_CREATE, "", job_policies.suspend_on_create),
    (PolicyName.MANAGED_BY, "", job_policies.managed_by),
    (PolicyName.KNOWN_MANAGER, "", job_policies.known_manager),
    (PolicyName.QUEUE_NAME, "", job_policies.queue_name),
    (PolicyName.QUEUE_NAME_KEPT, "", job_policies.queue_name_kept),
    (PolicyName.PRIORITY_CLASS, "", job_policies.priority_class),
    (PolicyName.PRIORITY_CLASS_USE, "", job_policies.priority_class_use),
    (PolicyName.PRIORITY_CLASS_USE, "-in-cron-jobs", job_policies.priority_class_use_in_cron_jobs),
    (PolicyName.UNSUSPEND, "", job_policies.unsuspend),
    (PolicyName.JOB_STATUS, "", controller_only_policies.job_status),
    (PolicyName.POD_TRACKING, "", controller_only_policies.pod_tracking),
    (PolicyName.WORKLOAD_ADMISSION, "", controller_only_policies.workload_admission),
)


def admission_policies(settings: PolicySettings) -> list[Json]:
    """The selected policies, each followed by its binding, named `sluice-` and its own name."""
    return [
        tree
        for policy, suffix, rule in RULES
        if policy in settings.policies
        for tree in rule(settings).objects(f"sluice-{policy}{suffix}", settings)
    ]


def configured(config: KueueConfig, settings: PolicySettings) -> PolicySettings:
    """The settings with what the configuration says about Jobs: which are managed, and by which Job controller.

    A Job controller that runs all Jobs (`jobController.manage: All`) needs no name in spec.managedBy.
    """
    needless = {PolicyName.MANAGED_BY} if config.job_controller.manage == "All" else set()
    return replace(
        settings,
        policies=settings.policies - needless,
        namespace=config.namespace,
        namespace_selector=config.managed_jobs_namespace_selector.tree(),
        manage_all=config.manage_jobs_without_queue_name,
    )
