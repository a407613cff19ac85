"""Checks of waitForPodsReady: no limit of retries; a timeout shorter than the starts and image pulls seen, or than the
wait before a retry. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from queue_manager.api import reasons
from queue_manager.api.condition_types import ADMITTED, FINISHED, PODS_READY
from queue_manager.api.types import Workload
from queue_manager.configuration.advice import advice
from queue_manager.configuration.kueue_config import WaitForPodsReady
from queue_manager.lifecycle.pod_causes import IMAGE_FAULTS, LATE_RETRY, STARTING
from queue_manager.visibility.deactivated_jobs import LIMIT, job_argument, job_name
from queue_manager.visibility.diagnosis.image_pulls import ImagePull
from queue_manager.visibility.diagnosis.problem import Problem, warning
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from queue_manager.visibility.job_causes import recorded_cause
from queue_manager.visibility.resubmission import resubmission
from queue_manager.visibility.running_or_starting import failed_pods

NO_RETRY_LIMIT = "NoRetryLimit"
TIMEOUT_TOO_SHORT = "PodsReadyTimeoutTooShort"
IMAGE_NOT_PULLED = "ImageNotPulled"
UNUSUAL_SETTING = "UnusualSetting"
TIMEOUTS = (reasons.PODS_READY_TIMEOUT, LIMIT)  # reasons of attempts that the timeout ended
NARROW = 0.8  # of the timeout: with longer starts, the next slow one is evicted
EDIT_INSTALLED = "kubectl edit configmap kueue-manager-config -n {}"
EDIT_FILE = "edit the file of `sluice up --config`"


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
        _edit(snapshot, "set it, for example to 5"),
    )


def timeout_too_short(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """A warning if the waitForPodsReady timeout has ended attempts whose containers were being created, or whose Jobs
    still waited to retry after a failure.

    Else a warning if it is shorter than the slowest observed start or image pull, or hardly longer.
    """
    chosen = snapshot.config.wait_for_pods_ready if snapshot.config is not None else None
    if chosen is None:
        return
    retried = {job.metadata.uid for job in snapshot.jobs or () if failed_pods(job.status)}  # waited for another try
    first_tries = [each for each in snapshot.workloads or () if each.job_uid not in retried]
    placed = _placed_at(snapshot)
    starts = [
        (took, each) for each in first_tries if (took := observed_start(each, placed.get(each.job_uid))) is not None
    ]
    start = max(starts, key=lambda found: found[0], default=None)
    pull = max(snapshot.image_pulls, key=lambda found: found.took, default=None)
    if what := _what_is_short(snapshot, chosen.timeout, start, pull):
        slowest = max([chosen.timeout, *([start[0]] if start else []), *([pull.took] if pull else [])])
        wanted = max(2 * slowest, timedelta(minutes=1))
        fix = _edit(snapshot, f"set it to at least {_seconds(wanted)}")
        yield warning(TIMEOUT_TOO_SHORT, "waitForPodsReady.timeout", what, fix)


def _what_is_short(
    snapshot: ClusterSnapshot, timeout: timedelta, start: tuple[timedelta, Workload] | None, pull: ImagePull | None
) -> str:
    """The sentence about a timeout that is too short by the slowest start and pull; "" if it is long enough."""
    if late := [each for each in snapshot.workloads or () if _waited(each, timeout, _is_starting)]:
        pulled = f"; a node pulled {pull.image} in {_seconds(pull.took)}" if pull is not None else ""
        return f"{_such_as(late)} did not start their containers within {_seconds(timeout)}{pulled}."
    if late := [each for each in snapshot.workloads or () if _waited(each, timeout, _is_late)]:
        return (
            f"{_such_as(late)} had failed, and were to be retried later than {_seconds(timeout)} after the admission."
        )
    if start is not None and start[0] > timeout * NARROW:
        return (
            f"The pods of Workload {start[1].metadata.key} took {_seconds(start[0])} to become ready, and the timeout "
            f"is {_seconds(timeout)}: Jobs that start a little slower are evicted."
        )
    if pull is not None and pull.took > timeout * NARROW:
        return (
            f"A node pulled {pull.image} for pod {pull.pod} in {_seconds(pull.took)}, and the timeout is "
            f"{_seconds(timeout)}: Jobs whose image is not on their node yet are evicted."
        )
    return ""


def unusual_settings(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """A warning about each value that `sluice check-config` advises against."""
    for found in advice(snapshot.config, "", "") if snapshot.config is not None else ():
        yield warning(UNUSUAL_SETTING, found.field, f"{found.message}.", _edit(snapshot, "change it"))


def images_not_pulled(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """A warning about Workloads whose last attempt timed out because an image could not be pulled, by cause."""
    groups: dict[str, list[Workload]] = defaultdict(list)
    for workload in snapshot.workloads or ():
        cause = recorded_cause(workload)
        if cause.startswith(IMAGE_FAULTS) and not (workload.is_true(FINISHED) or workload.is_true(PODS_READY)):
            groups[cause].append(workload)
    jobs = {job.metadata.uid: job for job in snapshot.jobs or ()}
    for cause, workloads in sorted(groups.items()):
        job = job_argument(workloads[0])
        what = f"{_such_as(workloads)} waited for an image until the timeout: {cause}."
        again = resubmission(jobs.get(workloads[0].job_uid), "")
        fix = f"sluice show {job}; correct the image, then {again}"
        yield warning(IMAGE_NOT_PULLED, f"job/{job_name(workloads[0])} -n {workloads[0].metadata.namespace}", what, fix)


def _is_starting(cause: str) -> bool:
    return cause.startswith(STARTING)


def _is_late(cause: str) -> bool:
    return cause.endswith(LATE_RETRY)


def _waited(workload: Workload, timeout: timedelta, applies: Callable[[str], bool]) -> bool:
    """Whether such a timeout has ended an attempt of it with such a cause of its pods."""
    history = workload.status.requeue_history
    return any(
        each.reason in TIMEOUTS and applies(each.pod_cause) and each.end - each.start >= timeout * NARROW
        for each in (history.attempts if history is not None else ())
        if each.start is not None and each.end is not None
    )


def _such_as(workloads: Sequence[Workload]) -> str:
    first = job_argument(min(workloads, key=lambda workload: workload.metadata.key), "")
    return f"The pods of Job {first}" if len(workloads) == 1 else f"The pods of {len(workloads)} Jobs, such as {first},"


def _placed_at(snapshot: ClusterSnapshot) -> dict[str, datetime]:
    """When the last pod of each Job got a node, by the UID of the Job."""
    found: dict[str, datetime] = {}
    for pod in snapshot.pods or ():
        placed = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.is_true), None)
        if pod.metadata.controller is not None and placed is not None and placed.last_transition_time is not None:
            uid = pod.metadata.controller.uid
            found[uid] = max(placed.last_transition_time, found.get(uid, placed.last_transition_time))
    return found


def observed_start(workload: Workload, placed: datetime | None = None) -> timedelta | None:
    """The time from admission until all pods were ready first; None if unknown.

    `placed`: when the last of them got a node. What they waited for one says nothing about their start.
    """
    admitted, ready = workload.condition(ADMITTED), workload.condition(PODS_READY)
    if admitted is None or ready is None or not (admitted.is_true and ready.is_true) or ready.reason != reasons.STARTED:
        return None
    if admitted.last_transition_time is None or ready.last_transition_time is None:
        return None
    began = admitted.last_transition_time
    if placed is not None and began < placed <= ready.last_transition_time:
        began = placed
    return ready.last_transition_time - began


def _ends(chosen: WaitForPodsReady) -> bool:
    strategy = chosen.requeuing_strategy
    return strategy.backoff_limit_count is not None or strategy.give_up_after is not None


def _edit(snapshot: ClusterSnapshot, change: str) -> str:
    """The command that changes the configuration, and after a colon what to do with it."""
    return (
        f"{EDIT_FILE}: {change}, and send SIGHUP to its process"
        if snapshot.is_embedded
        else f"{EDIT_INSTALLED.format(snapshot.home)}: {change}"
    )


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.0f}s"
