"""Where a story of the queue is told: on the embedded server in virtual time, or on a real one in real time.

A story is the same text in both places. `run` tells it in the place that the fixture `place` has chosen (embedded,
where a test does not ask for the fixture). What is written in seconds of a story are seconds of its place: an hour in
which nothing happens costs nothing in virtual time, and is `rest`, so that in real time two seconds have to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from job_controller.ports import Clock
from queue_manager.configuration import KueueConfig
from queue_manager.engine.client import Client
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.local.server.admission_chain import AdmissionPlugin
from queue_manager.simulation.kubelet import Script
from queue_manager.simulation.virtual import run_virtual
from queue_manager.simulation.world import World
from queue_manager.wiring import QueueManager

R = TypeVar("R")


class Stage(Protocol):
    """A running cluster with all controllers in this process, and pods that are played."""

    @property
    def client(self) -> Client: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def history(self) -> list[bytes]:
        """b"TYPE resource object" of each write."""
        ...

    @property
    def admission(self) -> list[AdmissionPlugin]:
        """The rules that are asked; what is taken out is asked no more."""
        ...

    @property
    def queue(self) -> QueueManager: ...
    @property
    def metrics(self) -> MetricRegistry: ...


class Place(Protocol):
    name: str
    patience: float  # seconds more than the story says, for what must happen
    longest_rest: float

    def run(self, story: Coroutine[Any, Any, R]) -> R: ...

    def stage(self, script: Script, config: KueueConfig) -> AbstractAsyncContextManager[Stage]: ...


class Embedded:
    name = "embedded"
    patience = 0.0
    longest_rest = float("inf")

    def run(self, story: Coroutine[Any, Any, R]) -> R:
        return run_virtual(story)

    def stage(self, script: Script, config: KueueConfig) -> AbstractAsyncContextManager[Stage]:
        return World(1, script, config)


class Real:
    """`begin` opens a stage on the real server."""

    name = "real"
    patience = 60.0
    longest_rest = 2.0

    def __init__(self, begin: Callable[[Script, KueueConfig], AbstractAsyncContextManager[Stage]]) -> None:
        self.stage = begin

    def run(self, story: Coroutine[Any, Any, R]) -> R:
        return asyncio.run(story)


_EMBEDDED = Embedded()
_chosen: list[Place] = [_EMBEDDED]


def choose(place: Place) -> None:
    _chosen.append(place)


def leave() -> None:
    _chosen.pop()


def here() -> Place:
    return _chosen[-1]


def run(story: Coroutine[Any, Any, R]) -> R:
    """Tell a story where we are."""
    return here().run(story)


async def rest(seconds: float) -> None:
    """Let time pass in which nothing may happen."""
    await asyncio.sleep(min(seconds, here().longest_rest))
