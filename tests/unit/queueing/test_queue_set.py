"""From LocalQueue to ClusterQueue: where a Workload stands."""

import msgspec

from job_controller.model import Key
from queue_manager.api.types import AdmissionCheck, ClusterQueue
from queue_manager.queueing.outcomes import assume
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.cycle import Admit, run_cycle
from queue_manager.scheduling.quota_state import SchedulerState
from tests.unit.queueing.builders import T0, at, cluster_queue, condition, flavor, local_queue, pending


def queues(*objects):
    result = Queues()
    for obj in objects:
        put(result, obj)
    return result


def put(queues, obj):
    (queues.set_cluster_queue if isinstance(obj, ClusterQueue) else queues.set_local_queue)(obj, T0)


def heads(q):
    return [(name, info.key.name) for name, info in q.heads(lambda name: True, T0)]


def test_a_workload_stands_in_line_whatever_came_first():
    both = [local_queue(), cluster_queue()]
    for objects in (both, both[::-1]):
        before, after = queues(*objects), Queues()
        before.put(pending("w"), T0)
        after.put(pending("w"), T0)
        for obj in objects:
            put(after, obj)
        assert heads(before) == heads(after) == [("cq", "w")]


def test_one_head_per_active_cluster_queue():
    q = queues(cluster_queue("a"), cluster_queue("b"), local_queue("la", "a"), local_queue("lb", "b"))
    for name in ("la", "lb"):
        q.put(pending(f"{name}1", queue=name), T0)
        q.put(pending(f"{name}2", queue=name, created=1), T0)
    assert heads(q) == [("a", "la1"), ("b", "lb1")]
    assert [name for name, _ in q.heads(lambda name: name == "b", T0)] == ["b"]


def test_a_stopped_local_queue_holds_its_workloads_until_it_is_started():
    q = queues(cluster_queue(), local_queue())
    q.put(pending("w"), T0)
    q.set_local_queue(local_queue(stopPolicy="Hold"), T0)
    q.requeue_inadmissible(["cq"], T0)
    assert heads(q) == []
    assert q.pending_count(Key("ns", "lq")) == 1
    q.set_local_queue(local_queue(), T0)
    assert heads(q) == [("cq", "w")]


def test_a_workload_that_changes_its_queue_leaves_the_old_one():
    q = queues(cluster_queue("a"), cluster_queue("b"), local_queue("la", "a"), local_queue("lb", "b"))
    q.put(pending("w", queue="la"), T0)
    q.put(pending("w", queue="lb"), T0)
    assert heads(q) == [("b", "w")]
    assert q.pending_count(Key("ns", "la")) == 0


def test_workloads_leave_with_their_local_queue_and_return_with_a_new_one():
    q = queues(cluster_queue(), local_queue())
    q.put(pending("w"), T0)
    q.drop_local_queue(Key("ns", "lq"))
    assert heads(q) == []
    q.set_local_queue(local_queue(), T0)
    assert heads(q) == [("cq", "w")]


def test_who_waits_is_known_by_name_wherever_it_stands():
    q, key = queues(cluster_queue(), local_queue()), Key("ns", "w")
    assert (key in q, q.get(key), q.remove(key)) == (False, None, None)
    info = pending("w")
    q.put(info, T0)
    assert (key in q, q.get(key)) == (True, info)
    q.drop_local_queue(Key("ns", "lq"))
    assert (key in q, q.remove(key), key in q, q.pending_count(Key("ns", "lq"))) == (True, info, False, 0)
    q.set_local_queue(local_queue(), T0)
    assert heads(q) == []


def test_one_that_leaves_leaves_the_others_in_line():
    q = queues(cluster_queue(), local_queue())
    for i in range(2):
        q.put(pending(f"w{i}", created=i), T0)
    q.remove(Key("ns", "w0"))
    assert heads(q) == [("cq", "w1")]
    assert (q.pending_count(Key("ns", "lq")), q.get(Key("ns", "w0"))) == (1, None)


def test_the_checks_of_another_flavor_do_not_delay_an_admission():
    """So its minimum runtime, and its end, count from the decision."""
    check = {"admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["spot"]}]}}
    queue = cluster_queue("cq", quotas={"default": {"cpu": "1"}, "spot": {"cpu": "1"}}, **check)
    state, its = SchedulerState(), Queues()
    state.namespaces["ns"] = {}
    for name in ("default", "spot"):
        state.flavors[name] = flavor(name)
    active = {"metadata": {"name": "c"}, "status": {"conditions": [condition("Active", "True")]}}
    state.checks["c"] = msgspec.convert(active, AdmissionCheck)
    state.set_queue(queue)
    for obj in (queue, local_queue()):
        put(its, obj)
    for name in ("first", "second"):
        its.put(pending(name, created=name == "second"), T0)
        [admission] = run_cycle(state, its.heads(lambda name: True, T0), T0)
        assert isinstance(admission, Admit)
        assume(state, its, admission, T0, min_runtime=60)
    protected = {holding.key.name: holding.protected_until for holding in state.holdings.values()}
    assert protected == {"first": at(60), "second": None}
