"""Time of one admission decision while many Workloads are pending.

The pending Workloads are all equal (one shape) or all different (a shape each). Measured per head: choosing it,
assigning flavors, removing it from the queue; then the cost of one change that requeues all inadmissible Workloads, and
of a release of one cpu, for which one of them at most is large enough, to the end of the cycles that follow.
"""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from time import perf_counter

import msgspec

from job_controller.model import Key
from queue_manager.api.types import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from queue_manager.queueing import outcomes
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.cycle import Admit, Refuse, run_cycle
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.workload_info import Info, info

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DECISIONS = 2000


def main() -> None:
    print(
        f"{'pending':>9} {'crowd':>10} {'admit/head':>12} {'refuse/head':>12} "
        f"{'enter':>10} {'wake all':>10} {'release':>10}"
    )
    for count in (1_000, 10_000, 100_000):
        for distinct in (False, True):
            admit, refuse, enter, wake = measure(count, distinct)
            released = release(count, distinct)
            crowd = "different" if distinct else "equal"
            print(
                f"{count:>9,} {crowd:>10} {admit * 1e6:>9.1f} µs {refuse * 1e6:>9.1f} µs "
                f"{enter * 1e6:>7.1f} µs {wake * 1e3:>7.1f} ms {released * 1e3:>7.1f} ms"
            )


def measure(count: int, distinct: bool) -> tuple[float, float, float, float]:
    infos = [_pending(i, distinct) for i in range(count)]
    state, queues = _cluster("1000000")
    started = perf_counter()
    for each in infos:
        queues.put(each, NOW)
    enter = (perf_counter() - started) / count
    admit = _admit(state, queues, min(DECISIONS, count))
    state, queues = _cluster("0")
    for each in infos:
        queues.put(each, NOW)
    started, refused = perf_counter(), 0
    while refused < DECISIONS and (heads := queues.heads(lambda _: True, NOW)):
        for outcome in run_cycle(state, heads, NOW):
            queues.refused(outcome)  # type: ignore[arg-type]
            refused += 1
    refuse = (perf_counter() - started) / max(1, refused)
    started = perf_counter()
    queues.requeue_inadmissible(["cq"], NOW)
    return admit, refuse, enter, perf_counter() - started


def release(count: int, distinct: bool) -> float:
    """The seconds after a release of one cpu, while all pending Workloads are refused."""
    state, queues = _cluster(f"{2000 + count}m")
    for flavor in state.flavors:
        _hold(state, flavor, 2000 + count)
    for i in range(count):
        queues.put(_pending(i, distinct), NOW)
    _settle(state, queues)
    _hold(state, "spot", 1000 + count)
    started = perf_counter()
    outcomes.requeue_within_reach(state, queues, ["cq"], NOW)
    _settle(state, queues)
    return perf_counter() - started


def _hold(state: SchedulerState, flavor: str, cpu: int) -> None:
    usage = {FlavorResource(flavor, "cpu"): cpu}
    state.hold(Holding(flavor, Key("ns", flavor), "cq", Key("ns", "lq"), usage, admitted=True))


def _settle(state: SchedulerState, queues: Queues) -> None:
    while heads := queues.heads(lambda _: True, NOW):
        for outcome in run_cycle(state, heads, NOW):
            match outcome:
                case Admit():
                    outcomes.assume(state, queues, outcome, NOW)
                case Refuse():
                    outcomes.refuse(state, queues, outcome, NOW)


def _admit(state: SchedulerState, queues: Queues, decisions: int) -> float:
    started = perf_counter()
    for _ in range(decisions):
        (outcome,) = run_cycle(state, queues.heads(lambda _: True, NOW), NOW)
        assert isinstance(outcome, Admit)
        found = outcome.info
        queues.remove(found.key)
        state.hold(Holding(found.uid, found.key, "cq", found.queue, outcome.assignment.usage, admitted=True))
    return (perf_counter() - started) / decisions


def _cluster(cpu: str) -> tuple[SchedulerState, Queues]:
    state, queues = SchedulerState(), Queues()
    names = ["spot", "on-demand", "reserved"]
    for name in names:
        state.flavors[name] = msgspec.convert({"metadata": {"name": name}}, ResourceFlavor)
    resources = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "1Ei"}]
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": name, "resources": resources} for name in names],
    }
    spec = {"resourceGroups": [group], "namespaceSelector": {}}
    queue = msgspec.convert({"metadata": {"name": "cq"}, "spec": spec}, ClusterQueue)
    local = {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}
    state.set_queue(queue)
    queues.set_cluster_queue(queue, NOW)
    queues.set_local_queue(msgspec.convert(local, LocalQueue), NOW)
    return state, queues


def _pending(i: int, distinct: bool) -> Info:
    rng = Random(i)
    cpu = f"{1000 + i}m" if distinct else "1"
    requests = {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    seconds = rng.randrange(86400)
    tree = {
        "metadata": {
            "name": f"w{i}",
            "namespace": "ns",
            "uid": f"u{i}",
            "creationTimestamp": datetime.fromtimestamp(1_700_000_000 + seconds, UTC).isoformat(),
        },
        "spec": {
            "queueName": "lq",
            "priority": rng.randrange(3),
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [requests]}}}],
        },
    }
    return info(msgspec.convert(tree, Workload))


if __name__ == "__main__":
    main()
