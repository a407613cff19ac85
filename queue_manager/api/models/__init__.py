"""The kinds of kueue.x-k8s.io/v1beta2 as pydantic models: the source of the CRDs and of `kubectl explain`.

Controllers decode into `queue_manager.api.types` instead; the models describe exactly, and with every field, what an
API server accepts. Their docstrings are the descriptions in the CRDs. The package `v1beta1` has the kinds that differ
in that version.
"""

from queue_manager.api.models.admission_check import AdmissionCheck
from queue_manager.api.models.base import ApiModel, CustomKind, PrinterColumn
from queue_manager.api.models.cluster_queue import ClusterQueue
from queue_manager.api.models.cohort import Cohort
from queue_manager.api.models.local_queue import LocalQueue
from queue_manager.api.models.resource_flavor import ResourceFlavor
from queue_manager.api.models.workload import Workload
from queue_manager.api.models.workload_priority_class import WorkloadPriorityClass

KINDS: tuple[type[CustomKind], ...] = (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
)

__all__ = [
    "KINDS",
    "AdmissionCheck",
    "ApiModel",
    "ClusterQueue",
    "Cohort",
    "CustomKind",
    "LocalQueue",
    "PrinterColumn",
    "ResourceFlavor",
    "Workload",
    "WorkloadPriorityClass",
]
