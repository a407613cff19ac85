"""The times in which a cluster on one machine was stopped, and its Jobs with it, as an annotation of each Job. Pure.

A stop of `sluice up` ends the processes of a Job without ending its attempt: the Job keeps its quota and its startTime,
and the next `sluice up` starts the processes again. The annotation `sluice/interruptions` lists these times, separated
by commas, each as `<stop>/<next start>`, the last one without an end while the cluster is stopped:

    2026-03-01T18:00:00Z/2026-03-02T08:00:00Z,2026-03-02T18:00:00Z/

After a crash, or a stop with --leave-running, the processes keep running: these times are not in the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from job_controller import conditions
from job_controller.model import Job, ObjectMeta
from job_controller.times import timestamp
from queue_manager.api import keys

MAX_INTERRUPTIONS = 1000  # that a Job keeps, 41 bytes each: the oldest count as running again


class Interruption(msgspec.Struct, frozen=True):
    """A time in which the cluster was stopped. `until`: None while it is."""

    since: datetime
    until: datetime | None


def interruptions(meta: ObjectMeta) -> list[Interruption]:
    """Return the interruptions of a Job, the oldest first, without what cannot be read: users can write it, too."""
    found = []
    for text in meta.annotations.get(keys.INTERRUPTIONS, "").split(","):
        since, _, until = text.partition("/")
        try:
            found.append(Interruption(_time(since), _time(until) if until else None))
        except ValueError:
            continue
    return sorted(found, key=lambda one: one.since)


def running_seconds(start: datetime, end: datetime, stopped: Iterable[Interruption]) -> float:
    """Return the seconds between two times, at least 0, without those in which the cluster was stopped."""
    seconds, counted = (end - start).total_seconds(), start
    for one in sorted(stopped, key=lambda one: one.since):
        first, last = max(counted, one.since), min(end, one.until or end)
        if last > first:
            seconds -= (last - first).total_seconds()
            counted = last
    return max(0.0, seconds)


def after_stop(job: Job, now: datetime) -> str | None:
    """Return the annotation of a Job that a stop of the cluster interrupts; None if it does not run."""
    if job.spec.suspend or job.status.start_time is None or conditions.finished(job.status) is not None:
        return None
    kept = [one for one in interruptions(job.metadata) if one.until is not None]
    return _text([*kept, Interruption(now, None)])


def after_start(job: Job, now: datetime) -> str | None:
    """Return the annotation of a Job that a stop of the cluster had interrupted; None if none had."""
    known = interruptions(job.metadata)
    if not any(one.until is None for one in known):
        return None
    return _text([one if one.until is not None else Interruption(one.since, max(one.since, now)) for one in known])


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _text(found: Sequence[Interruption]) -> str:
    kept = found[-MAX_INTERRUPTIONS:]
    return ",".join(f"{timestamp(one.since)}/{timestamp(one.until) if one.until else ''}" for one in kept)
