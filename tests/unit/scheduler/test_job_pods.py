"""The pods of a Job that matter to the queue: who is notified when, and at what cost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from job_controller.model import Condition, ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.lifecycle.unscheduled import unscheduled
from queue_manager.scheduler.attempt_causes import AttemptCauses
from queue_manager.scheduler.job_pods import JobPods, uses_node


def pod(number: int, at: int, phase: str = "Running", job: str = "j", **status: object) -> Pod:
    owners = (OwnerReference(kind="Job", name=job, uid=job, controller=True),) if job else ()
    meta = ObjectMeta(name=f"p{number}", uid=f"p{number}", resource_version=str(at), owner_references=owners)
    return Pod(metadata=meta, spec=PodSpec(), status=PodStatus(phase=phase, **status))


@pytest.fixture
def cache() -> Cache[Pod]:
    return Cache("pods")


def pods_of(cache: Cache[Pod]) -> JobPods:
    return JobPods(SimpleNamespace(cache=lambda *_: cache), "use nodes", uses_node)


def test_each_subscriber_is_notified_when_a_job_gets_or_loses_a_pod(cache: Cache[Pod]) -> None:
    running, notified, others = pods_of(cache), [], []
    running.subscribe(notified.append)
    running.subscribe(others.append)
    cache.observe(pod(1, 1))
    cache.observe(pod(1, 2))
    cache.observe(pod(1, 3, job="k"))
    cache.observe(pod(1, 4, "Succeeded", job="k"))
    cache.observe(pod(2, 5, job=""))
    assert notified == others == ["j", "j", "k", "k"]


def test_whether_a_job_has_any_is_known_without_a_list_of_them(cache: Cache[Pod], monkeypatch) -> None:
    running = pods_of(cache)
    cache.observe(pod(1, 1))
    monkeypatch.delattr(Cache, "lookup")
    assert running.any_of("j")
    cache.observe(pod(1, 2, "Failed"))
    assert not running.any_of("j")


def test_a_create_request_is_no_evidence_that_pods_are_accepted(cache: Cache[Pod]) -> None:
    """Its request may be refused like those before it, and that is then the cause of the attempt's end."""
    running = pods_of(cache)
    failed = JobPods(SimpleNamespace(cache=lambda *_: cache), "have failed", lambda pod: pod.status.phase == "Failed")
    causes = AttemptCauses(running, failed)
    owner = OwnerReference(kind="Job", name="j", uid="j", controller=True)
    workload = Workload(metadata=ObjectMeta(name="w", owner_references=(owner,)))
    with running.creating("j"):
        assert running.any_of("j")
        assert not causes.has_pods(workload)
        cache.observe(pod(1, 1))
        assert causes.has_pods(workload)


def test_of_pods_that_no_node_can_take_the_first_by_name_speaks() -> None:
    def stuck(number: int) -> Pod:
        condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message=f"no node {number}")
        return pod(number, 1, "Pending", conditions=(condition,))

    assert unscheduled([stuck(3), pod(1, 1), stuck(2)]) == (2, "no node 2")
    assert unscheduled([pod(1, 1)]) is None
