"""What `explain` says to a Workload that waits for quota: when enough is released, which start
backfilling promises, or why neither is known.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from queue_manager.api.types import Preemption, Workload
from queue_manager.cli.explain import lines
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.scheduling.backfill import BackfillRules, Promise
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.visibility.pending_sentences import ANOTHERS, PROTECTION_ENDS
from queue_manager.visibility.released_quota_times import (
    KEPT,
    KEPT_FOR_FIRST,
    KEPT_FOR_HEAD,
    STOPPING,
    TAKEN,
    UNDECLARED,
    promised_start,
)
from queue_manager.visibility.scheduler_judgement import ClusterObjects, Judgement
from tests.unit.queueing.builders import pending
from tests.unit.visibility.build import admitted, at, cluster_queue, flavor, job, local_queue, workload
from tests.unit.visibility.test_explain_record import NAMESPACES, explained, holding

RUNS_LONG = {"maximumExecutionTimeSeconds": 900}
CQ, OTHER = (
    cluster_queue(name, cohortName="c", namespaceSelector={}, quotas={"f": {"cpu": "2"}}) for name in ("cq", "other")
)


def in_cohort(*workloads: Workload) -> ClusterObjects:
    """Two ClusterQueues that share quota, and LocalQueue o of the second one."""
    return ClusterObjects(
        workloads=workloads,
        local_queues=[local_queue(), local_queue("o", cluster_queue="other")],
        cluster_queues=[CQ, OTHER],
        cohorts=(),
        flavors=[flavor()],
        namespaces=NAMESPACES,
    )


@pytest.mark.parametrize(
    ("running", "seconds", "by", "text"),
    [
        pytest.param(
            [holding("r", "3", **RUNS_LONG), holding("s", "1", maximumExecutionTimeSeconds=300)],
            100,
            900,
            "when default/r has to end, unless Workloads before this one take it",
            id="the last one that has to end",
        ),
        pytest.param(
            [holding("r", "2", **RUNS_LONG), holding("s", "2")],
            100,
            900,
            "when default/r has to end, unless Workloads before this one take it",
            id="one declares nothing and need not end",
        ),
        pytest.param([holding("r", "4")], 100, None, UNDECLARED, id="not declared"),
        pytest.param([holding("r", "4", **RUNS_LONG)], 950, None, STOPPING, id="overdue"),
    ],
)
def test_a_workload_that_waits_for_quota_is_told_when_enough_is_released(
    running: list[Workload], seconds: float, by: int | None, text: str
) -> None:
    found = explained(job(), workload(requests={"cpu": "2"}), running, seconds)
    assert (found.released_by, found.release) == (at(by) if by is not None else None, text)
    shown = dict(lines(found, at(seconds)))["released"]
    assert bool(shown) == (by is not None), "to one that was not preempted nothing is said if it is not known"


def test_nothing_is_said_of_released_quota_to_one_that_does_not_wait_for_it() -> None:
    """It can never fit; or backfilling promises a start."""
    assert explained(job(), workload(requests={"cpu": "99"}), [holding("r", "4", **RUNS_LONG)]).release == ""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    promised = explained(job(), workload(requests={"cpu": "2"}), [holding("r", "4", **RUNS_LONG)], settings=keeps)
    assert (promised.starts_by, promised.release) == (at(900), "")


@pytest.mark.parametrize(
    ("runs", "seconds", "text"), [({}, 100, UNDECLARED), (RUNS_LONG, 950, STOPPING)], ids=["undeclared", "overdue"]
)
def test_a_head_to_which_no_start_can_be_promised_is_told_why(runs, seconds, text) -> None:
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    found = explained(job(), workload(requests={"cpu": "2"}), [holding("r", "4", **runs)], seconds, settings=keeps)
    assert (found.kept_for_it, found.starts_by, found.release) == (True, None, text)


def test_quota_that_is_kept_for_a_preemptor_is_not_announced_to_others() -> None:
    """The one that runs is being stopped for `first`, which has the higher priority."""
    above = cluster_queue(namespaceSelector={}, preemption={"withinClusterQueue": "LowerPriority"})
    first = workload("first", requests={"cpu": "4"}, priority=9)
    victim = holding("r", "4", **RUNS_LONG)
    found = explained(job(), workload(requests={"cpu": "2"}, priority=0), [first, victim], above=above)
    assert (found.released_by, found.release) == (None, KEPT)
    assert (found.kept_for, [(row.workloads, row.stopping) for row in found.holders]) == (["default/first"], [(1, 1)])
    kept = "in addition to what is kept for a Workload that preempts others"
    assert found.changes[0] == f"running Workloads release 2 cpu of flavor f, {kept}"


def test_the_first_of_a_queue_is_told_that_another_queue_may_take_what_is_released() -> None:
    """The head of the other ClusterQueue of the cohort waits as well."""
    waits, other = workload(requests={"cpu": "2"}), workload("o", queueName="o", requests={"cpu": "2"})
    holds = holding("r", "4")
    found = explained(job(), waits, above=CQ, objects=in_cohort(waits, other, holds))
    alone = explained(job(), waits, above=CQ, objects=in_cohort(waits, holds))
    release = "running Workloads release 2 cpu of flavor f"
    assert found.changes[0] == f"{release}, unless another ClusterQueue of its cohort takes it"
    assert alone.changes[0] == release


def test_nothing_is_promised_to_a_head_behind_a_preemptor() -> None:
    """Backfilling is on, and the quota that the victim releases is kept for the Workload of high priority."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    above = cluster_queue(preemption={"withinClusterQueue": "LowerPriority"}, namespaceSelector={})
    preemptor = workload("high", priority=10, requests={"cpu": "4"})
    found = explained(
        job(), workload(requests={"cpu": "2"}), [holding("r", "4"), preemptor], above=above, settings=keeps
    )
    assert found.position is not None
    assert found.position.cluster_queue == 2
    assert (found.kept_for_it, found.starts_by) == (False, None)
    assert "kept for it" not in found.sentence


@pytest.mark.parametrize(("created", "is_first"), [(20, True), (10, False)], ids=["the older head", "the younger one"])
def test_of_two_heads_that_share_quota_the_first_has_a_promise(created: float, is_first: bool) -> None:
    """What is released goes to the older head of the cohort, although its ClusterQueue borrows for it."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    other = workload("o", queueName="o", created=created, requests={"cpu": "2"})
    waits = workload(created=15, requests={"cpu": "2"})
    objects = in_cohort(waits, other, holding("r", "4", **RUNS_LONG))
    found = explained(job(), waits, above=CQ, objects=objects, settings=keeps)
    assert (found.kept_for_it, found.starts_by) == (is_first, at(900) if is_first else None)
    assert ("kept for it" in found.sentence, found.release != "") == (is_first, not is_first)


def test_the_end_of_what_is_being_stopped_is_not_given_as_a_time() -> None:
    """Its pods end in their own time, so the head cannot be promised to start now."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    stopping = holding("r", "4", maximumExecutionTimeSeconds=10)
    found = explained(job(), workload(requests={"cpu": "2"}), [stopping], settings=keeps)
    assert (found.kept_for_it, found.starts_by) == (True, None)


MAX_TIME = "kueue.x-k8s.io/max-exec-time-seconds"


@pytest.mark.parametrize(
    ("longest", "runs", "change"),
    [
        pytest.param(None, RUNS_LONG, f"it declares a maximum execution time of at most 800 s ({MAX_TIME})", id="none"),
        pytest.param(801, RUNS_LONG, f"it declares a maximum execution time of at most 800 s ({MAX_TIME})", id="long"),
        pytest.param(None, {}, f"it declares a maximum execution time ({MAX_TIME})", id="a head without a promise"),
    ],
)
def test_one_that_may_not_delay_the_head_is_told_for_whom_quota_is_kept(longest, runs, change) -> None:
    """Two cpus are free, and kept for `head`, which needs four; what is released next is kept for it too."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    own = {} if longest is None else {"maximumExecutionTimeSeconds": longest}
    waits = workload(created=20, requests={"cpu": "1"}, **own)
    head = workload("head", created=10, requests={"cpu": "4"})
    found = explained(job(), waits, [head, holding("r", "2", **runs)], 100, settings=keeps)
    assert (
        found.sentence
        == "The free quota of ClusterQueue cq is kept for default/head, which is ordered before it (backfill)."
    )
    assert found.changes == [
        "default/head is admitted, or leaves the queue, and enough quota is free then",
        change,
        "it gets a higher priority than default/head",
    ]
    assert (found.next_command, found.released_by, found.release) == (
        "sluice explain default/head",
        None,
        KEPT_FOR_HEAD,
    )


@pytest.mark.parametrize(("longest", "is_refused"), [(301, True), (300, False)])
def test_of_several_heads_the_one_is_named_that_is_to_start_first(longest: int, is_refused: bool) -> None:
    """`older` starts at 900 at the latest, and `sooner`, in the other ClusterQueue, at 400."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    older = workload("older", created=10, requests={"cpu": "4"})
    sooner = workload("sooner", queueName="o", created=12, requests={"cpu": "2"})
    running = holding("r", "2", **RUNS_LONG), holding("s", "1", cluster_queue="other", maximumExecutionTimeSeconds=400)
    waits = workload(created=20, requests={"cpu": "1"}, maximumExecutionTimeSeconds=longest)
    objects = in_cohort(waits, older, sooner, *running)
    found = explained(job(), waits, seconds=100, above=CQ, objects=objects, settings=keeps)
    text = f"it declares a maximum execution time of at most 300 s ({MAX_TIME})"
    assert (text in found.changes, "default/sooner" in found.sentence) == (is_refused, is_refused)


@pytest.mark.parametrize(("longest", "by"), [(None, None), (600, None), (500, 400)])
def test_quota_that_is_kept_for_a_head_is_promised_to_none_that_would_delay_it(longest, by) -> None:
    """`s` has to end at 400, when two cpus are free, and `head` starts at 900 at the latest: 500 s remain."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    own = {} if longest is None else {"maximumExecutionTimeSeconds": longest}
    waits = workload(created=20, requests={"cpu": "1"}, **own)
    head = workload("head", created=10, requests={"cpu": "4"})
    running = [holding("r", "2", **RUNS_LONG), holding("s", "2", maximumExecutionTimeSeconds=400)]
    found = explained(job(), waits, [head, *running], 100, settings=keeps)
    assert found.released_by == (at(by) if by is not None else None)
    release, requests = (
        "running Workloads release 1 cpu of flavor f",
        "It requests 1 cpu, and ClusterQueue cq has 0 cpu",
    )
    if by is not None:
        assert (found.sentence, found.changes) == (f"{requests} of flavor f free.", [f"{release}, {TAKEN}"])
        return
    kept = "what is released is kept for default/head, which is ordered before it (backfill)"
    assert found.sentence == f"{requests} of flavor f free; {kept}."
    assert found.changes == [
        "default/head is admitted, or leaves the queue, and enough quota is free then",
        f"it declares a maximum execution time of at most 500 s ({MAX_TIME}), and {release}",
    ]
    assert found.next_command == "sluice explain default/head"


def test_no_time_is_advised_if_nothing_says_when_enough_is_released() -> None:
    """The head may take what is released, bit by bit, before that is enough for both."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    waits = workload(created=20, requests={"cpu": "4"}, maximumExecutionTimeSeconds=30)
    head = workload("head", created=10, requests={"cpu": "2"})
    running = [holding("r", "1", **RUNS_LONG), holding("s", "1", **RUNS_LONG), holding("t", "2")]
    found = explained(job(), waits, [head, *running], 100, settings=keeps)
    assert "default/head" in found.sentence
    assert not [change for change in found.changes if MAX_TIME in change]


def test_one_may_use_its_own_quota_in_spite_of_the_head_of_another_queue() -> None:
    """`borrows` has to end, or 1 cpu of `own`: then it fits into the nominal quota of its ClusterQueue, which is 2."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    head = workload("head", queueName="o", created=10, requests={"cpu": "2"})
    waits = workload(created=20, requests={"cpu": "1"})
    running = holding("own", "2"), holding("borrows", "2", cluster_queue="other")
    found = explained(job(), waits, above=CQ, seconds=100, objects=in_cohort(waits, head, *running), settings=keeps)
    assert "default/head" in found.sentence
    assert "running Workloads of ClusterQueue cq release 1 cpu of flavor f" in found.changes


def test_a_deleted_job_whose_pods_still_run_is_being_stopped() -> None:
    holds = holding("r", "4")
    deleted = msgspec.structs.replace(holds.metadata, deletion_timestamp=at(90))
    found = explained(job(), workload(requests={"cpu": "2"}), [msgspec.structs.replace(holds, metadata=deleted)], 100)
    assert [(row.workloads, row.stopping) for row in found.holders] == [(1, 1)]


@pytest.mark.parametrize("policy", ["LowerPriority", "LowerOrNewerEqualPriority"])
def test_one_that_may_not_delay_the_head_is_not_said_to_preempt_nor_told_how_to(policy: str) -> None:
    """It could preempt `r`, which is newer, if the policy allows that, and would delay `head`."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    above = cluster_queue(preemption={"withinClusterQueue": policy}, namespaceSelector={})
    head, waits = workload("head", created=10, requests={"cpu": "4"}), workload(created=20, requests={"cpu": "2"})
    running = [holding("r", "2", created=30), holding("s", "2", created=0)]
    found = explained(job(), waits, [head, *running], 100, above=above, settings=keeps)
    may = policy == "LowerOrNewerEqualPriority"
    assert found.sentence.startswith("What preemption could free for it") == may
    assert [c.verdict for c in found.preemptions] == ["KeptForHead" if may else "NotLower"]
    assert not [change for change in found.changes if "withinClusterQueue" in change]


def test_the_own_quota_of_another_queue_is_not_kept_for_a_head() -> None:
    """`head` borrows from the cohort; what `r` releases is the nominal quota of the other ClusterQueue."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    head = workload("head", queueName="o", created=10, requests={"cpu": "4"})
    waits = workload(created=20, requests={"cpu": "2"})
    objects = in_cohort(waits, head, holding("r", "2", **RUNS_LONG))
    found = explained(job(), waits, above=CQ, objects=objects, settings=keeps)
    assert found.released_by == at(900)


@pytest.mark.parametrize(("only_named", "may_name"), [("", True), ("another", False)])
def test_quota_that_the_first_of_a_strict_queue_waits_for_is_said_to_be_kept(only_named: str, may_name: bool) -> None:
    """Of 4 cpus 3 are in use; `head` waits for its 2 in ClusterQueue other, and `j` would borrow the last one."""
    waits, head = workload(created=20, requests={"cpu": "1"}), workload("head", queueName="o", requests={"cpu": "2"})
    shared = in_cohort(waits, head, holding("own", "3", **RUNS_LONG))
    strict = msgspec.structs.replace(OTHER, spec=msgspec.structs.replace(OTHER.spec, queueing_strategy="StrictFIFO"))
    objects = replace(shared, cluster_queues=[CQ, strict])
    found = explained(job(), waits, above=CQ, objects=objects, only_named=only_named)
    name, whose = ("default/head", "default/head") if may_name else (f"a Workload {ANOTHERS}", "that Workload")
    kept = f"kept for {name}, the first of StrictFIFO ClusterQueue other"
    assert found.sentence == f"The free quota of ClusterQueue cq is {kept}."
    assert found.changes == [
        f"{whose} is admitted, or leaves the queue, and enough quota is free then",
        f"running Workloads release so much that {whose} and it both fit",
    ]
    assert (found.code, found.released_by, found.release) == ("WAIT/WaitingForQuota", None, KEPT_FOR_FIRST)
    assert found.next_command == ("sluice explain default/head" if may_name else "sluice ps -q cq/cq")


@pytest.mark.parametrize(("cpu", "ends"), [("2", 500), ("4", None)])
def test_the_head_of_another_queue_does_not_hide_that_a_minimum_runtime_ends(cpu: str, ends: int | None) -> None:
    """`head` waits in ClusterQueue other. `low` may be stopped at 500: for 2 cpus, the nominal quota of cq, which is
    not kept for the head; with 4 the Workload would borrow.
    """
    protects = WorkloadSettings(
        backfill=BackfillRules(timedelta(seconds=0)), max_min_runtime=timedelta(seconds=500).total_seconds()
    )
    low = holding("low", "4", created=0, annotations={"sluice/min-runtime": "500s"})
    head = workload("head", queueName="o", created=10, requests={"cpu": "2"}, priority=9)
    waits = workload(created=20, requests={"cpu": cpu}, priority=9)
    preempts = msgspec.structs.replace(
        CQ.spec, preemption=msgspec.convert({"withinClusterQueue": "LowerPriority"}, Preemption)
    )
    objects = in_cohort(waits, head, low)
    above = msgspec.structs.replace(CQ, spec=preempts)
    objects = replace(objects, cluster_queues=[above, OTHER])
    found = explained(job(), waits, above=above, objects=objects, settings=protects)
    assert "default/head" in found.sentence
    assert [each.at for each in found.deadlines] == ([at(ends)] if ends is not None else [])
    assert (PROTECTION_ENDS in found.changes) == (ends is not None)


def test_behind_the_first_of_a_strict_queue_no_release_is_announced() -> None:
    strict = cluster_queue(queueingStrategy="StrictFIFO", namespaceSelector={})
    head, waits = workload("head", created=10, requests={"cpu": "4"}), workload(created=20, requests={"cpu": "1"})
    found = explained(job(), waits, [head, holding("r", "2", **RUNS_LONG), holding("s", "2")], 100, above=strict)
    assert (found.code, found.released_by, found.release) == ("WAIT/BehindHead", None, "")


def test_of_several_strict_queues_the_one_is_named_that_keeps_the_quota() -> None:
    """`another`, which is the first by rank, waits for memory only."""
    quotas = {"f": {"cpu": "2", "memory": "2Gi"}}
    strict = [
        cluster_queue(name, cohortName="c", namespaceSelector={}, queueingStrategy="StrictFIFO", quotas=quotas)
        for name in ("other", "third")
    ]
    lends = cluster_queue("cq", cohortName="c", namespaceSelector={}, quotas=quotas)
    waits = workload(created=20, requests={"cpu": "1"})
    head = workload("head", queueName="o", created=10, requests={"cpu": "2"})
    another = workload("another", queueName="t", created=5, requests={"memory": "2Gi"})
    flavors = [{"name": "main", "flavors": {"cpu": "f", "memory": "f"}, "count": 1}]
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": flavors}}
    uses = workload("uses", conditions=admitted(), status=status, requests={"cpu": "5", "memory": "5Gi"})
    shared = in_cohort(waits, head, another, uses)
    locals_ = [*shared.local_queues, local_queue("t", cluster_queue="third")]
    objects = replace(shared, cluster_queues=[lends, *strict], local_queues=locals_)
    assert "kept for default/head, the first" in explained(job(), waits, above=lends, objects=objects).sentence


@pytest.mark.parametrize(
    ("beside", "seconds", "start"),
    [("", 100, 900), ("other", 100, None), ("", 900, None)],
    ids=["", "withheld", "late"],
)
def test_no_start_is_promised_where_the_first_of_a_strict_queue_withholds_quota(
    beside: str, seconds: float, start: int | None
) -> None:
    state = SchedulerState()
    state.set_queue(CQ)
    promise = Promise(pending("head"), state.queues["cq"], at(900), {}, ())
    found = Judgement("WaitingForQuota", "", "cq", promise=promise, beside=beside)
    assert promised_start(found, at(seconds)) == (at(start) if start is not None else None)
