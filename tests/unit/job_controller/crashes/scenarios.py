"""Twenty reference scenarios: a Job, how its pods run, and what its user does meanwhile.

Their result does not depend on exact timing, so a controller that was down for a while must reach the same one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from job_controller.labels import COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT
from job_controller.model import Pod
from queue_manager.simulation.kubelet import PodScript, Script

Tree = dict[str, Any]
OK, BAD, ENDLESS = PodScript(ends_after=5.0), PodScript(ends_after=5.0, exit_code=1), PodScript(ends_after=None)


@dataclass(frozen=True)
class Scenario:
    """`edits`: (virtual seconds after the start, merge patch of the spec of the Job). `counts_pods`: in the end
    succeeded and failed equal the numbers of pods that ended so.
    """

    name: str
    spec: Tree
    script: Script
    edits: tuple[tuple[float, Tree], ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    counts_pods: bool = True


def _index(pod: Pod) -> int:
    return int(pod.metadata.annotations.get(COMPLETION_INDEX, "-1"))


def _tries(pod: Pod) -> int:
    notes = pod.metadata.annotations
    return int(notes.get(INDEX_FAILURE_COUNT, "0")) + int(notes.get(INDEX_IGNORED_FAILURE_COUNT, "0"))


def all_are(outcome: PodScript) -> Script:
    return lambda pod: outcome


def by_index(outcomes: dict[int, PodScript], others: PodScript = OK) -> Script:
    return lambda pod: outcomes.get(_index(pod), others)


def first_tries(number: int, outcome: PodScript = BAD) -> Script:
    """The first pods of each index fail."""
    return lambda pod: outcome if _tries(pod) < number else OK


def code(number: int) -> PodScript:
    return PodScript(ends_after=5.0, exit_code=number)


def indexed(number: int, **more: Any) -> Tree:
    return {"completionMode": "Indexed", "completions": number, "parallelism": number, **more}


def on_code(action: str, *values: int) -> Tree:
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": list(values)}}
    return {"podFailurePolicy": {"rules": [rule]}}


TWO: Tree = {"completions": 2, "parallelism": 2}
SUSPEND, RESUME = {"suspend": True}, {"suspend": False}


def stops_late(script: PodScript) -> PodScript:
    return PodScript(script.ready_after, script.ends_after, script.exit_code, stops_within=4.0)


SCENARIOS = (
    Scenario("all succeed", TWO, all_are(OK)),
    Scenario("one after the other", {"completions": 2, "parallelism": 1}, all_are(OK)),
    Scenario("a work queue", {"parallelism": 2}, all_are(OK)),
    Scenario("every index succeeds", indexed(3), all_are(OK)),
    Scenario("the backoff limit", {"backoffLimit": 1}, all_are(BAD)),
    Scenario(
        "a failing Job takes others along",
        {**indexed(2), "backoffLimit": 0},
        by_index({0: BAD}, ENDLESS),
        counts_pods=False,
    ),
    Scenario("the deadline", {**TWO, "activeDeadlineSeconds": 20}, all_are(ENDLESS), counts_pods=False),
    Scenario("tries of each index", indexed(2, backoffLimitPerIndex=1), first_tries(1)),
    Scenario("an index that fails for good", indexed(2, backoffLimitPerIndex=1), by_index({1: BAD})),
    Scenario(
        "too many failed indexes",
        indexed(3, backoffLimitPerIndex=0, maxFailedIndexes=0),
        by_index({1: BAD}, ENDLESS),
        counts_pods=False,
    ),
    Scenario(
        "a code that fails the Job",
        {**indexed(2), **on_code("FailJob", 42)},
        by_index({1: code(42)}, ENDLESS),
        counts_pods=False,
    ),
    Scenario(
        "a code that fails the index",
        {**indexed(2, backoffLimitPerIndex=3), **on_code("FailIndex", 42)},
        by_index({1: code(42)}),
    ),
    Scenario(
        "an ignored failure of an index",
        {**indexed(2, backoffLimitPerIndex=0), **on_code("Ignore", 42)},
        first_tries(1, code(42)),
        counts_pods=False,
    ),
    Scenario("a counted failure", {**on_code("Count", 42), "backoffLimit": 0}, all_are(code(42))),
    Scenario(
        "one index is enough",
        {**indexed(2), "successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
        by_index({0: OK}, ENDLESS),
        counts_pods=False,
    ),
    Scenario(
        "a number is enough",
        {**indexed(3), "successPolicy": {"rules": [{"succeededCount": 1}]}},
        by_index({2: OK}, ENDLESS),
        counts_pods=False,
    ),
    Scenario(
        "suspended and resumed",
        TWO,
        all_are(stops_late(PodScript(ends_after=30.0))),
        ((15.0, SUSPEND), (60.0, RESUME)),
        counts_pods=False,
    ),
    Scenario("born suspended", {**TWO, "suspend": True}, all_are(OK), ((15.0, RESUME),)),
    Scenario(
        "parallelism falls and rises",
        {"completions": 2, "parallelism": 2},
        all_are(PodScript(ends_after=30.0)),
        ((15.0, {"parallelism": 1}),),
        counts_pods=False,
    ),
    Scenario(
        "an elastic Job shrinks",
        indexed(3),
        by_index({2: ENDLESS}, PodScript(ends_after=30.0)),
        ((15.0, {"completions": 2, "parallelism": 2}),),
        counts_pods=False,
    ),
    Scenario(
        "replaced only when ended",
        {**indexed(2, backoffLimitPerIndex=1), "podReplacementPolicy": "Failed"},
        first_tries(1),
    ),
    Scenario(
        "few failed pods are kept",
        {"backoffLimit": 2},
        all_are(BAD),
        annotations={"sluice/failed-pods-limit": "1", "sluice/backoff-seconds": "2"},
        counts_pods=False,
    ),
)
