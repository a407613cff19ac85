"""Whether a Job can ever start: cases, and agreement with the scheduler on random ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_controller.model import Job
from queue_manager.api import keys, reasons
from queue_manager.api.types import ClusterQueue, Cohort, ResourceFlavor
from queue_manager.scheduling.nomination import nominate
from queue_manager.scheduling.planned_usage import PlannedUsage
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.workload_info import info
from queue_manager.visibility.never_fits import group_obstacles, without_quota
from tests.unit.queueing.builders import T0, cohort
from tests.unit.visibility.build import Tree, cluster_queue, flavor, job, workload

TWO = {"a": {"cpu": "2", "memory": "8Gi"}, "b": {"cpu": "8", "memory": "1Gi"}}


def verdict(
    asked: Job,
    queue: ClusterQueue,
    *others: ClusterQueue,
    flavors: tuple[ResourceFlavor, ...] = (),
    cohorts: tuple[Cohort, ...] = (),
) -> str:
    found = group_obstacles(asked, queue, others, {f.metadata.name: f for f in flavors}, cohorts=cohorts)
    return f"can never start: {found[0].text}" if found else ""


@pytest.mark.parametrize(
    ("spec", "quotas", "says"),
    [
        ({"requests": {"cpu": "4"}}, None, ""),
        ({"requests": {"cpu": "64"}}, None, "can never start: asks 64 cpu, queue limit 4"),
        (
            {"requests": {"cpu": "1"}, "parallelism": 5, "completions": 9},
            None,
            "can never start: asks 5 cpu, queue limit 4",
        ),
        ({"requests": {"cpu": "1"}, "parallelism": 5, "completions": 3}, None, ""),
        ({"requests": {"cpu": "2", "memory": "2Gi"}}, TWO, ""),
        ({"requests": {"cpu": "4", "memory": "2Gi"}}, TWO, "can never start: asks 4 cpu, queue limit 2 in flavor a"),
        (
            {"requests": {"cpu": "9", "memory": "9Gi"}},
            TWO,
            "can never start: asks 9 cpu, queue limit 2; asks 9Gi memory, queue limit 8Gi in flavor a",
        ),
        ({"requests": {"cpu": "9"}}, TWO, "can never start: asks 9 cpu, queue limit 8 in flavor b"),
        (
            {"requests": {"cpu": "1"}, "parallelism": 3, "completions": 3},
            {"f": {"pods": "2"}},
            "can never start: asks 3 pods, queue limit 2",
        ),
        ({"requests": {"cpu": "8"}, "parallelism": 0}, None, ""),
        (
            {"requests": {"cpu": "64"}, "annotations": {keys.MIN_PARALLELISM: "1"}, "parallelism": 5},
            None,
            "can never start: asks 64 cpu, queue limit 4",
        ),
        (
            {
                "requests": {"cpu": "2"},
                "annotations": {keys.MIN_PARALLELISM: "2"},
                "parallelism": 5,
                "completions": 5,
            },
            None,
            "",
        ),
        ({"requests": {"gpu": "1"}}, None, ""),
        ({"requests": {"cpu": "nonsense"}}, None, ""),
    ],
)
def test_the_verdict_follows_from_requests_and_quota(spec: Tree, quotas: Tree | None, says: str) -> None:
    assert verdict(job(**spec), cluster_queue(quotas=quotas)) == says


def test_quota_that_the_cohort_may_lend_counts() -> None:
    own, other, stranger = (cluster_queue(name, cohortName=cohort) for name, cohort in ("ac", "bc", "sx"))
    assert verdict(job(requests={"cpu": "8"}), own, other, stranger) == ""
    assert verdict(job(requests={"cpu": "9"}), own, other, stranger) == "can never start: asks 9 cpu, queue limit 8"


def test_quota_of_cohorts_counts_and_cohorts_in_a_cycle_get_no_verdict() -> None:
    own, other = cluster_queue(name="a", cohortName="x"), cluster_queue(name="b", cohortName="y")
    tree = (cohort("x", "all", {"f": {"cpu": "1"}}), cohort("y", "all"), cohort("all"))
    assert verdict(job(requests={"cpu": "9"}), own, other, cohorts=tree) == ""
    says = "can never start: asks 10 cpu, queue limit 9"
    assert verdict(job(requests={"cpu": "10"}), own, other, cohorts=tree) == says
    assert verdict(job(requests={"cpu": "10"}), own, other, cohorts=(*tree[:2], cohort("all", "x"))) == ""


def test_a_flavor_that_its_pods_may_not_use_does_not_count() -> None:
    tainted = flavor("b", nodeTaints=[{"key": "gpu", "value": "", "effect": "NoSchedule"}])
    asks = {"cpu": "4", "memory": "1Gi"}
    assert verdict(job(requests=asks), cluster_queue(quotas=TWO), flavors=(flavor("a"),)) == ""
    text = verdict(job(requests=asks), cluster_queue(quotas=TWO), flavors=(flavor("a"), tainted))
    assert text == "can never start: asks 4 cpu, queue limit 2"
    only = verdict(job(), cluster_queue(quotas={"b": {"cpu": "4"}}), flavors=(tainted,))
    assert "untolerated taint" in only


def test_resources_without_quota_are_requested_and_not_covered() -> None:
    assert without_quota(job(requests={"cpu": "1", "gpu": "1", "zero": "0"}), cluster_queue()) == ["gpu"]
    assert without_quota(job(), cluster_queue()) == []


AMOUNT = st.integers(0, 9).map(str)
QUOTAS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.fixed_dictionaries({"cpu": AMOUNT, "memory": AMOUNT}), min_size=1
)


@given(st.fixed_dictionaries({"cpu": AMOUNT, "memory": AMOUNT}), st.integers(1, 3), QUOTAS, QUOTAS, st.booleans())
def test_never_means_that_the_scheduler_finds_no_fit_on_an_empty_cluster(
    asked: Tree, pods: int, quotas: Tree, others: Tree, cohort: bool
) -> None:
    more: dict[str, Any] = {"cohortName": "c"} if cohort else {}
    queue, other = cluster_queue("cq", quotas, **more), cluster_queue("other", others, **more)
    flavors = {name: flavor(name) for name in "abc"}
    state = SchedulerState()
    for one in (queue, other):
        state.set_queue(one)
    seen = info(workload(requests=asked, count=pods))
    state.flavors.update(flavors)
    with PlannedUsage(state) as planned:
        fits = nominate(state, planned, state.queues["cq"], seen, T0).assignment
    mine = group_obstacles(job(requests=asked, parallelism=pods, completions=pods), queue, [queue, other], flavors)
    assert bool(mine) == (fits.reason == reasons.EXCEEDS_MAX_QUOTA)
