"""The kinds of kueue.x-k8s.io/v1beta1, as far as they differ from v1beta2.

Cohort, ResourceFlavor and WorkloadPriorityClass are the same in both versions. Bounds are those of v1beta2 where
Kueue's v1beta1 has lower ones: what was written in v1beta2 can be written back in v1beta1.
"""

from collections.abc import Mapping

from queue_manager.api.models.base import CustomKind
from queue_manager.api.models.v1beta1.admission_check import AdmissionCheck
from queue_manager.api.models.v1beta1.cluster_queue import ClusterQueue
from queue_manager.api.models.v1beta1.local_queue import LocalQueue
from queue_manager.api.models.v1beta1.workload import Workload

DIFFERENT: Mapping[str, type[CustomKind]] = {
    kind.__name__: kind for kind in (AdmissionCheck, ClusterQueue, LocalQueue, Workload)
}
"""By kind."""

__all__ = ["DIFFERENT", "AdmissionCheck", "ClusterQueue", "LocalQueue", "Workload"]
