"""Failures: backoff, its limits, deadlines."""

from __future__ import annotations

from tests.control_plane.jobs.history import do, history
from tests.control_plane.jobs.scenarios.counting import MANUAL, duplicate, indexed

ON_FAILURE = {"restartPolicy": "OnFailure"}


def per_index(completions: int, limit: int, parallelism: int | None = None, **more: object) -> dict[str, object]:
    return indexed(completions, parallelism, backoffLimitPerIndex=limit, **more)


SCENARIOS = (
    history("the first failure ends a Job without backoff limit", {"backoffLimit": 0}, do("fail")),
    history("one failure more than the limit", {"backoffLimit": 1}, do("fail"), do("fail")),
    history(
        "a failing Job takes its running pods along",
        {"backoffLimit": 0, "completions": 3, "parallelism": 3},
        do("run"),
        do("fail", at=0),
        do("end"),
    ),
    history(
        "pending pods of a failing Job go at once",
        {"backoffLimit": 0, "completions": 3, "parallelism": 3},
        do("fail", at=0),
    ),
    history(
        "pods that succeed while their Job fails",
        {"backoffLimit": 0, "completions": 3, "parallelism": 3},
        do("run"),
        do("fail", at=0),
        do("end", phase="Succeeded"),
    ),
    history("all fail at once", {"backoffLimit": 2, "completions": 3, "parallelism": 3}, do("fail", ago=0)),
    history("the limit is lowered below the failures", {"backoffLimit": 5}, do("fail"), do("spec", backoffLimit=0)),
    history("the limit is raised", {"backoffLimit": 1}, do("fail"), do("spec", backoffLimit=3), *[do("fail")] * 3),
    history("the first failure is waited for", {"backoffLimit": 3}, do("fail", ago=0), do("until", living=1)),
    history(
        "the wait counts from the end of the pod",
        {"backoffLimit": 3},
        do("fail", ago=5),
        do("until", living=1),
        do("fail", ago=15),
        do("until", living=1),
    ),
    history(
        "three failures at once are waited for longer",
        {"backoffLimit": 9, "completions": 3, "parallelism": 3},
        do("fail", ago=0),
        do("until", living=3),
    ),
    history(
        "running pods are reported while the rest waits",
        {"backoffLimit": 9, "completions": 3, "parallelism": 3},
        do("run", at=0),
        do("fail", at=[1, 2], ago=0),
        do("pass", seconds=2),
    ),
    history(
        "a success ends the waiting",
        {"backoffLimit": 9, "completions": 3, "parallelism": 2},
        do("fail", at=0, ago=5),
        do("succeed", at=0),
        do("succeed"),
    ),
    history(
        "a pod that says nothing has failed too", {"backoffLimit": 1}, do("fail", bare=True), do("until", living=1)
    ),
    history(
        "restarts in place count",
        {"backoffLimit": 3},
        do("run", restarts=1),
        do("run", restarts=2),
        do("run", restarts=3),
        template=ON_FAILURE,
    ),
    history("one restart is too many", {"backoffLimit": 0}, do("run", restarts=1), do("end"), template=ON_FAILURE),
    history(
        "restarts of all pods count together",
        {"backoffLimit": 4, "completions": 2, "parallelism": 2},
        do("run", restarts=2),
        do("end"),
        template=ON_FAILURE,
    ),
    history("restarts do not count where pods are never restarted", {"backoffLimit": 1}, do("run", restarts=5)),
    history("a deadline is met", {"activeDeadlineSeconds": 3600}, do("run"), do("succeed")),
    history("a deadline is missed", {"activeDeadlineSeconds": 15}, do("run"), do("until", living=0), do("end")),
    history("a deadline comes later", {}, do("run"), do("spec", activeDeadlineSeconds=1), do("end")),
    history("a deadline of no time", {"activeDeadlineSeconds": 0}),
    history("an index fails alone", per_index(3, 0), do("fail", index=1), do("succeed")),
    history("an index has its tries", per_index(2, 1), do("fail", index=1), do("fail", index=1), do("succeed")),
    history(
        "each index counts for itself",
        per_index(3, 1),
        do("fail"),
        do("fail", index=[0, 2]),
        do("succeed"),
    ),
    history("all indexes fail", per_index(2, 0), do("fail")),
    history(
        "a failed pod waits to be counted until it is replaced",
        per_index(2, 2),
        do("fail", index=0, ago=0),
        do("until", living=2),
        do("succeed"),
    ),
    history(
        "an index that waits does not hold up the others", per_index(2, 2), do("fail", index=0, ago=0), do("succeed")
    ),
    history(
        "one failed index too many",
        per_index(4, 0, maxFailedIndexes=1),
        do("run"),
        do("fail", index=1),
        do("fail", index=2),
        do("end"),
    ),
    history(
        "the limit of failed indexes is lowered",
        per_index(4, 0, maxFailedIndexes=3),
        do("fail", index=[1, 2]),
        do("spec", maxFailedIndexes=1),
    ),
    history(
        "both limits hold",
        per_index(2, 3, backoffLimit=1),
        do("fail", ago=0),
    ),
    history(
        "a failed index leaves with an elastic Job",
        per_index(3, 0),
        do("fail", index=2),
        do("spec", completions=2, parallelism=2),
        do("succeed"),
    ),
    history(
        "a failure count that cannot be read is none",
        per_index(1, 1, **MANUAL),
        duplicate("0", index_failure_count="many"),
        do("fail"),
    ),
    history(
        "the failure count of a pod made by others is believed",
        per_index(1, 1, **MANUAL),
        duplicate("0", index_failure_count="1"),
        do("fail"),
    ),
    history(
        "a deleted pod is a try of its index",
        per_index(2, 1),
        do("run"),
        do("delete", index=0),
        do("end"),
        do("until", living=2),
    ),
    history(
        "an index of a waiting pod is tried again after a restart of the pod's node",
        per_index(2, 1, podReplacementPolicy="Failed"),
        do("run"),
        do("delete", index=0),
        do("end"),
        do("until", living=2),
    ),
    history(
        "an elastic Job shrinks while an index waits",
        per_index(3, 2),
        do("fail", index=2, ago=0),
        do("spec", completions=2, parallelism=2),
        do("succeed"),
    ),
    history(
        "a Job with limits per index is deleted while one waits",
        per_index(2, 2),
        do("fail", index=0, ago=0),
        do("remove"),
    ),
)
