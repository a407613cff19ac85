"""When what runs has released enough quota for a pending Workload, by declared times. Pure.

A Workload that declares a maximum execution time is stopped when that is over, so what it holds is released then at the
latest, but for the time that its pods take to stop. Nothing says that it does not end before, nor who gets the quota:
so this is no start, unless backfilling keeps the quota (`scheduling/backfill.py`). BEHAVIOUR.md#q220-released-quota.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from job_controller.model import Key
from queue_manager.api import reasons
from queue_manager.scheduling.backfill import NEVER
from queue_manager.visibility.scheduler_judgement import Judgement

KEPT = "not known: what is released is kept for a Workload that preempts others"
KEPT_FOR_HEAD = "not known: what is released is kept for a Workload that is ordered before it (backfill)"
KEPT_FOR_FIRST = "not known: what is released is kept for the first Workload of a ClusterQueue that is StrictFIFO"
STOPPING = "not known: Workloads are being stopped, or run for longer than they declare"
UNDECLARED = "not known: not all that hold the quota declare a maximum execution time"
ANOTHERS_JOB = "a Job of another namespace"
TAKEN = "unless Workloads before this one take it"
DELAYED = (  # of a promised start
    "plus the time that pods take to stop, unless a Workload that is ordered before it comes or, in a cohort, another "
    "ClusterQueue takes its own quota"
)


class ExpectedRelease(NamedTuple):
    """`by`: when enough is released at the latest; None: not known. `text`: why then, or why it is not known."""

    by: datetime | None
    text: str


def release_of(
    found: Judgement | None,
    jobs: Mapping[Key, str],
    now: datetime,
    may_name: Callable[[str], bool] = lambda namespace: True,
) -> ExpectedRelease | None:
    """When enough quota is released for a Workload that waits for quota; None for any other, for one behind the head of
    a StrictFIFO queue, and for one to which backfilling promises a start.

    `jobs`: namespace and name of each Workload's Job. `may_name`: of which namespaces the reader may know the Jobs.
    """
    if found is None or found.reason != reasons.WAITING_FOR_QUOTA or found.head is not None:
        return None
    if promised_start(found, now) is not None:
        return None
    if found.release is None:
        if found.kept_for is None:
            return ExpectedRelease(None, KEPT)
        return ExpectedRelease(None, KEPT_FOR_FIRST if found.kept_for.blocks else KEPT_FOR_HEAD)
    if found.release.starts_by >= NEVER:
        return ExpectedRelease(None, UNDECLARED)
    if found.release.starts_by <= now:
        return ExpectedRelease(None, STOPPING)
    last = found.release.ended[-1].key
    name = jobs.get(last, str(last)) if may_name(last.namespace) else ANOTHERS_JOB
    return ExpectedRelease(found.release.starts_by, f"when {name} has to end, {TAKEN}")


def promised_start(found: Judgement, now: datetime) -> datetime | None:
    """The latest start that backfilling promises; None if it is unknown: a Workload that is being stopped, or runs for
    longer than declared, has no known end, and the first of a StrictFIFO ClusterQueue withholds quota.
    """
    promised = found.promise if not found.beside else None
    return promised.starts_by if promised is not None and now < promised.starts_by < NEVER else None
