"""Rows of ClusterQueues: counts from Workloads, quota from the status."""

from __future__ import annotations

from queue_manager.visibility.queues import QuotaRow, queue_rows
from tests.unit.visibility.build import ADMISSION, admitted, at, cluster_queue, cond, local_queue, workload


def test_workloads_are_counted_where_they_wait_or_hold_quota() -> None:
    workloads = [
        workload("waits", created=10),
        workload("waits-longer", created=5),
        workload("holds", conditions=admitted(), status={"admission": ADMISSION}),
        workload("over", conditions=[cond("Finished")], status={"admission": ADMISSION}),
        workload("off", active=False),
        workload("astray", queueName="nowhere"),
    ]
    (row,) = queue_rows([cluster_queue()], [local_queue()], workloads, at(60))
    assert (row.pending, row.admitted, row.oldest_waiting_seconds) == (2, 1, 55)
    assert row.local_queues == ["default/q"]


def test_what_holds_quota_counts_where_it_was_admitted_even_if_its_queue_points_elsewhere_now() -> None:
    holds = workload(conditions=admitted(), status={"admission": ADMISSION})
    rows = queue_rows([cluster_queue("cq"), cluster_queue("new")], [local_queue(cluster_queue="new")], [holds], at(0))
    assert [(row.name, row.admitted) for row in rows] == [("cq", 1), ("new", 0)]


def test_quota_in_use_is_that_of_the_status_and_zero_before_there_is_one() -> None:
    reserved = [{"name": "f", "resources": [{"name": "cpu", "total": "1500m"}]}]
    used = cluster_queue("used", status={"flavorsReservation": reserved})
    rows = queue_rows([used, cluster_queue("new")], [], [], at(0))
    assert [row.quotas for row in rows] == [
        [QuotaRow(flavor="f", resource="cpu", used="0", nominal="4")],
        [QuotaRow(flavor="f", resource="cpu", used="1500m", nominal="4")],
    ]


def test_the_state_is_active_or_the_reason_why_not() -> None:
    queues = [
        cluster_queue("a", status={"conditions": [cond("Active", "True", "Ready", "Can admit")]}),
        cluster_queue("b", status={"conditions": [cond("Active", "False", "Stopped", "is stopped")]}),
        cluster_queue("c"),
    ]
    rows = queue_rows(queues, [], [], at(0))
    assert [(row.state, row.message) for row in rows] == [("Active", ""), ("Stopped", "is stopped"), ("Unknown", "")]
