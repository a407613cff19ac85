"""What an admin chooses about the admission policies: which of them are installed, where they apply, who is exempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from job_controller.json_tree import Json
from queue_manager.api.component_names import NAMESPACE, service_account

BREAK_GLASS_GROUP = "sluice:break-glass"
KUBE_CONTROLLER_MANAGER = "system:kube-controller-manager"  # its user unless --use-service-account-credentials is set


class PolicyName(StrEnum):
    """The names by which policies are selected; the API objects have the prefix `sluice-`."""

    SUSPEND_ON_CREATE = "suspend-on-create"
    MANAGED_BY = "managed-by"
    KNOWN_MANAGER = "known-manager"
    QUEUE_NAME = "queue-name"
    QUEUE_NAME_KEPT = "queue-name-kept"
    PRIORITY_CLASS = "priority-class"
    PRIORITY_CLASS_USE = "priority-class-use"
    UNSUSPEND = "unsuspend"
    JOB_STATUS = "job-status"
    POD_TRACKING = "pod-tracking"
    WORKLOAD_ADMISSION = "workload-admission"


OFF_BY_DEFAULT: Mapping[PolicyName, str] = {
    PolicyName.MANAGED_BY: "it gives all new Jobs in queues to Sluice's Job controller, which the field cannot undo "
    "later",
    PolicyName.PRIORITY_CLASS_USE: "in Kueue everyone may use every WorkloadPriorityClass",
}
DEFAULT = frozenset(PolicyName) - frozenset(OFF_BY_DEFAULT)


BUILT_IN_JOB_CONTROLLERS = (service_account("kube-system", "job-controller"), KUBE_CONTROLLER_MANAGER)
BUILT_IN_CRON_CONTROLLERS = (service_account("kube-system", "cronjob-controller"), KUBE_CONTROLLER_MANAGER)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """The choices of an installation.

    policies                 those that are installed
    queue_accounts           user names of the queue's controllers, which unsuspend Jobs and admit Workloads
    job_controllers          user names of Job controllers, which write the status of Jobs and the finalizers of pods;
                             those of kube-controller-manager are always among them
    break_glass_group        members may do what the policies refuse, and the audit log says so; "": no group may
    namespace                that of the installation: neither there nor in kube-system a policy applies
    namespaces               only these, for an installation that manages only them; empty: all
    namespace_selector       managedJobsNamespaceSelector of the configuration
    manage_all               manageJobsWithoutQueueName of the configuration
    default_class            class that everyone may use, because a Job without a class gets it
    mutating_version         version of admissionregistration.k8s.io that serves MutatingAdmissionPolicy: v1 since
                             Kubernetes 1.36; v1beta1 in 1.34 and 1.35, where it must be enabled; "" if it is not served
    """

    queue_accounts: tuple[str, ...]
    job_controllers: tuple[str, ...]
    policies: frozenset[PolicyName] = DEFAULT
    break_glass_group: str = BREAK_GLASS_GROUP
    namespace: str = NAMESPACE
    namespaces: tuple[str, ...] = ()
    namespace_selector: Json = field(default_factory=dict)
    manage_all: bool = False
    default_class: str = "default"
    mutating_version: str = "v1"
