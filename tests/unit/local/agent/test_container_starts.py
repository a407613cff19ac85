"""Which containers start when: restart policies, backoff, order. No process and no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_manager.local.agent.container_starts import Container, ContainerRun, Exit, containers_of, plan

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def run(container: Container, code: int | None, at: datetime = T0, lasting: float = 1) -> datetime:
    """Start the container and let it end; returns the time of its end."""
    container.started(ContainerRun(container.next_number, at))
    end = at + timedelta(seconds=lasting)
    if code is not None:
        container.ended(Exit(code, end))
    return end


def to_start(containers: list[Container], policy: str = "Never", now: datetime = T0) -> list[str]:
    return [c.name for c in plan(containers, policy, now).start]


def a_pod(*names: str, init: tuple[str, ...] = (), sidecars: tuple[str, ...] = ()) -> list[Container]:
    spec: dict[str, Any] = {"containers": [{"name": n} for n in names], "initContainers": [{"name": n} for n in init]}
    spec["initContainers"] += [{"name": n, "restartPolicy": "Always"} for n in sidecars]
    return containers_of(spec)


def test_restarts_of_a_crashing_container_back_off_from_10_to_300_seconds() -> None:
    (container,) = pod = a_pod("main")
    now, waits = T0, []
    for _ in range(9):
        now = run(container, 1, now)
        due = plan(pod, "OnFailure", now)
        waits.append((due.wake - now).total_seconds() if due.wake else 0)
        assert bool(due.start) is (due.wake is None)
        now = due.wake or now
        assert to_start(pod, "OnFailure", now) == ["main"]
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_crashed_container_waits_no_longer_when_the_clock_is_set_back() -> None:
    (container,) = pod = a_pod("main")
    run(container, 1, T0)
    run(container, 1, T0 + timedelta(seconds=1))
    back = T0 - timedelta(days=31)
    container.observe(back)
    assert plan(pod, "OnFailure", back).wake == back + timedelta(seconds=10)
    container.observe(back + timedelta(seconds=9))
    assert plan(pod, "OnFailure", back + timedelta(seconds=9)).wake == back + timedelta(seconds=10)


def test_a_refused_start_is_tried_again_in_time_when_the_clock_is_set_back() -> None:
    (container,) = pod = a_pod("main")
    container.refused("CreateContainerError", "no such file", T0)
    back = T0 - timedelta(days=31)
    container.observe(back)
    container.observe(back + timedelta(seconds=9))
    assert plan(pod, "OnFailure", back + timedelta(seconds=9)).wake == back + timedelta(seconds=10)


def test_a_long_healthy_run_resets_the_backoff() -> None:
    (container,) = pod = a_pod("main")
    now = T0
    for lasting in (1, 1, 1, 700, 1):
        now = run(container, 1, now + timedelta(seconds=400), lasting)
    assert plan(pod, "Always", now).wake == now + timedelta(seconds=10)


@pytest.mark.parametrize(
    ("policy", "code", "restarts"),
    [
        ("Never", 0, False),
        ("Never", 1, False),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Always", 0, True),
        ("Always", 1, True),
    ],
)
def test_restart_policies(policy: str, code: int, restarts: bool) -> None:
    (container,) = pod = a_pod("main")
    now = run(container, code)
    assert plan(pod, policy, now).finished is not restarts
    assert to_start(pod, policy, now) == (["main"] if restarts else [])


def test_init_containers_go_one_by_one_and_the_rest_together() -> None:
    pod = a_pod("a", "b", init=("one", "two"))
    assert to_start(pod) == ["one"]
    run(pod[0], None)
    assert to_start(pod) == []
    pod[0].ended(Exit(0, T0))
    assert to_start(pod) == ["two"]
    run(pod[1], 0)
    assert to_start(pod) == ["a", "b"]


def test_a_sidecar_only_has_to_run() -> None:
    pod = a_pod("main", sidecars=("side",))
    assert to_start(pod) == ["side"]
    run(pod[0], None)
    assert to_start(pod) == ["main"]
    run(pod[1], None)
    pod[0].ended(Exit(1, T0))
    assert to_start(pod) == ["side"]  # a crashed sidecar comes back while the others run
    run(pod[0], None)
    pod[1].ended(Exit(0, T0))
    assert plan(pod, "Never", T0).finished


def test_a_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    pod = a_pod("main", init=("init",))
    run(pod[0], 1)
    assert plan(pod, "Never", T0).finished
    assert to_start(pod, "OnFailure") == ["init"]


def test_a_refused_start_is_tried_again_after_10_then_20_seconds() -> None:
    (container,) = pod = a_pod("main")
    container.refused("CreateContainerError", "no", T0)
    assert plan(pod, "Never", T0).wake == T0 + timedelta(seconds=10)
    assert to_start(pod, now=T0 + timedelta(seconds=10)) == ["main"]
    container.refused("CreateContainerError", "no", T0)
    assert plan(pod, "Never", T0).wake == T0 + timedelta(seconds=20)
