"""Why the logs of a Job whose pods ran are gone: the pods were deleted, and on each cluster the logs go with them.

An eviction and a deactivation delete the pods of the attempt that they end. What is known of these is in the Workload
(status.requeueHistory) and, on the cluster of `sluice up`, in the history, which has each pod that ended.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from job_controller import pod_phases
from job_controller.completion_indexes import stored_completed, stored_failed
from job_controller.model import Job
from job_controller.pod_facts import completion_index
from queue_manager.accounting.history_queries import HistoryFilter
from queue_manager.accounting.job_summary import has_run
from queue_manager.accounting.record_types import PodRecord
from queue_manager.api import reasons
from queue_manager.api.types import Workload
from queue_manager.cli.connection import find_kubeconfig
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.history import pod_end
from queue_manager.cli.history_reading import own_store, read
from queue_manager.cli.time_texts import ago
from queue_manager.lifecycle.refused_pods import NO_PODS
from queue_manager.local.kubeconfig_file import is_of_local_cluster
from queue_manager.visibility.attempt_counts import count_lost_attempts
from queue_manager.visibility.wire_types import Pod


async def ended_pods(args: argparse.Namespace, job: Job) -> list[PodRecord] | None:
    """The pods of a Job that the history of the cluster of `sluice up` has; None for another cluster."""
    return await asyncio.to_thread(_ended_pods, args, job)  # which reads a database, and the running configuration


def _ended_pods(args: argparse.Namespace, job: Job) -> list[PodRecord] | None:
    try:
        if not is_of_local_cluster(find_kubeconfig(args.kubeconfig)):
            return None
        where = argparse.Namespace(**vars(args) | {"store": own_store(args)})
        found = read(where, HistoryFilter(namespace=job.metadata.namespace, name=job.metadata.name))
    except CommandRefused:
        return None
    return next((one.pods for one in found if one.job.uid == job.metadata.uid), None)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Of which pods of a Job a log is wanted: of an index, of those that failed, of an attempt before the newest."""

    index: int | None = None
    failed: bool = False
    earlier: bool = False

    @property
    def pods(self) -> str:
        """What to call them."""
        return f"its {'failed ' if self.failed else 'earlier ' if self.earlier else ''}pods"

    def has(self, pod: PodRecord) -> bool:
        """Whether a pod that has ended is one of them."""
        if self.index is not None and pod.name.rsplit("-", 2)[1:2] != [str(self.index)]:  # JOB-INDEX-xxxxx
            return False
        has_failed = pod.phase == pod_phases.FAILED or bool(pod.message)  # of one that an eviction deleted: its error
        return has_failed or not self.failed

    def are_counted(self, job: Job, present: Iterable[Pod]) -> bool:
        """Whether the Job has counted more of them than exist. Its status counts no earlier attempts."""
        if self.earlier:
            return False
        if self.index is not None:
            left = any(completion_index(pod) == self.index for pod in present)
            ended = self.index in stored_failed(job) or (not self.failed and self.index in stored_completed(job))
            return ended and not left
        counted = job.status.failed + (0 if self.failed else job.status.succeeded)
        return counted > sum(pod.status.has_failed or not self.failed for pod in present)


ALL = Chosen()


def removal(
    job: Job,
    workload: Workload | None,
    ended: Sequence[PodRecord] | None,
    now: datetime,
    chosen: Chosen = ALL,
    present: Sequence[Pod] = (),
) -> str:
    """How the chosen pods of a Job were removed, as a clause; "" if none is known to have run.

    `ended`: the pods that have ended according to the history, also those without a container that ran; None if it is
    not known. An empty one may lag behind. `present`: the pods that exist.
    """
    last = workload.last_attempt if workload is not None else None
    uids = {pod.metadata.uid for pod in present}
    gone = [pod for pod in ended or () if has_run(pod) and chosen.has(pod) and pod.uid not in uids]
    newest = max(gone, key=lambda pod: pod.ended_at, default=None)
    are_counted = chosen.are_counted(job, present)
    had_pods = last is not None and not ended and not last.pod_cause.startswith(NO_PODS)
    if newest is None and not are_counted and not had_pods:
        return ""
    started = "" if newest is not None or are_counted else ", if any had started,"
    when = _when(workload, newest, now) if workload is not None else ""
    named = f"; the last one, {newest.name}, ended {ago(newest.ended_at, now)} ago: {pod_end(newest)}" if newest else ""
    return f"{chosen.pods}{started} were deleted{when}, and their logs with them{named}"


def _when(workload: Workload, newest: PodRecord | None, now: datetime) -> str:
    """With the end of which attempt the pods were deleted: the one of `newest`, else the last; "" if none has ended."""
    history = workload.status.requeue_history
    ended = history.attempts if history is not None else ()
    later = sum(newest is not None and each.start is not None and each.start > newest.ended_at for each in ended)
    if later >= len(ended):
        return ""
    one, number = ended[-1 - later], count_lost_attempts(workload) - later
    reason = one.reason.removeprefix(reasons.DEACTIVATED_DUE_TO)
    return f" when attempt {number} ended {ago(one.end, now)} ago ({reason})"
