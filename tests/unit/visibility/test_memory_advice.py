"""What `sluice explain` advises for a Job that was killed for its memory."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from job_controller.model import Job
from queue_manager.visibility.memory_advice import memory_advice
from queue_manager.visibility.wire_types import Pod
from tests.unit.visibility.build import job, pod

LIMITED: dict[str, Any] = {"limits": {"memory": "64Mi"}, "requests": {"memory": "32Mi"}}


def with_containers(**resources: dict[str, Any]) -> Job:
    return job(pod={"containers": [{"name": name, "resources": found} for name, found in resources.items()]})


def killed(name: str = "p", created: float = 0, peak: str = "") -> Pod:
    made = pod(name, "Failed", exit=137, reason="OOMKilled", created=created)
    annotations = {"sluice/peak-memory-bytes": peak} if peak else {}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=annotations))


AGAIN = "raise limits.memory, and the request with it, above 64Mi, and submit the Job again"


@pytest.mark.parametrize(
    ("made", "pods", "advice"),
    [
        (with_containers(c=LIMITED), [killed()], ["container c: limits.memory 64Mi, request 32Mi", AGAIN]),
        (
            with_containers(c={"limits": {"memory": "64Mi"}}),
            [killed(peak="1"), killed("newest", 1, peak=str(97 << 20))],
            [
                "container c: limits.memory 64Mi, request 64Mi, peak 97Mi",
                AGAIN.replace("64Mi,", "64Mi (it had 97Mi and needed more),"),
            ],
        ),
        (with_containers(a={}, b=LIMITED), [], ["container b: limits.memory 64Mi, request 32Mi", AGAIN]),
        (with_containers(a=LIMITED, b=LIMITED), [], []),
        (
            with_containers(c={}),
            [killed(peak="many")],
            [
                "container c: no limits.memory",
                "the memory of its node ran out: request as much memory as it needs, and submit the Job again",
            ],
        ),
    ],
    ids=["limit and request", "peak of the newest pod", "its pods are gone", "either container", "no limit"],
)
def test_the_limit_and_what_to_do_are_named(made: Job, pods: list[Pod], advice: list[str]) -> None:
    assert memory_advice(made, pods, "OOMKilled") == advice


def test_a_deactivated_job_keeps_its_name_and_is_reactivated() -> None:
    advice = memory_advice(with_containers(c=LIMITED), [killed()], "OOMKilled", deactivated=True)
    assert advice[1].endswith("above 64Mi, then reactivate the Job")


def test_another_cause_gets_no_advice_about_memory() -> None:
    assert memory_advice(with_containers(c=LIMITED), [killed()], "exit 3: boom") == []
