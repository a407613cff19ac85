"""The table of KEP-1282, scenario 2: seconds until a Workload whose pods never become ready is deactivated."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec
import pytest

from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.kueue_config import RequeuingStrategy, WaitForPodsReady
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.simulation.test_one_day import QUEUES, job

TABLE = {1: 601, 2: 902, 5: 1811, 10: 3374, 20: 8730, 30: 86400}  # backoffLimitCount: seconds to deactivation
ROUNDING = 2.0
"""Seconds. Times of the API are whole seconds: each wait is rounded, by at most 0.5 s up or down, which adds up to
less than 1 s over any row of the table. Retries lose nothing: the moment of a retry is a whole second, and so is the
admission that follows in the same instant."""
JITTER = 0.0001
"""Each wait gets longer by up to this share of it."""


async def seconds_to_deactivation(limit: int, seed: int) -> float:
    strategy = RequeuingStrategy(backoff_formula="KEP1282", backoff_limit_count=limit)
    waiting = WaitForPodsReady(timeout=timedelta(seconds=300), requeuing_strategy=strategy)
    never = PodScript(ready_after=None, ends_after=None, stops_within=0.2)
    async with World(seed, lambda pod: never, KueueConfig(wait_for_pods_ready=waiting)) as world:
        await world.apply(QUEUES)
        await world.apply(job("hangs"))
        await asyncio.sleep(TABLE[limit] + 600)
        (workload,) = await world.client.list(WORKLOADS, type=Workload)
        assert not workload.spec.active
        assert workload.status.requeue_state is None
        return (_deactivated(world.history) - _first_admitted(world.history)).total_seconds()


def _first_admitted(history: list[bytes]) -> datetime:
    return _first(history, "Admitted")


def _deactivated(history: list[bytes]) -> datetime:
    return _first(history, "DeactivationTarget")


def _first(history: list[bytes], type: str) -> datetime:
    """The time at which a condition first became true."""
    for line in history:
        _, kind, data = line.split(b" ", 2)
        if kind == b"workloads.kueue.x-k8s.io":
            found = msgspec.json.decode(data, type=Workload).condition(type)
            if found is not None and found.is_true and found.last_transition_time is not None:
                return found.last_transition_time
    raise LookupError(type)


@pytest.mark.parametrize("limit", TABLE)
def test_the_published_table_of_the_kep_holds(limit: int) -> None:
    """With a timeout of 300 s and backoffFormula KEP1282."""
    seconds = run_virtual(seconds_to_deactivation(limit, seed=limit))
    assert TABLE[limit] - ROUNDING <= seconds <= TABLE[limit] * (1 + JITTER) + ROUNDING
