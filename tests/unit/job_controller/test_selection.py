"""Which pods belong to a Job, which are deleted first, and deletions that failed half-way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from job_controller.labels import CONTROLLER_UID, DELETING
from job_controller.model import LabelSelector, Pod
from job_controller.pod_adoption import claims, matches
from job_controller.pod_deletion_order import removal_order
from job_controller.sync_steps import TrackPods
from tests.unit.job_controller.build import UID, created, deleted, final, indexed, job, kinds, pod, run


def names(pods: Any) -> list[str]:
    return [p.metadata.name for p in pods]


def test_removal_order_by_state() -> None:
    order = [
        pod("unbound", "Pending", node=""),
        pod("pending", "Pending"),
        pod("unknown", "Unknown"),
        pod("unready", "Running"),
        pod("ready-young", ready=True, created=9),
        pod("ready-restarted", ready=True, created=5, restarts=3),
        pod("ready", ready=True, created=5),
    ]
    assert names(removal_order(reversed(order))) == names(order)


def test_equal_pods_go_newest_first() -> None:
    assert names(removal_order([pod("old", created=1), pod("new", created=2)])) == ["new", "old"]


def test_of_pods_equal_in_all_else_the_lower_index_goes_first() -> None:
    assert names(removal_order([pod("two", index=2), pod("zero", index=0), pod("one", index=1)])) == [
        "zero",
        "one",
        "two",
    ]


def counted(name: str, app: tuple[int, ...], sidecar: int = 0, init: int = 0) -> Pod:
    """A pod with these restarts: of containers, of a sidecar, and of a finished init container."""
    found = msgspec.to_builtins(pod(name, created=ord(name[0])))
    found["spec"]["initContainers"] = [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}]
    found["status"]["containerStatuses"] = [{"name": str(i), "restartCount": n} for i, n in enumerate(app)]
    restarts = (("init", init), ("side", sidecar))
    found["status"]["initContainerStatuses"] = [{"name": name, "restartCount": n} for name, n in restarts]
    return msgspec.convert(found, Pod)


def test_removal_order_by_restarts_of_containers_then_sidecars() -> None:
    order = [counted("a", (1, 5)), counted("b", (4, 4), sidecar=9), counted("d", (4,), sidecar=3)]
    order += [counted("e", (0, 4)), counted("c", (4, 0), init=8), counted("f", ())]
    assert names(removal_order(reversed(order))) == names(order)


def test_pod_without_ready_time_is_removed_first() -> None:
    """As upstream: an absent time sorts before every time."""
    silent = pod("a", conditions=[("Ready", "True")], created=1)
    assert names(removal_order([pod("b", ready=True, created=9), silent])) == ["a", "b"]


def test_lower_parallelism_removes_the_surplus_and_creates_nothing() -> None:
    decision = run(
        job(parallelism=1, completions=9),
        pod("a", ready=True),
        pod("b"),
        pod("c", "Pending", node=""),
        pod("d", deleted=0),
    )
    assert deleted(decision) == ["c", "b"]
    assert created(decision) == []
    assert (final(decision).active, final(decision).terminating) == (1, 2)


def test_removal_is_limited_per_sync() -> None:
    assert len(deleted(run(job(parallelism=0), *(pod(f"p{i}") for i in range(9)), max_deletes=4))) == 4


def test_wrong_and_doubled_indexes_are_removed() -> None:
    pods = [
        pod("best", index=0, ready=True),
        pod("double", index=0),
        pod("out", index=7),
        pod("none"),
        pod("bad", index="x"),
        pod("done", index=1),
    ]
    decision = run(indexed(3, status={"completedIndexes": "1", "succeeded": 1}), *pods)
    assert sorted(deleted(decision)) == ["bad", "done", "double", "none", "out"]
    assert created(decision) == []


@pytest.mark.parametrize("index", [None, 3, 4])
def test_pod_with_an_index_out_of_range_is_always_removed(index: int | None) -> None:
    assert deleted(run(indexed(3), pod("odd", index=index), pod("fine", index=2))) == ["odd"]


def test_scaling_an_elastic_job_down_removes_the_high_indexes() -> None:
    assert sorted(deleted(run(indexed(1), *(pod(f"p{i}", index=i) for i in range(3))))) == ["p1", "p2"]


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_pod_of_an_interrupted_deletion_is_tracked_again_before_anything_else(phase: str) -> None:
    decision = run(job(), pod("a", phase, tracked=False, annotations={DELETING: "true"}))
    assert kinds(decision) == [TrackPods.__name__]
    assert decision.requeue_after == 0


def test_pod_of_a_deletion_under_way_is_left_alone() -> None:
    decision = run(job(), pod("a", tracked=False, deleted=0, grace=30, annotations={DELETING: "true"}))
    assert TrackPods.__name__ not in kinds(decision)
    assert final(decision).failed == 0


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        (None, {"a": "1"}, False),
        ({}, {"a": "1"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "3"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Above", "values": ["1"]}]}, {"a": "2"}, False),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}, {"a": "1"}, False),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": "2"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
    ],
)
def test_label_selectors(selector: dict[str, Any] | None, labels: dict[str, str], expected: bool) -> None:
    assert (
        matches(
            (selector and msgspec.convert(selector, LabelSelector)) or (selector == {} and LabelSelector()) or None,
            labels,
        )
        is expected
    )


def test_pods_are_adopted_and_released_by_the_selector() -> None:
    mine, lost = pod("mine"), pod("lost", labels={"a": "b"})
    orphan, stranger = pod("orphan", owner=None), pod("stranger", owner=None, labels={})
    dying = pod("dying", owner=None, deleted=0)
    found = claims(job(), [mine, lost], [orphan, stranger, dying])
    assert (names(found.owned), names(found.adopt), names(found.release)) == (["mine"], ["orphan"], ["lost"])


def test_a_pod_must_meet_all_of_a_selector_to_be_kept() -> None:
    """With manualSelector a selector has more than the one generated label."""
    expressions = [{"key": "tier", "operator": "In", "values": ["a"]}]
    chosen = job(selector={"matchLabels": {CONTROLLER_UID: UID}, "matchExpressions": expressions})
    kept = pod("kept", labels={CONTROLLER_UID: UID, "tier": "a"})
    other = pod("other", labels={CONTROLLER_UID: UID, "tier": "b"})
    found = claims(chosen, [kept, other], [])
    assert (names(found.owned), names(found.release)) == (["kept"], ["other"])


def test_deleted_job_neither_adopts_nor_releases() -> None:
    found = claims(job(deleted=True), [pod("lost", labels={})], [pod("orphan", owner=None)])
    assert found == ((), (), ())


def test_labels_of_this_test_are_those_of_the_selector() -> None:
    assert pod("p").metadata.labels == {CONTROLLER_UID: UID}
