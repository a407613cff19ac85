"""`sluice doctor` and `sluice explain` say of the same Jobs that they can never start as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from queue_manager.api import messages
from queue_manager.configuration import KueueConfig
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.scheduling.resource_rules import ResourceRules
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from queue_manager.visibility.diagnosis.waiting_rules import never_starting
from tests.unit.visibility.build import at, cluster_queue, cond, flavor, job, local_queue, workload
from tests.unit.visibility.test_explain_record import NAMESPACES, explained, holding

OPEN = cluster_queue(namespaceSelector={})
MEMORY = {"cpu": "1", "memory": "1Gi"}
TAINTED = [flavor(nodeTaints=[{"key": "spot", "value": "true", "effect": "NoSchedule"}])]
NO_QUOTA = "ClusterQueue cq has no quota for memory; do not request it, or have an admin add a quota."
EXCLUDED = ResourceRules(excluded_prefixes=("memory",))


def doctor(requests: dict[str, str], reason: str, **around: Any) -> list[str]:
    """`reason`: that of QuotaReserved=False, which the scheduler has published."""
    message = messages.PENDING_EVALUATION_MESSAGE if reason == "PendingEvaluation" else "tried"
    judged = [cond("QuotaReserved", "False", reason, message)]
    snapshot = ClusterSnapshot(
        now=at(100),
        config=KueueConfig(),
        jobs=[job(requests=requests)],
        workloads=[workload(requests=requests, conditions=judged)],
        local_queues=[local_queue()],
        cluster_queues=[OPEN],
        cohorts=[],
        flavors=[flavor()],
        namespaces={each.metadata.name: each.metadata.labels for each in NAMESPACES},
    )
    return [problem.sentence for problem in never_starting(replace(snapshot, **around))]


CASES = [
    ("it fits", {"cpu": "1"}, "PendingEvaluation", {}, None),
    ("it waits for quota", {"cpu": "2"}, "WaitingForQuota", {}, None),
    ("above the quota", {"cpu": "64"}, "ExceedsMaxQuota", {}, "asks 64 cpu, queue limit 4"),
    ("without quota", MEMORY, "NoMatchingFlavor", {}, NO_QUOTA),
    ("without quota, not tried", MEMORY, "PendingEvaluation", {}, NO_QUOTA),
    ("without quota, in a held queue", MEMORY, "Suspended", {"local_queues": [local_queue(stop="Hold")]}, NO_QUOTA),
    ("an excluded resource", MEMORY, "PendingEvaluation", {"rules": EXCLUDED}, None),
    ("a taint", {"cpu": "1"}, "NoMatchingFlavor", {"flavors": TAINTED}, "untolerated taint"),
    (
        "another namespace",
        {"cpu": "1"},
        "Misconfigured",
        {"cluster_queues": [cluster_queue()]},
        "admits no Jobs of namespace default (namespaceSelector)",
    ),
]


@pytest.mark.parametrize(
    ("requests", "reason", "around", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_doctor_and_explain_agree_on_the_jobs_that_never_start(
    requests: dict[str, str], reason: str, around: dict[str, Any], why: str | None
) -> None:
    sentences = doctor(requests, reason, **around)
    [local], [above] = around.get("local_queues", [local_queue()]), around.get("cluster_queues", [OPEN])
    found = explained(
        job(requests=requests),
        workload(requests=requests),
        [holding("other", "3")] if reason == "WaitingForQuota" else [],
        local=local,
        above=above,
        flavors=around.get("flavors", [flavor()]),
        settings=WorkloadSettings(resources=around.get("rules", ResourceRules())),
    )
    assert (found.code.partition("/")[0] == "NEVER", len(sentences)) == (why is not None, int(why is not None))
    assert all(str(why) in sentence for sentence in sentences)


def test_without_configuration_only_the_scheduler_knows_what_needs_quota() -> None:
    assert doctor(MEMORY, "PendingEvaluation", config=None) == []
    assert len(doctor(MEMORY, "NoMatchingFlavor", config=None)) == 1
