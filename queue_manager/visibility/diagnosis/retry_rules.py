"""Checks of waitForPodsReady: no limit of retries; a timeout shorter than the starts that were seen. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from queue_manager.api import reasons
from queue_manager.api.condition_types import ADMITTED, FINISHED, PODS_READY
from queue_manager.api.types import Workload
from queue_manager.configuration.kueue_config import WaitForPodsReady
from queue_manager.visibility.diagnosis.problem import Problem, warning
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot

NO_RETRY_LIMIT = "NoRetryLimit"
TIMEOUT_TOO_SHORT = "PodsReadyTimeoutTooShort"
NARROW = 0.8  # of the timeout: with longer starts, the next slow one is evicted
EDIT_PUBLISHED = "kubectl edit configmap kueue-manager-config -n kueue-system"
EDIT_FILE = "edit the file of `sluice up --config`, then send SIGHUP to its process"


def without_retry_limit(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """A warning if waitForPodsReady has no limit of retries.

    The defaults, which are Kueue's, have none either. With them there is a warning only if an unfinished Workload has
    been retried; otherwise every new cluster would have it.
    """
    chosen = snapshot.config.wait_for_pods_ready if snapshot.config is not None else None
    if chosen is None or _ends(chosen):
        return
    retried = [
        each
        for each in snapshot.workloads or ()
        if not each.is_true(FINISHED) and each.status.requeue_state is not None and each.status.requeue_state.count
    ]
    if chosen == WaitForPodsReady() and not retried:
        return
    so_far = f" ({len(retried)} wait for another attempt now)" if retried else ""
    yield warning(
        NO_RETRY_LIMIT,
        "waitForPodsReady.requeuingStrategy.backoffLimitCount",
        f"It is not set: Jobs whose pods never become ready are retried forever{so_far}.",
        f"{_edit(snapshot)}: set it, for example to 5",
    )


def timeout_too_short(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """A warning if the waitForPodsReady timeout is shorter than the slowest observed start, or hardly longer."""
    chosen = snapshot.config.wait_for_pods_ready if snapshot.config is not None else None
    starts = {
        each.metadata.key: start for each in snapshot.workloads or () if (start := observed_start(each)) is not None
    }
    if chosen is None or not starts:
        return
    key, slowest = max(starts.items(), key=lambda item: item[1])
    timeout = chosen.timeout
    if slowest <= timeout * NARROW:
        return
    wanted = max(2 * slowest, timedelta(minutes=1))
    yield warning(
        TIMEOUT_TOO_SHORT,
        "waitForPodsReady.timeout",
        f"The pods of Workload {key} took {_seconds(slowest)} to become ready, and the timeout is {_seconds(timeout)}: "
        "Jobs that start a little slower are evicted.",
        f"{_edit(snapshot)}: set it to at least {_seconds(wanted)}",
    )


def observed_start(workload: Workload) -> timedelta | None:
    """The time from admission until all pods were ready first; None if unknown."""
    admitted, ready = workload.condition(ADMITTED), workload.condition(PODS_READY)
    if admitted is None or ready is None or not (admitted.is_true and ready.is_true) or ready.reason != reasons.STARTED:
        return None
    if admitted.last_transition_time is None or ready.last_transition_time is None:
        return None
    return ready.last_transition_time - admitted.last_transition_time


def _ends(chosen: WaitForPodsReady) -> bool:
    strategy = chosen.requeuing_strategy
    return strategy.backoff_limit_count is not None or strategy.give_up_after is not None


def _edit(snapshot: ClusterSnapshot) -> str:
    return EDIT_FILE if snapshot.is_embedded else EDIT_PUBLISHED


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.0f}s"
