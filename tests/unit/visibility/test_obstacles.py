"""Obstacles that keep a Job from starting: each rule, their order, and no statement about what may not be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from job_controller.model import Job
from queue_manager.api import keys, messages
from queue_manager.api.types import Cohort, Workload
from queue_manager.scheduling.resource_rules import COUNT_ALL, ResourceRules
from queue_manager.visibility.job_states import JobState
from queue_manager.visibility.node_fit import NodeFacts
from queue_manager.visibility.obstacles import (
    NOT_INSTALLED,
    Obstacle,
    ReadableQueues,
    further_texts,
    obstacle,
    obstacles,
    pod_class_obstacle,
    why_queue_admits_nothing,
)
from tests.unit.queueing.builders import cohort
from tests.unit.visibility.build import cluster_queue, cond, flavor, job, local_queue, workload

OPEN = cluster_queue(namespaceSelector={})
IN_COHORT = cluster_queue(namespaceSelector={}, cohortName="c")
PICKY = cluster_queue(namespaceSelector={"matchLabels": {"team": "a"}})
WORKS = [cond("Active", "True", "Ready")]  # of a LocalQueue whose manager has the ClusterQueue
CLASS = {keys.PRIORITY_CLASS: "urgnt"}


def queues(above=OPEN, stop: str = "None", **more) -> ReadableQueues:
    local = local_queue(stop=stop)
    base = ReadableQueues(
        local={local.metadata.key: local},
        cluster={above.metadata.name: above},
        flavors={"f": flavor()},
        classes=frozenset({"urgent", "background"}),
        namespaces={"default": {"kubernetes.io/metadata.name": "default"}},
    )
    return replace(base, **more)


def from_files() -> ReadableQueues:
    """What an admin of the cluster sees of a manager with --cluster-objects."""
    local = local_queue(conditions=WORKS)
    return queues(local={local.metadata.key: local}, cluster={}, flavors={}, classes=frozenset())


def has(cpu: str) -> dict[str, Cohort]:
    return {"c": cohort("c", quotas={"f": {"cpu": cpu}})}


def labelled(name: str) -> Job:
    its = job()
    its.metadata.labels[keys.PRIORITY_CLASS] = name
    return its


def judged(reason: str, message: str = "") -> Workload:
    message = messages.PENDING_EVALUATION_MESSAGE if reason == "PendingEvaluation" else message
    return workload(conditions=[cond("QuotaReserved", "False", reason, message)])


REFUSED = frozenset({(job().metadata.uid, "urgnt")})  # by an Event of the manager
HUGE, GPU = job(requests={"cpu": "64"}), job(requests={"cpu": "1", "gpu": "1"})
NO_CLASS = "cannot start: WorkloadPriorityClass {} does not exist"
GOLDEN = job(pod={"priorityClassName": "golden"})
NO_POD_CLASS = "can never start: PriorityClass golden does not exist; did you mean gold?"
NOT_SELECTED = "cannot start: ClusterQueue cq admits no Jobs of namespace default (namespaceSelector)"
TOO_LARGE = "can never start: asks 64 cpu, queue limit 4"
NO_QUOTA = "cannot start: ClusterQueue cq has no quota for gpu"
HELD = "waits: LocalQueue q is held (sluice release q)"


@pytest.mark.parametrize(
    ("its", "held_by", "around", "says"),
    [
        (job(), None, queues(), None),
        (job(queue=""), None, queues(PICKY), None),
        (labelled("urgent"), None, queues(), None),
        (labelled("urgnt"), None, queues(), f"{NO_CLASS.format('urgnt')}; did you mean urgent?"),
        (labelled("x"), None, queues(), NO_CLASS.format("x")),
        (labelled("urgnt"), workload(), queues(), None),
        (labelled("urgnt"), None, queues(classes=None), None),
        (GPU, None, queues(cluster_queue()), NOT_SELECTED),
        (HUGE, None, queues(PICKY), NOT_SELECTED),
        (job(), None, queues(PICKY, namespaces={}), None),
        (job(), None, queues(PICKY, namespaces={"default": {"team": "a"}}), None),
        (HUGE, None, queues(stop="Hold"), TOO_LARGE),
        (HUGE, None, queues(flavors=None), None),
        (HUGE, None, queues(IN_COHORT), None),
        (HUGE, None, queues(IN_COHORT, cohorts={}), TOO_LARGE),
        (HUGE, None, queues(IN_COHORT, cohorts={"c": cohort("c", quotas={"f": {"cpu": "60"}})}), None),
        (
            HUGE,
            None,
            queues(IN_COHORT, cohorts={"c": cohort("c", quotas={"f": {"cpu": "59"}})}),
            TOO_LARGE.replace("limit 4", "limit 63"),
        ),
        (GPU, None, queues(stop="Hold"), HELD),
        (job(), None, queues(cluster=None, stop="Hold"), HELD),
        (job(), None, queues(cluster={}), "cannot start: ClusterQueue cq does not exist"),
        (HUGE, judged("ExceedsMaxQuota", "too much"), queues(cluster=None), "cannot start: too much"),
        (HUGE, judged("WaitingForQuota"), queues(cluster=None), None),
        (labelled("of-the-file"), None, from_files(), None),
        (labelled("urgnt"), None, replace(from_files(), refused_classes=REFUSED), NO_CLASS.format("urgnt")),
        (labelled("corrected"), None, replace(from_files(), refused_classes=REFUSED), None),
        (labelled("urgnt"), workload(), replace(from_files(), refused_classes=REFUSED), None),
        (labelled("urgnt"), None, queues(classes=None, refused_classes=REFUSED), NO_CLASS.format("urgnt")),
        (labelled("urgent"), None, queues(refused_classes=frozenset({(job().metadata.uid, "urgent")})), None),
        (HUGE, judged("ExceedsMaxQuota", "too much"), from_files(), "cannot start: too much"),
        (job(queue="nope"), None, queues(), "cannot start: LocalQueue nope does not exist in namespace default"),
        (job(queue="nope"), None, ReadableQueues(), None),
        (GPU, None, queues(), f"{NO_QUOTA}, unless the configuration excludes it"),
        (GPU, judged("NoMatchingFlavor"), queues(), NO_QUOTA),
        (GPU, judged("PendingEvaluation"), queues(), f"{NO_QUOTA}, unless the configuration excludes it"),
        (GPU, None, queues(rules=COUNT_ALL), NO_QUOTA),
        (GPU, judged("PendingEvaluation"), queues(rules=COUNT_ALL), NO_QUOTA),
        (GPU, judged("WaitingForQuota"), queues(rules=COUNT_ALL), None),
        (GPU, None, queues(rules=ResourceRules(excluded_prefixes=("gpu",))), None),
        (GPU, None, queues(rules=ResourceRules(ignore_undeclared=True)), None),
        (HUGE, None, queues(rules=ResourceRules(excluded_prefixes=("cpu",))), None),
        (GPU, judged("WaitingForQuota"), queues(), None),
        (GPU, None, queues(cluster=None), None),
        (None, workload(), queues(stop="Hold"), HELD),
        (job(), None, ReadableQueues(installed=False), f"cannot start: the cluster {NOT_INSTALLED}"),
        (job(queue=""), None, ReadableQueues(installed=False), None),
        (job(annotations={keys.PREBUILT_WORKLOAD: "w"}, requests={"cpu": "64"}), None, queues(), None),
    ],
)
def test_the_first_rule_that_applies_is_the_obstacle(
    its: Job | None, held_by: Workload | None, around: ReadableQueues, says: str | None
) -> None:
    found = obstacle(its, held_by, around)
    assert (found.text if found else None) == says


SMALL = [NodeFacts("small", {keys.LOCAL_NODE: "true"}, {"cpu": "2"})]
NO_NODE = "can never start: the only node, small, has 2 cpu allocatable; a pod requests 64"


@pytest.mark.parametrize(
    ("its", "around", "says"),
    [
        (HUGE, queues(nodes=SMALL), [TOO_LARGE, NO_NODE]),
        (HUGE, queues(cluster_queue(), nodes=SMALL, stop="Hold"), [NOT_SELECTED, TOO_LARGE, NO_NODE, HELD]),
        (
            job(requests={"cpu": "64", "gpu": "1"}),
            queues(PICKY, rules=COUNT_ALL, nodes=SMALL, classes=None),
            [NOT_SELECTED, TOO_LARGE, NO_QUOTA, NO_NODE.replace(": ", ": no node has gpu; a pod requests 1; ", 1)],
        ),
        (labelled("x"), queues(cluster_queue()), [NO_CLASS.format("x"), NOT_SELECTED]),
        (job(), queues(), []),
    ],
)
def test_all_obstacles_are_found_in_the_order_of_the_rules(its: Job, around: ReadableQueues, says: list[str]) -> None:
    found = list(obstacles(its, None, around))
    assert [each.text for each in found] == says
    assert further_texts(found) == says[1:]
    assert obstacle(its, None, around) == (found[0] if found else None)


def test_what_is_uncertain_or_only_waits_has_no_further_obstacles() -> None:
    assert further_texts(list(obstacles(GPU, None, queues(cluster_queue())))) == []  # NO_QUOTA is uncertain
    assert further_texts(list(obstacles(GPU, None, queues(stop="Hold", rules=COUNT_ALL)))) == []


def test_only_obstacles_that_need_a_change_are_never_and_have_a_remedy() -> None:
    for its, around in ((HUGE, queues()), (job(), queues(PICKY)), (labelled("urgnt"), queues())):
        found = obstacle(its, None, around)
        assert found is not None
        assert (found.never, found.certain, bool(found.remedy)) == (True, True, True)
    assert obstacle(job(), None, queues(stop="Hold")) == Obstacle(HELD)
    doubtful = obstacle(GPU, None, queues())
    assert doubtful is not None
    assert (doubtful.never, doubtful.certain) == (False, False)


def test_a_class_that_pods_name_is_missing_while_there_are_none() -> None:
    known = frozenset({"gold"})
    found = pod_class_obstacle(GOLDEN, known)
    assert found is not None
    assert (found.text, found.never) == (NO_POD_CLASS, True)
    assert pod_class_obstacle(GOLDEN, None) is None
    assert pod_class_obstacle(GOLDEN, known | {"golden"}) is None
    started = job(suspend=False, status={"active": 1}, pod={"priorityClassName": "golden"})
    assert pod_class_obstacle(started, known) is None


def test_a_pending_job_shows_a_missing_class_of_its_pods_before_its_quota() -> None:
    found = pod_class_obstacle(GOLDEN, frozenset({"gold"}))
    said = why_queue_admits_nothing(judged("WaitingForQuota"), found, JobState.PENDING, "WaitingForQuota")
    assert said == NO_POD_CLASS
    others = Obstacle(TOO_LARGE, never=True)
    assert why_queue_admits_nothing(judged("WaitingForQuota"), others, JobState.PENDING, "WaitingForQuota") == ""
