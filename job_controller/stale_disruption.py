"""Clearing the condition DisruptionTarget of pods whose disruption did not happen (upstream syncStalePodDisruption,
KEP-3329).

A component that is about to delete a pod sets DisruptionTarget=True first. If the pod is not deleted within
STALE_AFTER, the condition is set to False; otherwise a later failure of the pod would count as a disruption. The
condition of the kubelet is left alone, because the kubelet terminates the pod itself.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from job_controller.disruption_target import DISRUPTION_TARGET
from job_controller.model import Key, Pod
from job_controller.perform import NOT_FOUND, status_of
from job_controller.pod_facts import is_terminal
from job_controller.pod_gc import PodCluster
from job_controller.ports import Clock, Queue
from job_controller.times import WaitStart, wait_start

STALE_AFTER = timedelta(minutes=2)
BY_KUBELET = "TerminationByKubelet"


def announced_at(pod: Pod) -> datetime | None:
    """When the disruption was announced; None if the condition is not True, or the pod is terminal or being deleted."""
    if pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return None
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET and condition.is_true and condition.reason != BY_KUBELET:
            return condition.last_transition_time or pod.metadata.creation_timestamp
    return None


def clearing_patch(pod: Pod, now: datetime) -> dict[str, Any]:
    """The status patch (strategic merge) for this version of the pod only: the condition may have been renewed."""
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "False",
        "reason": None,
        "message": None,
        "lastTransitionTime": now.replace(microsecond=0),
    }
    meta = pod.metadata
    return {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": [condition]},
    }


class StaleDisruptions:
    """The controller. The host calls `pod_changed` for every change, and `sync` for queued keys."""

    def __init__(self, cluster: PodCluster, queue: Queue, clock: Clock) -> None:
        self._cluster = cluster
        self._queue = queue
        self._clock = clock
        self._starts: dict[str, WaitStart] = {}  # by pod UID

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Enqueue the pod for the time when its condition becomes stale."""
        if new is None:
            self._starts.pop(old.metadata.uid if old is not None else "", None)
            return
        left = self._left(new)
        if left is not None:
            self._queue.add_after(new.metadata.key, max(0.0, left.total_seconds()))

    async def sync(self, key: Key) -> None:
        """Clear the condition if it is stale. Raises errors that the host should retry, including conflicts."""
        pod = self._cluster.pod(key)
        left = self._left(pod) if pod is not None else None
        if pod is None or left is None:
            return
        if left > timedelta(0):
            self._queue.add_after(key, left.total_seconds())
            return
        try:
            await self._cluster.patch_pod_status(key, clearing_patch(pod, self._clock.now()))
        except Exception as error:
            if status_of(error) != NOT_FOUND:
                raise

    def _left(self, pod: Pod) -> timedelta | None:
        """How long until the condition is stale, not longer than STALE_AFTER if the clock was set back; None: never."""
        since, uid, now = announced_at(pod), pod.metadata.uid, self._clock.now()
        if since is None:
            self._starts.pop(uid, None)
            return None
        start = self._starts[uid] = wait_start(since, self._starts.get(uid), now)
        return start.effective + STALE_AFTER - now
