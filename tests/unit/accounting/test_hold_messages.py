"""Which queue the step Held names."""

from __future__ import annotations

import pytest

from job_controller.model import ObjectMeta
from queue_manager.accounting.hold_messages import with_stopped_queue
from queue_manager.accounting.record_types import StepKind, StepRecord
from queue_manager.api.types import ClusterQueue, ClusterQueueSpec, LocalQueue, LocalQueueSpec
from tests.unit.accounting.history_samples import at

BEFORE = "ClusterQueue cq is inactive"


def step(kind: StepKind) -> StepRecord:
    return StepRecord(job_uid="j1", uid="w1", attempt=1, kind=kind, at=at(1), reason="Suspended", message=BEFORE)


def local(policy: str) -> LocalQueue:
    return LocalQueue(metadata=ObjectMeta(name="lq"), spec=LocalQueueSpec(cluster_queue="cq", stop_policy=policy))


def above(policy: str) -> ClusterQueue:
    return ClusterQueue(metadata=ObjectMeta(name="cq"), spec=ClusterQueueSpec(stop_policy=policy))


@pytest.mark.parametrize(
    ("lower", "upper", "says"),
    [
        (local("Hold"), above("None"), "LocalQueue lq is held"),
        (local("HoldAndDrain"), above("Hold"), "LocalQueue lq is drained"),
        (local("None"), above("HoldAndDrain"), "ClusterQueue cq is drained"),
        (local(""), above(""), BEFORE),
        (None, None, BEFORE),
    ],
)
def test_a_held_step_names_the_stopped_queue_as_ps_does(
    lower: LocalQueue | None, upper: ClusterQueue | None, says: str
) -> None:
    assert with_stopped_queue(step(StepKind.HELD), lower, upper) == StepRecord(
        job_uid="j1", uid="w1", attempt=1, kind=StepKind.HELD, at=at(1), reason="Suspended", message=says
    )
    assert with_stopped_queue(step(StepKind.EVICTED), lower, upper) == step(StepKind.EVICTED)
