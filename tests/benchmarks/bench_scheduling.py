"""The scheduler's pure cores in memory, at the size of a large cluster: 1 000 ClusterQueues in 100 Cohorts, 4 deep.

Nothing is written and no API server runs. Times are CPU seconds of one process. Each measurement has a process of its
own, because memory is measured too. Workloads are decoded from JSON as a watch delivers them. The anchor is the loop
over integers in the first line of `make bench`.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from time import process_time
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from job_controller.json_tree import Json
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.interning import sharer
from queue_manager.engine.process_tuning import tune_garbage_collector
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.cycle import Admit, run_cycle
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.workload_info import info
from tests.process_figures import resident_bytes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUEUES, COHORTS = 1000, 100
TREE = 15  # Cohorts in each tree: 1 + 2 + 4 + 8, so 4 deep
RUNNING = 5  # Workloads of 1 cpu that fit into a ClusterQueue
ADMISSIONS = 20_000
CYCLES = 5
MILLION = 1_000_000
PRIORITIES = 3

Row = tuple[str, str, str]  # what, figure, aim


class Cluster:
    """The pure state of a manager, and how the manager changes it."""

    def __init__(self, cpu: int) -> None:
        self.state, self.queues = SchedulerState(), Queues()
        self.freed: dict[str, None] = {}  # ClusterQueues with quota released since the last cycle
        self.state.flavors["default"] = msgspec.convert({"metadata": {"name": "default"}}, ResourceFlavor)
        for number in range(COHORTS):
            place = number % TREE
            spec = {"parentName": f"cohort-{number - place + (place - 1) // 2}"} if place else {}
            self.state.set_cohort(msgspec.convert({"metadata": {"name": f"cohort-{number}"}, "spec": spec}, Cohort))
        for number in range(QUEUES):
            self.add_queue(number, f"cohort-{number % COHORTS}", cpu)

    def add_queue(self, number: int, cohort: str, cpu: int) -> None:
        queue = msgspec.convert(
            {"metadata": {"name": f"queue-{number}"}, "spec": queue_spec(cohort, cpu)}, ClusterQueue, strict=False
        )
        meta = {"name": "main", "namespace": f"team-{number}"}
        local = {"metadata": meta, "spec": {"clusterQueue": queue.metadata.name}}
        self.state.set_queue(queue)
        self.queues.set_cluster_queue(queue, NOW)
        self.queues.set_local_queue(msgspec.convert(local, LocalQueue), NOW)

    def cycle(self) -> tuple[list[Admit], int]:
        """One cycle: what was admitted, and how many heads there were."""
        self.queues.requeue_inadmissible(self.state.relatives_of_all(self.freed), NOW)
        self.freed.clear()
        heads = self.queues.heads(lambda name: self.state.inactive(name) is None, NOW)
        admitted = []
        for outcome in run_cycle(self.state, heads, NOW):
            if isinstance(outcome, Admit):
                self._assume(outcome)
                admitted.append(outcome)
            else:
                self.queues.refused(outcome)
        return admitted, len(heads)

    def _assume(self, decision: Admit) -> None:
        found = decision.info
        self.queues.remove(found.key)
        usage = decision.assignment.usage
        self.state.hold(Holding(found.uid, found.key, decision.cluster_queue, found.queue, usage, admitted=True))

    def release(self, uid: str) -> None:
        holding = self.state.release(uid)
        assert holding is not None
        self.freed[holding.cluster_queue] = None


def queue_spec(cohort: str, cpu: int) -> Json:
    quota = {"name": "cpu", "nominalQuota": str(cpu)}
    return {
        "cohortName": cohort,
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}],
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    }


def body(number: int, *, distinct: bool) -> bytes:
    """A Workload of a Job as the API server sends it."""
    job, uid = f"train-{number:07}", f"{number:08x}-1111-4111-8111-{number:012x}"
    cpu = f"{1000 + number}m" if distinct else "1"
    container = {
        "name": "main",
        "image": "registry.example/team/train:2024-05",
        "command": ["python", "train.py"],
        "args": ["--run", job if distinct else "all"],
        "resources": {"requests": {"cpu": cpu}},
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    reserved = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "WaitingForQuota",
        "message": "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    tree = {
        "metadata": {
            "name": f"job-{job}-1a2b3",
            "namespace": f"team-{number % QUEUES}",
            "uid": uid,
            "resourceVersion": str(number + 1),
            "generation": 1,
            "creationTimestamp": f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z",
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "labels": {"kueue.x-k8s.io/job-uid": uid},
            "ownerReferences": [owner],
        },
        "spec": {
            "queueName": "main",
            "priority": number // QUEUES % PRIORITIES,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {"conditions": [reserved]},
    }
    return msgspec.json.encode(tree)


def workloads(count: int, *, distinct: bool = False) -> Iterable[Workload]:
    decoder = msgspec.json.Decoder(Workload)
    share = sharer(WORKLOADS, Workload)
    for number in range(count):
        workload = decoder.decode(body(number, distinct=distinct))
        share(workload, None)
        yield workload


# --- measurements ------------------------------------------------------------------------------------------


def admissions() -> list[Row]:
    """Every Workload is read, enqueued, admitted, and ends as soon as the next cycle has run."""
    cluster = Cluster(RUNNING)
    found = list(workloads(ADMISSIONS))
    spent = dict.fromkeys(("read", "enqueue", "wake, cycle, assume", "release"), 0.0)
    started = process_time()
    infos = [info(workload) for workload in found]
    spent["read"] = process_time() - started
    started = process_time()
    for each in infos:
        cluster.queues.put(each, NOW)
    spent["enqueue"] = process_time() - started
    running: list[Admit] = []
    done = 0
    while done < ADMISSIONS:
        started = process_time()
        admitted, _ = cluster.cycle()
        spent["wake, cycle, assume"] += process_time() - started
        done += len(admitted)
        started = process_time()
        for decision in running:
            cluster.release(decision.info.uid)
        spent["release"] += process_time() - started
        running = admitted
    rows = [(f"  {name}", f"{seconds / ADMISSIONS * 1e6:.0f} µs", "") for name, seconds in spent.items()]
    return [
        ("admissions, from the watch to the end", f"{ADMISSIONS / sum(spent.values()):,.0f} /s", ">= 5,000 /s"),
        *rows,
    ]


def crowd(count: int, distinct: bool, cached: bool) -> list[Row]:
    """The memory of pending Workloads, and what a cycle costs while they wait."""
    cluster = Cluster(RUNNING)
    cache: Cache[Workload] = Cache()
    gc.collect()
    before = resident_bytes(os.getpid())
    for workload in workloads(count, distinct=distinct):
        if cached:
            cache.observe(workload)
        cluster.queues.put(info(workload), NOW)
    used = resident_bytes(os.getpid()) - before
    kind = ("all different" if distinct else "of 3,000 shapes") + (", with the cache of Workloads" if cached else "")
    aim = "< 2 GB" if count == MILLION and not cached else ""
    rows = [(f"memory of {count:,} pending, {kind}", f"{used / 1e9:.2f} GB, {used / count:,.0f} B each", aim)]
    return rows if distinct or cached else [*rows, *_cycles(cluster, count)]


def _cycles(cluster: Cluster, count: int) -> list[Row]:
    started, heads, admitted = process_time(), 0, []
    for _ in range(CYCLES):
        some, tried = cluster.cycle()
        admitted += some
        heads += tried
    per_head = (process_time() - started) / max(1, heads)
    while cluster.cycle()[1]:
        pass
    started = process_time()
    for decision in admitted[:CYCLES]:
        cluster.release(decision.info.uid)
        cluster.cycle()
    per_release = (process_time() - started) / CYCLES
    return [
        (f"  a cycle of {QUEUES:,} heads, of {count:,} pending", f"{per_head * 1e6:.0f} µs a head", "independent"),
        (f"  freed quota, to the end of the next cycle, of {count:,}", f"{per_release * 1e3:.1f} ms", "independent"),
    ]


MEASUREMENTS: tuple[tuple[Callable[..., list[Row]], tuple[Any, ...]], ...] = (
    (admissions, ()),
    (crowd, (10_000, False, False)),
    (crowd, (100_000, False, False)),
    (crowd, (MILLION, False, False)),
    (crowd, (MILLION, True, False)),
    (crowd, (100_000, False, True)),
    (crowd, (100_000, True, True)),
)


def main() -> None:
    table = Table("what", "figure", "aim", title=f"{QUEUES:,} ClusterQueues in {COHORTS} Cohorts")
    context = multiprocessing.get_context("spawn")
    for measure, arguments in MEASUREMENTS:
        with ProcessPoolExecutor(1, mp_context=context, initializer=tune_garbage_collector) as process:
            for row in process.submit(measure, *arguments).result():
                print(f"{row[0]}: {row[1]}", flush=True)
                table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
