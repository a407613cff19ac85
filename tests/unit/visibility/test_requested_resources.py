"""The requests of a Job beside the quota that it holds, of resources that its pods do not request themselves."""

from __future__ import annotations

from queue_manager.api.types import Workload
from queue_manager.cli.show import DEMAND
from queue_manager.lifecycle.unscheduled import Unscheduled
from queue_manager.visibility.explain_record import explain
from queue_manager.visibility.explained_case import Surroundings
from queue_manager.visibility.requested_resources import demand
from tests.unit.visibility.build import admitted, at, cond, job, workload


def with_credits() -> Workload:
    """An admitted Workload of 2 pods. The configuration adds 10 credits to each cpu."""
    usage = {"cpu": "2", "example.com/credits": "20"}
    assigned = {"name": "main", "flavors": dict.fromkeys(usage, "f"), "resourceUsage": usage, "count": 2}
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]}}
    starts = cond("PodsReady", "False", "WaitForStart")
    return workload(count=2, conditions=[*admitted(), starts], status=status)


def test_a_transformed_resource_has_what_is_held_and_no_request() -> None:
    rows = demand(job(), with_credits())
    assert [(row.resource, row.per_pod, row.total, row.assigned) for row in rows] == [
        ("cpu", "1", "2", "2"),
        ("example.com/credits", "", "", "20"),
    ]
    assert [column.cell(rows[1]) for column in DEMAND] == ["example.com/credits", "-", "2", "-", "20", "f"]


def test_an_explicit_request_of_0_is_shown() -> None:
    (row,) = demand(None, workload(requests={"cpu": "0"}))
    assert (row.per_pod, row.total) == ("0", "0")


def test_explain_has_no_request_of_0_for_a_transformed_resource() -> None:
    starting = job(suspend=False, status={"active": 2})
    found = explain(starting, with_credits(), Surroundings(unplaced=Unscheduled(1, "0/2 nodes")), at(100))
    assert [(row.requested, row.resource) for row in found.flavors] == [("2", "cpu")]
