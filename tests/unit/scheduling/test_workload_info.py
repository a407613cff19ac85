"""What the queue reads of a Workload: whether it is held back, what equals it."""

import msgspec
import pytest

from queue_manager.api import keys
from queue_manager.scheduling import workload_info
from queue_manager.scheduling.workload_info import RequestReader, info
from tests.unit.queueing.builders import at, condition, pending, workload


@pytest.mark.parametrize(
    ("conditions", "held"),
    [
        ([], False),
        ([condition("Requeued", "True", "BackoffFinished")], False),
        ([condition("Requeued", "False", "PodsReadyTimeout")], False),
        ([condition("Requeued", "False", "AdmissionCheck")], False),
        ([condition("Requeued", "False", "Deactivated")], True),
        ([condition("Requeued", "False", "DeactivatedDueToRequeuingLimitExceeded")], True),
        ([condition("Requeued", "False", "ClusterQueueStopped")], False),
        ([condition("Requeued", "False", "LocalQueueStopped")], False),
        ([condition("Requeued", "Unknown", "PodsReadyTimeout")], False),
    ],
)
def test_after_a_deactivation_it_is_held_back_until_its_reactivation_is_written(conditions, held):
    assert pending(conditions=conditions).in_backoff(at(0)) is held


@pytest.mark.parametrize(("now", "waits"), [(59, True), (60, False), (61, False)])
def test_a_time_for_the_next_try_is_waited_for(now, waits):
    w = pending(status={"requeueState": {"count": 1, "requeueAt": "2026-01-01T00:01:00Z"}})
    assert w.in_backoff(at(now)) is waits


@pytest.mark.parametrize(
    ("reclaimed", "count"),
    [([], 4), ([("main", 1)], 3), ([("main", 9)], 0), ([("other", 2)], 4)],
)
def test_pods_that_ended_need_no_quota(reclaimed, count):
    rows = [{"name": name, "count": n} for name, n in reclaimed]
    [pod_set] = pending(count=4, status={"reclaimablePods": rows}).pod_sets
    assert (pod_set.count, pod_set.total) == (count, {"cpu": 1000 * count})


SAME = pending("a").shape


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (pending("b", created=9, annotations={"x": "y"}), True),
        (pending("b", queue="other"), True),
        (pending("b", pod={"schedulerName": "x"}), True),
        (pending("b", priority=1), False),
        (pending("b", namespace="ns2"), False),
        (pending("b", count=2), False),
        (pending("b", requests={"cpu": "1001m"}), False),
        (pending("b", pod={"nodeSelector": {"a": "b"}}), False),
        (pending("b", pod={"tolerations": [{"operator": "Exists"}]}), False),
        (pending("b", pod={"affinity": {"nodeAffinity": {}}}), False),
    ],
)
def test_shapes_are_equal_if_the_scheduler_treats_workloads_alike(other, equal):
    assert (other.shape == SAME) is equal


def test_the_order_in_which_resources_are_written_makes_no_difference():
    one, other = ({"cpu": "1", "memory": "1"}, {"memory": "1", "cpu": "1"})
    assert pending("a", requests=one).shape == pending("b", requests=other).shape


@pytest.mark.parametrize(
    ("of_job", "queued"),
    [
        ("2026-01-01T00:00:59Z", 59),
        ("2026-01-01T00:00:58Z", 119),  # longer before: the Job was put into the queue long after its creation
        ("2026-01-01T00:02:00Z", 119),  # after it
        ("2026-01-01T00:01:00", 119),  # a user's annotation without a time zone
        ("yesterday", 119),
    ],
)
def test_a_workload_counts_from_the_creation_of_its_job_shortly_before(of_job, queued):
    w = pending("a", created=119, annotations={"sluice/job-created": of_job})
    assert w.queued_at == at(queued)


def test_equal_instants_in_one_second_are_ordered_by_arrival_then_uid():
    early = info(workload("b", created=1, annotations={"sluice/sequence": "9"})).rank
    late = info(workload("a", created=1, annotations={"sluice/sequence": "10"})).rank
    none = info(workload("c", created=1)).rank
    assert none < early < late


@pytest.mark.parametrize("most", [1, 1000])
def test_a_reader_that_remembers_reads_as_one_that_does_not(most, monkeypatch):
    """Workloads share their pod sets, as in the cache, but neither priority nor reclaimed pods nor execution time."""
    monkeypatch.setattr(workload_info, "MAX_REMEMBERED", most)
    shared = workload(count=4)
    spec, replace = shared.spec, msgspec.structs.replace
    read = msgspec.convert({"reclaimablePods": [{"name": "main", "count": 1}]}, type(shared.status))
    ran = msgspec.convert({"accumulatedPastExecutionTimeSeconds": 3}, type(shared.status))
    limited = replace(shared, spec=replace(spec, maximum_execution_time_seconds=10))
    variants = [
        shared,
        replace(shared, spec=replace(spec, priority=7)),
        replace(shared, status=read),
        limited,
        replace(limited, status=ran),
        replace(shared, metadata=replace(shared.metadata, labels={keys.IMPORTED: "true"})),  # it may not preempt
        workload(requests={"cpu": "2"}, count=4),
    ]
    reader = RequestReader()
    for _ in range(2):
        for each in variants:
            assert reader.requests(each) == RequestReader().requests(each)
    assert len({reader.requests(each).shape for each in variants}) == len(variants)


def test_equal_pod_sets_of_one_tuple_are_read_once():
    shared, reader = workload(), RequestReader()
    changed = msgspec.structs.replace(shared, status=msgspec.convert({"conditions": []}, type(shared.status)))
    assert reader.requests(shared) is reader.requests(changed)
