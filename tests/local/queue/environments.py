"""Where a scenario of the queue runs: on the embedded server in virtual time, or on a real one in real time.

A scenario is the same code in both. `run` runs it in the environment that the fixture `environment` has chosen
(embedded, where a test does not use the fixture). Seconds of a scenario are seconds of its environment. A long time in
which nothing may happen costs nothing in virtual time; `rest` shortens it to two seconds in real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import pytest

from job_controller.ports import Clock
from queue_manager.configuration import KueueConfig
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.rest_client import RestClient
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin
from queue_manager.simulation.kubelet import Script
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from queue_manager.wiring import QueueManager

R = TypeVar("R")


class RunningCluster(Protocol):
    """A running cluster with all controllers in this process and scripted pods."""

    @property
    def client(self) -> RestClient: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def history(self) -> list[bytes]:
        """b"TYPE resource object" of each write."""
        ...

    @property
    def admission(self) -> list[AdmissionPlugin]:
        """The admission rules in use; a rule that is removed from the list is not called any more."""
        ...

    @property
    def queue(self) -> QueueManager: ...
    @property
    def metrics(self) -> MetricRegistry: ...


class Environment(Protocol):
    name: str
    extra_seconds: float  # added to the time in which something must happen
    longest_rest_seconds: float

    def run(self, scenario: Coroutine[Any, Any, R]) -> R: ...

    def cluster(self, script: Script, config: KueueConfig) -> AbstractAsyncContextManager[RunningCluster]: ...


class Embedded:
    name = "embedded"
    extra_seconds = 0.0
    longest_rest_seconds = float("inf")

    def run(self, scenario: Coroutine[Any, Any, R]) -> R:
        return run_virtual(scenario)

    def cluster(self, script: Script, config: KueueConfig) -> AbstractAsyncContextManager[RunningCluster]:
        return World(1, script, config)


class Real:
    """`begin` starts the controllers on the real server."""

    name = "real"
    extra_seconds = 60.0
    longest_rest_seconds = 2.0

    def __init__(self, begin: Callable[[Script, KueueConfig], AbstractAsyncContextManager[RunningCluster]]) -> None:
        self.cluster = begin

    def run(self, scenario: Coroutine[Any, Any, R]) -> R:
        return asyncio.run(scenario)


# For scenarios of waits and deadlines, which the queue computes: the real server would add nothing but the waiting.
# What a server answers (refusals, conflicts, order of creation) is tested with both.
VIRTUAL_TIME = pytest.mark.virtual_time
_EMBEDDED = Embedded()
_chosen: list[Environment] = [_EMBEDDED]


def use(environment: Environment) -> None:
    _chosen.append(environment)


def reset() -> None:
    _chosen.pop()


def current() -> Environment:
    return _chosen[-1]


def run(scenario: Coroutine[Any, Any, R]) -> R:
    """Run a scenario in the current environment."""
    return current().run(scenario)


async def rest(seconds: float) -> None:
    """Let time pass in which nothing may happen."""
    await asyncio.sleep(min(seconds, current().longest_rest_seconds))
