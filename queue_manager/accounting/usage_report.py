"""Adds up Jobs by queue, user and flavor: success, waits, and CPU time requested, used and wasted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from queue_manager.accounting.job_summary import JobOutcome, JobSummary, Waste

HOUR = 3600.0

GROUPS: Mapping[str, Callable[[JobSummary], str]] = {
    "queue": lambda job: f"{job.namespace}/{job.queue}" if job.queue else "",
    "user": lambda job: job.user,
    "flavor": lambda job: job.flavor,
    "namespace": lambda job: job.namespace,
}


class UsageRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One group of Jobs in `sluice report`. A column that does not group the rows is ""; an unknown number is None.

    `successPercent`: of those that succeeded or failed; a deactivated Job can still do either. `firstWait...`:
    from the submission to the first admission; `waited...`: in all attempts (`visibility.job_times`). Both of Jobs that
    were admitted.
    """

    queue: str
    user: str
    flavor: str
    namespace: str
    jobs: int
    succeeded: int
    failed: int
    deactivated: int
    success_percent: float | None
    first_wait_p50_seconds: float | None
    first_wait_p90_seconds: float | None
    waited_p50_seconds: float | None
    waited_p90_seconds: float | None
    cpu_hours_requested: float
    cpu_hours_used: float | None
    used_percent: float | None
    wasted_failed_cpu_hours: float
    wasted_preempted_cpu_hours: float
    wasted_not_ready_cpu_hours: float
    wasted_other_cpu_hours: float

    @property
    def wasted_cpu_hours(self) -> float:
        """Wasted CPU hours, summed over all causes."""
        return (
            self.wasted_failed_cpu_hours
            + self.wasted_preempted_cpu_hours
            + self.wasted_not_ready_cpu_hours
            + self.wasted_other_cpu_hours
        )


def usage_rows(jobs: Iterable[JobSummary], by: Sequence[str]) -> list[UsageRow]:
    """One row per group, in the order of the groups' names. `by`: keys of GROUPS."""
    groups: dict[tuple[str, ...], list[JobSummary]] = {}
    for job in jobs:
        groups.setdefault(tuple(GROUPS[name](job) for name in by), []).append(job)
    return [_row(dict(zip(by, names, strict=True)), groups[names]) for names in sorted(groups)]


def _row(names: Mapping[str, str], jobs: Sequence[JobSummary]) -> UsageRow:
    succeeded = sum(job.state is JobOutcome.SUCCEEDED for job in jobs)
    failed = sum(job.state is JobOutcome.FAILED for job in jobs)
    first_waits = sorted(job.first_wait_seconds for job in jobs if job.first_wait_seconds is not None)
    waits = sorted(job.waited_seconds for job in jobs if job.started_at is not None)
    measured = [job for job in jobs if job.cpu_used_seconds is not None]
    used = sum(job.cpu_used_seconds or 0.0 for job in measured)
    requested_by_measured = sum(job.cpu_requested_seconds for job in measured)
    return UsageRow(
        queue=names.get("queue", ""),
        user=names.get("user", ""),
        flavor=names.get("flavor", ""),
        namespace=names.get("namespace", ""),
        jobs=len(jobs),
        succeeded=succeeded,
        failed=failed,
        deactivated=sum(job.state is JobOutcome.DEACTIVATED for job in jobs),
        success_percent=_percent(succeeded, succeeded + failed),
        first_wait_p50_seconds=percentile(first_waits, 50),
        first_wait_p90_seconds=percentile(first_waits, 90),
        waited_p50_seconds=percentile(waits, 50),
        waited_p90_seconds=percentile(waits, 90),
        cpu_hours_requested=_hours(sum(job.cpu_requested_seconds for job in jobs)),
        cpu_hours_used=_hours(used) if measured else None,
        used_percent=_percent(used, requested_by_measured) if measured else None,
        wasted_failed_cpu_hours=_wasted(jobs, Waste.FAILED),
        wasted_preempted_cpu_hours=_wasted(jobs, Waste.PREEMPTED),
        wasted_not_ready_cpu_hours=_wasted(jobs, Waste.NOT_READY),
        wasted_other_cpu_hours=_wasted(jobs, Waste.OTHER),
    )


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """The smallest value that at least `percent` % of the ascending values do not exceed; None without values."""
    if not ordered:
        return None
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(0, rank - 1)]


def _percent(part: float, whole: float) -> float | None:
    return round(100.0 * part / whole, 1) if whole else None


def _hours(seconds: float) -> float:
    return round(seconds / HOUR, 6)


def _wasted(jobs: Iterable[JobSummary], cause: Waste) -> float:
    return _hours(sum(job.wasted_seconds[cause] for job in jobs))
