"""Disruptions that were announced and never came (spec section 4).

Whoever is about to take a pod away says so first: condition DisruptionTarget. If it is not deleted within two
minutes nobody will: the condition becomes False, or a failure of the pod long after would be taken for a
disruption. Not so where the kubelet said it, which ends the pod itself.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from job_controller.disruption_target import DISRUPTION_TARGET
from job_controller.model import Key, Pod
from job_controller.perform import NOT_FOUND, status_of
from job_controller.pod_facts import is_terminal
from job_controller.pod_gc import PodKeeper
from job_controller.ports import Clock, Queue

STALE_AFTER = timedelta(minutes=2)
BY_KUBELET = "TerminationByKubelet"


def stale_at(pod: Pod) -> datetime | None:
    """When its announced disruption will be stale; None if none is announced, or it has begun."""
    if pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return None
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET and condition.is_true and condition.reason != BY_KUBELET:
            since = condition.last_transition_time or pod.metadata.creation_timestamp
            return since and since + STALE_AFTER
    return None


def clearing_patch(pod: Pod, now: datetime) -> dict[str, Any]:
    """Strategic merge patch of status, for this version of the pod only: it may just have been announced anew."""
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
    """`pod_changed` is told of every change, `sync` works on keys of its own queue."""

    def __init__(self, keeper: PodKeeper, queue: Queue, clock: Clock) -> None:
        self._keeper = keeper
        self._queue = queue
        self._clock = clock

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        due = stale_at(new) if new is not None else None
        if new is not None and due is not None:
            self._queue.add_after(new.metadata.key, max(0.0, (due - self._clock.now()).total_seconds()))

    async def sync(self, key: Key) -> None:
        """Clear the condition if its time is over. Raises what should be repeated, conflicts too."""
        pod = self._keeper.pod(key)
        due = stale_at(pod) if pod is not None else None
        if pod is None or due is None:
            return
        now = self._clock.now()
        if now < due:
            self._queue.add_after(key, (due - now).total_seconds())
            return
        try:
            await self._keeper.patch_pod_status(key, clearing_patch(pod, now))
        except Exception as error:
            if status_of(error) != NOT_FOUND:
                raise
