"""The finish time of a pod, and what its annotations mean."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from job_controller.labels import COMPLETION_INDEX, INDEX_FAILURE_COUNT
from job_controller.model import Pod
from job_controller.pod_facts import completion_index, count_annotation, failed_by_itself, finish_time, is_failed
from tests.unit.job_controller.build import at, pod, wire


def ended(name: str, second: int | None) -> dict[str, Any]:
    state = {} if second is None else {"terminated": {"exitCode": 1, "finishedAt": wire(at(second))}}
    return {"name": name, "state": state}


def unready(second: int) -> dict[str, Any]:
    return {"type": "Ready", "status": "False", "lastTransitionTime": wire(at(second))}


DELETED = {"deletionTimestamp": wire(at(50)), "deletionGracePeriodSeconds": 30}
# As kube-apiserver 1.36 wrote it at 51 s: the product in nanoseconds is minus one second.
FOR_EVER = {"deletionTimestamp": wire(at(50)), "deletionGracePeriodSeconds": 2**63 - 1}
SIDECAR = {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]}


@pytest.mark.parametrize(
    ("metadata", "spec", "status", "second"),
    [
        ({}, {}, {"containerStatuses": [ended("a", 3), ended("b", 7)], "conditions": [unready(9)]}, 7),
        ({}, {}, {"containerStatuses": [ended("b", 7), ended("a", 3)], "conditions": [unready(9)]}, 7),
        ({}, {}, {"conditions": [{**unready(8), "status": "True"}, {**unready(7), "type": "Initialized"}]}, 1),
        ({}, {}, {"containerStatuses": [ended("a", 3), ended("b", None)], "conditions": [unready(9)]}, 9),
        ({}, SIDECAR, {"containerStatuses": [ended("a", 3)], "initContainerStatuses": [ended("side", 8)]}, 8),
        ({}, SIDECAR, {"containerStatuses": [ended("a", 3)], "initContainerStatuses": [ended("side", None)],
                       "conditions": [unready(9)]}, 9),
        ({}, SIDECAR, {"containerStatuses": [ended("a", 3)], "initContainerStatuses": [ended("init", 8)]}, 3),
        (DELETED, {}, {"conditions": [unready(9)]}, 9),
        (DELETED, {}, {}, 20),
        (FOR_EVER, {}, {}, 51),
        ({}, {}, {}, 1),
    ],
)  # fmt: skip
def test_finish_time_is_the_most_precise_one_available(
    metadata: dict[str, Any], spec: dict[str, Any], status: dict[str, Any], second: int
) -> None:
    """Containers and sidecars; else when it became unready; else its deletion request; else its creation."""
    tree = {"metadata": {"creationTimestamp": wire(at(1)), **metadata}, "spec": spec, "status": status}
    assert finish_time(msgspec.convert(tree, Pod)) == at(second)


@pytest.mark.parametrize(
    ("text", "index"),
    [
        *(("0", 0), ("7", 7), ("07", 7), ("+7", 7), (str(2**31 - 1), 2**31 - 1), ("0" * 5000 + "7", 7)),
        *(("-1", -1), ("x", -1), ("", -1), ("1.5", -1), (str(2**31), -1), ("9" * 12, -1), ("9" * 5000, -1)),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_completion_index_is_read_as_go_reads_it_and_is_else_none(text: str, index: int) -> None:
    assert completion_index(pod("p", annotations={COMPLETION_INDEX: text})) == index


@pytest.mark.parametrize(
    ("text", "count"), [("3", 3), ("+3", 3), ("-1", 0), ("x", 0), (str(2**31), 0), ("9" * 5000, 0)]
)
def test_a_failure_count_that_cannot_be_read_is_zero(text: str, count: int) -> None:
    assert count_annotation(pod("p", annotations={INDEX_FAILURE_COUNT: text}), INDEX_FAILURE_COUNT) == count


@pytest.mark.parametrize(
    ("phase", "deleted", "at_once", "when_ended"),
    [
        ("Running", None, False, False),
        ("Running", 5, True, False),
        ("Pending", 5, True, False),
        ("Failed", None, True, True),
        ("Failed", 5, True, True),
        ("Succeeded", 5, False, False),
    ],
)
def test_a_pod_that_is_deleted_has_failed_at_once_or_when_it_has_ended(
    phase: str, deleted: float | None, at_once: bool, when_ended: bool
) -> None:
    one = pod("p", phase, deleted=deleted)
    assert is_failed(one, only_terminal=False) is at_once
    assert is_failed(one, only_terminal=True) is when_ended


def test_pod_that_failed_before_its_deletion_failed_by_itself() -> None:
    assert failed_by_itself(pod("p", "Failed", ended=3), False, at(1))
    assert failed_by_itself(pod("p", "Failed", ended=3, deleted=4, grace=30), False, at(1))
    assert not failed_by_itself(pod("p", "Failed", ended=9, deleted=4, grace=30), False, at(1))
    assert not failed_by_itself(pod("p", "Running", deleted=4), False, at(1))


def test_pod_deleted_before_the_end_of_its_job_was_decided_failed_by_itself() -> None:
    assert failed_by_itself(pod("p", "Running", deleted=4, grace=30), False, at(5))
    assert failed_by_itself(pod("p", "Running", deleted=4), False, None)
    assert not failed_by_itself(pod("p", "Running", deleted=4), True, at(5))
