"""Sluice starts on a cluster that Kueue left, at every quiet moment of the recordings of Kueue.

Promises of `sluice adopt` are compared with what then happens: a Workload that is to keep its quota keeps it, its Job
is never suspended; a pending one is in its queue; nothing is lost.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from job_controller.model import Job
from queue_manager.adoption.workload_fates import Fate, fate
from queue_manager.api import condition_types
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.configuration import KueueConfig
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue import replay
from tests.simulation.recorded_moments import Moment, quiet_moments, restore

NAMES = sorted(path.stem for path in replay.TRACES.glob("*.json"))
SAMPLE = [name for name in NAMES if name.startswith(("a07", "b01", "c01", "d02", "e01", "h01", "x11"))]
SECONDS = 5.0  # after the start of Sluice


@pytest.mark.parametrize("name", SAMPLE)
def test_workloads_of_kueue_have_the_fate_that_adopt_names(name: str) -> None:
    check_all_moments(name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in NAMES if name not in SAMPLE])
def test_workloads_of_all_recordings_have_the_fate_that_adopt_names(name: str) -> None:
    check_all_moments(name)


def check_all_moments(name: str) -> None:
    """Start Sluice at each quiet moment of a recording."""
    trace = replay.load(name)
    for setting in ("waitForPodsReady", "objectRetentionPolicies"):
        trace["config"].pop(setting, None)  # what ends within seconds ends whoever runs the queue
    for moment in quiet_moments(trace):
        assert run_virtual(_broken_promises(moment, replay.configuration(trace))) == [], f"{name} at {moment.t} s"


async def _broken_promises(moment: Moment, config: KueueConfig) -> list[str]:
    async with World(1, lambda pod: PodScript(ends_after=None), config, separate_queue=True) as world:
        await world.kill()
        world.admission.clear()
        await restore(world, moment)
        before = await world.client.list(WORKLOADS, type=Workload)
        jobs = {job.metadata.uid: job for job in await world.client.list(JOBS, type=Job)}
        since = len(world.history)
        await world.start()
        await asyncio.sleep(SECONDS)
        after = {w.metadata.uid: w for w in await world.client.list(WORKLOADS, type=Workload)}
        stopped = _stopped(world.history[since:])
    found = ((old, fate(old, jobs.get(old.job_uid)), after.get(old.metadata.uid)) for old in before)
    return [text for old, promise, new in found if (text := _broken(old, promise, new, stopped))]


def _stopped(history: list[bytes]) -> set[str]:
    """UIDs of the Jobs that were suspended, and of the Workloads that had no quota, at any time."""
    changes = [line.split(b" ", 2) for line in history]
    jobs = [msgspec.json.decode(data, type=Job) for _, kind, data in changes if kind == b"jobs.batch"]
    workloads = [
        msgspec.json.decode(data, type=Workload) for _, kind, data in changes if kind.startswith(b"workloads.")
    ]
    return {job.metadata.uid for job in jobs if job.spec.suspend} | {
        w.metadata.uid for w in workloads if not w.is_true(condition_types.QUOTA_RESERVED)
    }


def _broken(old: Workload, promise: Fate, new: Workload | None, stopped: set[str]) -> str:
    """What is not as promised; "" if all is. A Workload that left its quota may have got it back since."""
    name = f"{promise} {old.metadata.name}"
    if promise is Fate.REPLACED:
        return "" if new is None or old.job_uid in stopped else f"{name}: its Job was not stopped"
    if new is None:
        return f"{name} is gone"
    match promise:
        case Fate.KEPT:
            if old.spec.maximum_execution_time_seconds is not None:
                return ""  # its time may be over
            if old.is_true(condition_types.ADMITTED) and old.job_uid in stopped:
                return f"{name}: its Job was suspended"
            return "" if new.status.admission == old.status.admission else f"{name}: its admission changed"
        case Fate.FINISHED:
            return "" if fate(new) == Fate.FINISHED else f"{name} is {fate(new)}"
        case Fate.INACTIVE | Fate.LEAVING:
            held = old.is_true(condition_types.QUOTA_RESERVED)
            return f"{name} keeps its quota" if held and old.metadata.uid not in stopped else ""
    return "" if fate(new) in (Fate.REQUEUED, Fate.KEPT) else f"{name} is {fate(new)}"
