"""The load of Kueue's own scheduler benchmark: queues, and classes of Workloads that arrive at intervals.

Kueue: test/performance/scheduler/configs/baseline/generator.yaml. All amounts are cpus, all times seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from job_controller.json_tree import Json
from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, RESOURCE_FLAVORS, Resource

FLAVOR = "default"


@dataclass(frozen=True)
class WorkloadClass:
    """In each queue `count` Workloads are created, one after each interval."""

    name: str
    count: int
    cpu: int
    run_seconds: float
    priority: int
    interval_seconds: float

    @property
    def work(self) -> float:
        """Cpu seconds of all Workloads of this class in one queue."""
        return self.count * self.cpu * self.run_seconds

    @property
    def earliest_end(self) -> float:
        """When the last one ends that is admitted as soon as it is created."""
        return self.count * self.interval_seconds + self.run_seconds


CLASSES = (
    WorkloadClass("small", 350, cpu=1, run_seconds=0.2, priority=50, interval_seconds=0.1),
    WorkloadClass("medium", 100, cpu=5, run_seconds=0.5, priority=100, interval_seconds=0.5),
    WorkloadClass("large", 50, cpu=20, run_seconds=1.0, priority=200, interval_seconds=1.2),
)


@dataclass(frozen=True)
class Queue:
    """A ClusterQueue; its namespace and LocalQueue have the same name."""

    name: str
    cohort: str


@dataclass(frozen=True)
class Shape:
    prefix: str = "queue"  # of the names of queues
    cohorts: int = 5
    queues_per_cohort: int = 6
    nominal: int = 20
    borrowing_limit: int = 100
    classes: tuple[WorkloadClass, ...] = CLASSES

    @property
    def queues(self) -> list[Queue]:
        return [
            Queue(f"{self.prefix}-{cohort}-{number}", f"cohort-{cohort}")
            for cohort in range(self.cohorts)
            for number in range(self.queues_per_cohort)
        ]

    @property
    def total(self) -> int:
        """Workloads in all queues."""
        return len(self.queues) * sum(c.count for c in self.classes)

    @property
    def quota_of_cohort(self) -> int:
        return self.queues_per_cohort * self.nominal

    @property
    def least_seconds(self) -> float:
        """No scheduler can be faster: all quota is in use all the time, or the last Workload runs as it is created."""
        return max(sum(c.work for c in self.classes) / self.nominal, *(c.earliest_end for c in self.classes))

    def scaled(self, scale: float, duration_scale: float, cohorts: int) -> Shape:
        """Fewer Workloads that arrive at the same rate (`scale`); all times stretched by `duration_scale`."""
        classes = tuple(
            replace(
                c,
                count=max(1, round(c.count * scale)),
                run_seconds=c.run_seconds * duration_scale,
                interval_seconds=c.interval_seconds * duration_scale,
            )
            for c in self.classes
        )
        return replace(self, cohorts=cohorts, classes=classes)

    def manifests(self) -> list[tuple[Resource, str, Json]]:
        """(resource, namespace, object) of everything but the Workloads, in the order in which to create them."""
        found: list[tuple[Resource, str, Json]] = [(RESOURCE_FLAVORS, "", {"metadata": {"name": FLAVOR}})]
        for queue in self.queues:
            meta = {"metadata": {"name": queue.name}}
            found += [
                (NAMESPACES, "", meta),
                (CLUSTER_QUEUES, "", {**meta, "spec": self._cluster_queue(queue)}),
                (LOCAL_QUEUES, queue.name, {**meta, "spec": {"clusterQueue": queue.name}}),
            ]
        return found

    def _cluster_queue(self, queue: Queue) -> Json:
        quota = {"name": "cpu", "nominalQuota": self.nominal, "borrowingLimit": self.borrowing_limit}
        group = {"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": [quota]}]}
        return {
            "cohortName": queue.cohort,
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        }


def workload(kind: WorkloadClass, number: int, queue: str) -> Json:
    """A Workload without a Job."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": str(kind.cpu)}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    spec = {
        "queueName": queue,
        "priority": kind.priority,
        "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}],
    }
    return {"metadata": {"name": f"{kind.name}-{number}"}, "spec": spec}


def admitted_status(kind: WorkloadClass, queue: str, now: str) -> Json:
    """The status that a queue writes to admit such a Workload."""
    assignment = {
        "name": "main",
        "count": 1,
        "flavors": {"cpu": FLAVOR},
        "resourceUsage": {"cpu": str(kind.cpu)},
    }
    conditions = [
        {
            "type": name,
            "status": "True",
            "reason": name,
            "message": f"Quota reserved in ClusterQueue {queue}",
            "lastTransitionTime": now,
            "observedGeneration": 1,
        }
        for name in ("QuotaReserved", "Admitted")
    ]
    return {"conditions": conditions, "admission": {"clusterQueue": queue, "podSetAssignments": [assignment]}}
