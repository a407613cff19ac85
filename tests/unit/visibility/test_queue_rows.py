"""Rows of ClusterQueues: counts and quota in use, computed from Workloads."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_manager.api.types import ClusterQueue, FairSharing, FairSharingStatus, Workload
from queue_manager.cli import queues as cells
from queue_manager.visibility.queue_rows import QueueRow, QuotaRow, queue_rows
from tests.unit.queueing.builders import cohort
from tests.unit.visibility.build import ADMISSION, admitted, at, cluster_queue, cond, local_queue, wire, workload


def test_workloads_count_in_the_queue_where_they_wait_or_hold_quota() -> None:
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


def test_a_holder_counts_where_it_was_admitted_after_a_change_of_its_queue() -> None:
    holds = workload(conditions=admitted(), status={"admission": ADMISSION})
    rows = queue_rows([cluster_queue("cq"), cluster_queue("new")], [local_queue(cluster_queue="new")], [holds], at(0))
    assert [(row.name, row.admitted) for row in rows] == [("cq", 1), ("new", 0)]


def holder(queue: str, cpu: str, **more: Any) -> Workload:
    """A Workload that holds so much cpu of the ClusterQueue, for 4 pods."""
    flavors = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": cpu}, "count": 4}
    status = {"admission": {"clusterQueue": queue, "podSetAssignments": [flavors]}, **more}
    return workload(f"in-{queue}", conditions=admitted(), status=status, count=4)


def test_quota_in_use_is_computed_from_the_workloads_not_the_status() -> None:
    """The status of a ClusterQueue is of another time than the list of Workloads."""
    reserved = [{"name": "f", "resources": [{"name": "cpu", "total": "4", "borrowed": "0"}]}]
    used = cluster_queue("used", status={"flavorsReservation": reserved})
    over = workload("over", conditions=[*admitted(), cond("Finished")], status={"admission": ADMISSION})
    rows = queue_rows([used, cluster_queue("new")], [], [holder("used", "1500m"), over], at(0))
    assert [(row.name, row.admitted, row.quotas) for row in rows] == [
        ("new", 0, [QuotaRow(flavor="f", resource="cpu", used="0", nominal="4")]),
        ("used", 1, [QuotaRow(flavor="f", resource="cpu", used="1500m", nominal="4")]),
    ]


def test_pods_that_have_given_back_their_quota_use_none() -> None:
    some = holder("cq", "2", reclaimablePods=[{"name": "main", "count": 3}])
    (row,) = queue_rows([cluster_queue()], [], [some], at(0))
    assert row.quotas[0].used == "500m"


@pytest.mark.parametrize(("succeeded", "used"), [(0, "6"), (3, "6"), (5, "5"), (10, "0")])
def test_a_partly_admitted_job_uses_quota_for_no_more_pods_than_remain(succeeded: int, used: str) -> None:
    """Of 10 pods 6 were admitted. A pod that succeeds makes room for one of the others, while there are enough."""
    flavors = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "6"}, "count": 6}
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [flavors]},
        "reclaimablePods": [{"name": "main", "count": succeeded}],
    }
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    pod_sets = [{"name": "main", "count": 10, "minCount": 2, "template": template}]
    (row,) = queue_rows(
        [cluster_queue()], [], [workload(conditions=admitted(), status=status, podSets=pod_sets)], at(0)
    )
    assert row.quotas[0].used == used


Member = tuple[ClusterQueue, Workload]


def shared(name: str, used: str = "0", **limits: str) -> Member:
    """A member of cohort c with 4 cpu, and what uses so much there."""
    quota = {"name": "cpu", "nominalQuota": "4", **limits}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}]
    return cluster_queue(name, cohortName="c", resourceGroups=groups), holder(name, used)


def rows_of(*members: Member) -> list[QueueRow]:
    return queue_rows([queue for queue, _ in members], [], [holds for _, holds in members], at(0))


def quotas(*members: Member) -> list[tuple[str, str, str]]:
    rows = [(row, row.quotas[0]) for row in rows_of(*members)]
    assert all(row.cohort == "c" for row, _ in rows)
    return [(row.name, q.borrowed, f"{q.lent_at_least}-{q.lent_at_most}") for row, q in rows]


def test_borrowed_quota_is_lent_by_the_only_member_with_unused_quota() -> None:
    assert quotas(shared("a", "6"), shared("b", "1")) == [("a", "2", "0-0"), ("b", "0", "2-2")]


def test_the_lender_among_several_is_known_only_within_bounds() -> None:
    rows = quotas(shared("a", "8"), shared("b", "1"), shared("c", lendingLimit="2"))
    assert rows == [("a", "4", "0-0"), ("b", "0", "2-3"), ("c", "0", "1-2")]


def test_a_tree_of_cohorts_is_shown_as_a_path() -> None:
    """The quota of a cohort can be what its queues borrow."""
    members = [shared("a", "7"), shared("b", "2")]
    cohorts = [cohort("c", "all"), cohort("all", quotas={"f": {"cpu": "2"}})]
    rows = queue_rows([queue for queue, _ in members], [], [holds for _, holds in members], at(0), cohorts)
    assert [row.cohort_path for row in rows] == [["all", "c"]] * 2
    assert [cells.quotas(row) for row in rows] == ["cpu ██████████ 7/4, borrowed 3", "cpu █████░░░░░ 2/4, lent 1-2"]
    (column,) = [column for column in cells.columns(rows) if column.heading == "COHORT"]
    assert column.cell(rows[0]) == "all/c"


def test_a_quota_shows_its_cohort_shares_and_limits() -> None:
    limited = shared("a", "6", borrowingLimit="3")
    rows = rows_of(limited, shared("b", lendingLimit="3"))
    assert [cells.quotas(row) for row in rows] == [
        "cpu ██████████ 6/4, borrowed 2 of 3",
        "cpu ░░░░░░░░░░ 0/4, lent 2 of 3",
    ]
    (alone,) = queue_rows([cluster_queue()], [], [], at(0))
    assert cells.quotas(alone) == "cpu ░░░░░░░░░░ 0/4"
    assert "COHORT" not in [column.heading for column in cells.columns([alone])]
    assert "COHORT" in [column.heading for column in cells.columns(rows)]


def test_shares_are_shown_with_fair_sharing() -> None:
    a, b, c = (
        replace(queue, status=replace(queue.status, fair_sharing=FairSharingStatus(weighted_share=share)))
        for (queue, _), share in zip(map(shared, "abc"), (0, 250, 2**63 - 1), strict=True)
    )
    b = replace(b, spec=replace(b.spec, fair_sharing=FairSharing(weight="2")))
    c = replace(c, spec=replace(c.spec, fair_sharing=FairSharing(weight="0")))
    rows = queue_rows([a, b, c], [], [], at(0))
    assert [cells.weighted_share(row) for row in rows] == ["0", "250, weight 2", "infinite, weight 0"]
    assert "SHARE" in [column.heading for column in cells.columns(rows)]
    assert "SHARE" not in [column.heading for column in cells.columns(rows_of(shared("a")))]


def test_a_held_local_queue_is_marked() -> None:
    queues = [local_queue("a"), local_queue("b", stop="Hold"), local_queue("c", stop="HoldAndDrain")]
    (row,) = queue_rows([cluster_queue()], queues, [], at(0))
    assert row.stopped_queues == ["default/b", "default/c"]
    assert cells.local_queues(row) == "default/a\ndefault/b (held)\ndefault/c (drained)"


def test_the_state_is_active_or_the_reason_why_not() -> None:
    queues = [
        cluster_queue("a", status={"conditions": [cond("Active", "True", "Ready", "Can admit")]}),
        cluster_queue("b", status={"conditions": [cond("Active", "False", "FlavorNotFound", "no flavor")]}),
        cluster_queue("c"),
    ]
    rows = queue_rows(queues, [], [], at(0))
    found = [(row.state, row.message) for row in rows]
    assert found == [("Active", ""), ("FlavorNotFound", "no flavor"), ("Unknown", "")]


@pytest.mark.parametrize(("policy", "state"), [("Hold", "Held"), ("HoldAndDrain", "Drained")])
@pytest.mark.parametrize(
    "active", [("False", "Stopped", "is stopped"), ("True", "Ready", "Can admit"), ("False", "FlavorNotFound", "none")]
)
def test_the_state_of_a_queue_with_a_stop_policy_is_held_or_drained(
    policy: str, state: str, active: tuple[str, str, str]
) -> None:
    """Unless it is broken besides. The condition is written after the change of the spec."""
    queue = cluster_queue("a", stopPolicy=policy, status={"conditions": [cond("Active", *active)]})
    (row,) = queue_rows([queue], [], [], at(0))
    assert row.state == (state if active[1] != "FlavorNotFound" else "FlavorNotFound")


def first_queue(cpu: str) -> ClusterQueue:
    queue = cluster_queue("first", quotas={"f": {"cpu": cpu, "memory": "4Gi"}})
    meta = replace(queue.metadata, annotations={"sluice/quota-of-nodes": "1500m 4Gi"})
    return replace(queue, metadata=meta)


@pytest.mark.parametrize(("cpu", "others", "explained"), [("1500m", 1, True), ("1500m", 0, False), ("3", 1, False)])
def test_a_quota_that_other_queues_reduce_is_explained(cpu: str, others: int, explained: bool) -> None:
    """Not one that a user has set since."""
    broken = cluster_queue("b", status={"conditions": [cond("Active", "False", "FlavorNotFound", "no flavor")]})
    rows = queue_rows([first_queue(cpu), *[broken] * others], [], [], at(0))
    says = "quota of first: what the nodes have less that of all other ClusterQueues, active or not, and Cohorts"
    assert cells.remainder(rows) == (says if explained else "")


@pytest.mark.parametrize(
    ("cohort_name", "others", "cells_of_a"),
    [
        ("", [], "cpu ██████████ 7/4, 3 over quota"),
        ("all", [], "cpu ██████████ 7/4, 3 over quota"),
        ("all", ["1"], "cpu ██████████ 7/4, 2 over quota, borrowed 1"),
        ("all", ["1", "2"], "cpu ██████████ 7/4, borrowed 3"),
    ],
)
def test_what_no_other_queue_can_lend_is_over_quota(cohort_name: str, others: list[str], cells_of_a: str) -> None:
    """As after a change of the cohort, or of a quota."""
    queues = [cluster_queue("a", quotas={"f": {"cpu": "4"}}, cohortName=cohort_name)]
    queues += [
        cluster_queue(f"b{number}", quotas={"f": {"cpu": cpu}}, cohortName="all") for number, cpu in enumerate(others)
    ]
    rows = queue_rows(queues, [], [holder("a", "7")], at(0))
    assert cells.quotas(rows[0]) == cells_of_a


def test_the_own_quota_of_a_cohort_is_named_below_the_queues_that_share_it() -> None:
    quota = {"f": {"cpu": "4", "memory": "24105Mi"}}
    cohorts = [cohort("team", quotas=quota), cohort("bare"), cohort("else", quotas=quota)]
    rows = queue_rows(
        [cluster_queue("a", cohortName="team"), cluster_queue("b", cohortName="bare")], [], [], at(0), cohorts
    )
    assert cells.own_quotas(cohorts, rows) == ["own quota of Cohort team: cpu 4 (f), memory 23.5Gi (f)"]


def test_a_cluster_queue_that_does_not_exist_is_shown_with_the_queues_that_name_it() -> None:
    orphan = local_queue("orphan", cluster_queue="gone")
    waits = workload(queueName="orphan")
    rows = queue_rows([cluster_queue()], [local_queue(), orphan], [waits], at(60))
    assert [(row.name, row.state, row.local_queues, row.pending) for row in rows] == [
        ("cq", "Unknown", ["default/q"], 0),
        ("gone", "Missing", ["default/orphan"], 1),
    ]


def test_a_cluster_queue_that_a_manager_has_from_a_file_is_not_missing() -> None:
    led = local_queue(cluster_queue="team", conditions=[cond("Active", "True", "Ready")])
    rows = queue_rows([], [led], [], at(60))
    assert [(row.name, row.state, row.message) for row in rows] == [
        ("team", "Unlisted", "a manager has it from a file")
    ]


def test_a_cluster_queue_from_a_file_has_the_state_of_its_local_queues() -> None:
    without_status = cluster_queue(name="team")
    for state, expected in (("True", "Active"), ("False", "Unknown")):
        led = local_queue(cluster_queue="team", conditions=[cond("Active", state, "Ready")])
        (row,) = queue_rows([without_status], [led], [], at(60))
        assert row.state == expected


def test_a_user_who_may_not_read_cluster_queues_sees_those_of_the_local_queues() -> None:
    waits = workload(conditions=[cond("QuotaReserved", "False")])
    (row,) = queue_rows(None, [local_queue()], [waits], at(60))
    assert (row.name, row.state, row.message) == ("cq", "Unlisted", "you may not read ClusterQueues")
    assert (row.pending, row.oldest_waiting_seconds) == (1, 60)


def test_the_oldest_wait_leaves_out_what_a_workload_ran() -> None:
    tried = {"start": wire(2), "end": wire(40), "reason": "Preempted", "ranSeconds": 50}
    drained = workload(status={"requeueHistory": {"attempts": [tried], "ranSeconds": 50}})
    (row,) = queue_rows([cluster_queue()], [local_queue()], [drained], at(60))
    assert row.oldest_waiting_seconds == 10
