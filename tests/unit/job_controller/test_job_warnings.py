"""Jobs that cannot be handled as written get an Event that names the field."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from job_controller.model import Job
from job_controller.options import JobControllerOptions
from job_controller.pod_adoption import claims
from job_controller.switched_off_features import Switches
from job_controller.sync import decide
from queue_manager.api.api_resources import EVENTS
from queue_manager.simulation.kubelet import PodScript
from tests.unit.job_controller.build import T0, events, indexed, job, kinds, pod, run
from tests.unit.job_controller.test_on_the_api_server import Cluster, virtually

WORDS = "must be a whole number of at most 9 digits"


def without_selector() -> Job:
    plain = job()
    return msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, selector=None))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (job(completion_mode="Sorted"), "UnknownCompletionMode Skipped Job sync because completion mode is unknown"),
        (job(completion_mode="Indexed", completions=None),
         "InvalidJob spec.completions: Required value: when completion mode is Indexed; the Job is not synced"),
        (without_selector(), "InvalidJob spec.selector: Required value; the Job is not synced"),
        (job(parallelism=-1), "InvalidJob spec.parallelism: Invalid value: -1: must be greater than or equal to 0; "
         "the Job is not synced"),
        (job(backoff_limit=-2), "InvalidJob spec.backoffLimit: Invalid value: -2: must be greater than or equal to 0; "
         "the Job is not synced"),
    ],
    ids=["mode", "completions", "selector", "parallelism", "backoff limit"],
)  # fmt: skip
def test_invalid_job_is_not_synced_and_the_event_names_the_field(wrong: Job, said: str) -> None:
    decision = run(wrong, pod("a", "Failed"), pod("b"))
    assert (decision.steps, events(decision), decision.requeue_after) == ((), [f"Warning {said}"], None)
    assert events(run(wrong, pod("a"), memory=decision.memory)) == [], "once"


def test_pods_of_a_job_without_selector_stay_with_it() -> None:
    found = claims(without_selector(), [pod("a")], [pod("b", owner=None)])
    assert ([p.metadata.name for p in found.owned], found.adopt, found.release) == (["a"], (), ())


def test_invalid_job_releases_its_pods_when_it_is_deleted() -> None:
    decision = run(job(completion_mode="Indexed", completions=None, deleted=True), pod("a", index=0))
    assert "ReleasePods" in kinds(decision)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "10s", "1e3", "٣", "1" * 10, "many"])
def test_malformed_annotation_records_an_event_and_the_default_applies(text: str) -> None:
    slow = job(annotations={"sluice/backoff-seconds": text, "sluice/failed-pods-limit": text})
    decision = run(slow, pod("a", "Failed", tracked=False), pod("b", "Failed", ended=0), now=0)
    assert events(decision) == [
        f'Warning InvalidAnnotation metadata.annotations[sluice/backoff-seconds]: Invalid value: "{text}": {WORDS}; '
        "the configured backoff applies",
        f'Warning InvalidAnnotation metadata.annotations[sluice/failed-pods-limit]: Invalid value: "{text}": {WORDS}; '
        "all failed pods are kept",
    ]
    assert decision.requeue_after == 20.0, "the wait after two failures as it is by default"
    assert "PrunePods" not in kinds(decision)
    assert events(run(slow, pod("b", "Failed"), memory=decision.memory)) == [], "once"


def test_malformed_annotation_records_an_event_each_time_it_is_set() -> None:
    first = run(job(annotations={"sluice/backoff-seconds": "x"}))
    right = run(job(annotations={"sluice/backoff-seconds": "5"}), memory=first.memory)
    again = run(job(annotations={"sluice/backoff-seconds": "x"}), memory=right.memory)
    assert [len(events(decision)) for decision in (first, right, again)] == [1, 0, 1]


@pytest.mark.parametrize(
    ("limit", "until"), [(None, "forever"), (3, "until spec.backoffLimit (3) ends the Job")], ids=["none", "three"]
)
def test_indexes_that_restart_in_their_pods_are_reported_once(limit: int | None, until: str) -> None:
    """The kubelet restarts the container, so no failed pod is counted against the index."""
    limits = {"backoff_limit": limit} if limit is not None else {}
    endless = indexed(2, backoff_limit_per_index=1, restart_policy="OnFailure", **limits)
    decision = run(endless, pod("a", index=0, restarts=2), pod("b", index=1))
    assert events(decision) == [
        "Warning IndexNeverFails spec.backoffLimitPerIndex: has no effect with restartPolicy OnFailure: a container "
        f'that fails is restarted in its pod {until}, and the index does not fail; use restartPolicy "Never"'
    ]
    assert events(run(endless, pod("a", index=0), pod("b", index=1), memory=decision.memory)) == []
    off = JobControllerOptions(switches=Switches(backoff_limit_per_index=False))
    assert events(decide(endless, (), None, T0, off)) == [], "the field is switched off"


def test_valid_jobs_record_no_warning() -> None:
    sensible = [job(), indexed(3), job(completions=None), job(annotations={"sluice/backoff-seconds": "0"})]
    sensible += [indexed(3, backoff_limit_per_index=1), job(restart_policy="OnFailure")]
    for one in sensible:
        assert not [event for event in events(run(one)) if event.startswith("Warning")]


@virtually
async def test_the_event_stands_on_the_job_and_its_pods_run_all_the_same() -> None:
    def fails_once(pod: Any) -> PodScript:
        return PodScript(ends_after=1.0)

    cluster = Cluster()
    async with cluster.controllers(fails_once):
        await cluster.submit(annotations={"sluice/failed-pods-limit": "some"})
        status = await cluster.finished()
        assert status["succeeded"] == 1

        async def recorded() -> bool:
            found = await cluster.user.list(EVENTS, "default")
            return any(e["reason"] == "InvalidAnnotation" and e["involvedObject"]["kind"] == "Job" for e in found)

        await cluster.until(recorded, seconds=timedelta(minutes=1).total_seconds())
