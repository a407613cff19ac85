"""When probes run, in virtual time; tests/local/agent runs their commands as processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from queue_manager.local.agent import readiness_probes
from queue_manager.local.agent.readiness_probes import ProbeContext, ProbeFailure, Readiness
from queue_manager.simulation.virtual_time import run_virtual


def probe(name: str, **more: int) -> dict[str, Any]:
    return {"exec": {"command": [name]}, "periodSeconds": 10, **more}


def asked(
    container: dict[str, Any], answers: dict[str, list[bool]], patch: pytest.MonkeyPatch
) -> list[tuple[str, float]]:
    """The probes of a container in its first minute, with their times. The last answer is repeated."""
    seen: list[tuple[str, float]] = []

    async def ask(of: dict[str, Any], _: ProbeContext) -> ProbeFailure | None:
        (name,) = of["exec"]["command"]
        seen.append((name, asyncio.get_running_loop().time() - began[0]))
        succeeds = answers[name].pop(0) if len(answers[name]) > 1 else answers[name][0]
        return None if succeeds else ProbeFailure("no")

    async def surroundings() -> ProbeContext:
        return ProbeContext({}, "/")

    began = [0.0]

    async def live() -> None:
        began[0] = asyncio.get_running_loop().time()
        running = Readiness({"name": "main", **container}, surroundings, lambda: None, lambda message: None)
        await asyncio.sleep(60)
        running.stop()

    patch.setattr(readiness_probes, "run_probe", ask)
    run_virtual(live())
    return seen


def test_a_readiness_probe_runs_after_its_delay_and_then_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    container = {"readinessProbe": probe("ready", initialDelaySeconds=25)}
    assert asked(container, {"ready": [True]}, monkeypatch) == [("ready", at) for at in (25, 35, 45, 55)]


def test_the_delay_counts_from_the_start_of_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a delay of 15 s, none is left if the startup probe takes 20 s, and 5 s are left if it takes 10 s."""
    container = {
        "startupProbe": probe("up", initialDelaySeconds=10),
        "readinessProbe": probe("ready", initialDelaySeconds=15),
    }
    late = asked(container, {"up": [False, True], "ready": [True]}, monkeypatch)
    assert late[:3] == [("up", 10), ("up", 20), ("ready", 20)]
    early = asked(container, {"up": [True], "ready": [True]}, monkeypatch)
    assert early[:2] == [("up", 10), ("ready", 15)]


def test_a_failure_that_says_something_else_each_time_is_reported_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each report is a write of the pod's status."""
    reported: list[tuple[float, str]] = []

    async def ask(of: dict[str, Any], _: ProbeContext) -> ProbeFailure:
        return ProbeFailure(f"{asyncio.get_running_loop().time() - began[0]:.0f} s")

    async def surroundings() -> ProbeContext:
        return ProbeContext({}, "/")

    began = [0.0]

    async def live() -> None:
        began[0] = asyncio.get_running_loop().time()
        container = {"name": "main", "readinessProbe": probe("no", periodSeconds=1)}
        running = Readiness(
            container,
            surroundings,
            lambda: reported.append((asyncio.get_running_loop().time() - began[0], running.failure)),
            lambda message: None,
        )
        await asyncio.sleep(25)
        running.stop()

    monkeypatch.setattr(readiness_probes, "run_probe", ask)
    run_virtual(live())
    assert reported == [(at, f"Readiness probe failed: {at} s") for at in (0, 10, 20)]
