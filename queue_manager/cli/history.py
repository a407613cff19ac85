"""`sluice history`: Jobs of the past, deleted ones too; with a name, all steps of one Job."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from queue_manager.accounting.history_queries import HistoryFilter, JobHistory
from queue_manager.accounting.job_summary import STATUS_UNKNOWN, JobOutcome, JobSummary, cause_and_end, text
from queue_manager.accounting.record_types import PodRecord, StepKind, StepRecord
from queue_manager.accounting.step_order import shown_attempts, timeline
from queue_manager.cli import output
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.history_reading import names_of_jobs, own_namer, read, summaries
from queue_manager.cli.named_targets import key_of
from queue_manager.cli.standard_streams import say
from queue_manager.cli.time_texts import local_clock, local_time, span
from queue_manager.visibility.similar_names import did_you_mean

UID = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}")  # or what one begins with
SHOWN_UID = 8  # characters
MOST_OLDER = 5  # UIDs of further Jobs in one line
GIB, MIB = 1 << 30, 1 << 20
STYLES = {
    JobOutcome.SUCCEEDED: "dim",
    JobOutcome.RUNNING: "green",
    JobOutcome.PENDING: "yellow",
    JobOutcome.HELD: "yellow",
    JobOutcome.FAILED: "red",
    JobOutcome.DEACTIVATED: "red",
    JobOutcome.DELETED: "red",
}


class StepRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One step of `sluice history JOB`. `attempt`: as `step_order.shown_attempts` numbers them."""

    at: datetime
    step: str
    attempt: int
    cause: str
    cluster_queue: str = ""
    flavor: str = ""


def cpu(seconds: float | None) -> str:
    """CPU time: 0.25s, 12s, 3m20s."""
    if seconds is None:
        return "?"
    return f"{seconds:.2f}s" if seconds < 10 else output.duration(seconds)


def memory(size: int | None) -> str:
    """A size in bytes: 512Ki, 12Mi, 1.5Gi."""
    if size is None:
        return "?"
    if size >= GIB:
        return f"{size / GIB:.1f}Gi"
    return f"{size / MIB:.0f}Mi" if size >= MIB else f"{size // 1024}Ki"


def _clock(at: datetime | None) -> str:
    return local_clock(at, datetime.now(UTC))


COLUMNS = (
    output.TableColumn("SUBMITTED", lambda job: _clock(job.submitted_at)),
    output.TableColumn("NAMESPACE", lambda job: job.namespace),
    output.TableColumn("NAME", lambda job: job.name),
    output.TableColumn("UID", lambda job: job.uid[:SHOWN_UID], wide=True),
    output.TableColumn("STATE", lambda job: job.state, style=lambda job: STYLES[job.state]),
    output.TableColumn("USER", lambda job: job.user),
    output.TableColumn("QUEUE", lambda job: job.queue or "-"),
    output.TableColumn("ATTEMPTS", lambda job: str(job.attempts), right=True),
    output.TableColumn("WAIT", lambda job: span(job.waited_seconds), right=True),
    output.TableColumn("RUN", lambda job: span(job.ran_seconds if job.has_run else None), right=True),
    output.TableColumn("CPU", lambda job: cpu(job.cpu_used_seconds), right=True),
    output.TableColumn("MEMORY", lambda job: memory(job.memory_peak_bytes), right=True),
    output.TableColumn("STARTED", lambda job: _clock(job.started_at), wide=True),
    output.TableColumn("ENDED", lambda job: _clock(job.ended_at), wide=True),
    output.TableColumn("CLUSTERQUEUE", lambda job: job.cluster_queue or "-", wide=True),
    output.TableColumn("FLAVOR", lambda job: job.flavor or "-", wide=True),
    output.TableColumn("CAUSE", cause_and_end, wrap=True),
)
COMMON: Mapping[str, Callable[[JobSummary], str]] = {
    "NAMESPACE": lambda job: job.namespace,
    "USER": lambda job: job.user,
    "QUEUE": lambda job: job.queue,
}
# `sluice release` is something else. Machine formats have the stored name.
SHOWN_STEPS = {StepKind.RELEASED.value: "QuotaReleased"}
STEP_COLUMNS = (
    output.TableColumn("TIME", lambda row: _clock(row.at)),
    output.TableColumn("STEP", lambda row: SHOWN_STEPS.get(row.step, row.step)),
    output.TableColumn("ATTEMPT", lambda row: str(row.attempt or "-"), right=True),
    output.TableColumn("CAUSE", lambda row: row.cause or "-", wrap=True),
)


def run(args: argparse.Namespace) -> int:
    """Print the history; return the exit code."""
    if args.job:
        if args.output == "name":
            raise CommandRefused("-o name lists Jobs; the steps of a Job have no names", EXIT_NEVER)
        output.show(args.output, STEP_COLUMNS, step_rows(_chosen(args)), "", row_type=StepRow)
        return EXIT_OK
    jobs = [job for job in summaries(args) if not args.failed or _failed(job)]
    empty = f"no such Jobs since {local_time(args.since)}"
    output.show(args.output, columns(args.output, jobs), jobs, empty, row_type=JobSummary, name=own_namer(args))
    return EXIT_OK


def columns(form: str, jobs: Sequence[JobSummary]) -> list[output.TableColumn]:
    """The columns whose values differ between Jobs, so that a row fits 80 characters; with -o wide all."""
    same = [heading for heading, value in COMMON.items() if len({value(job) for job in jobs}) == 1]
    return [column for column in COLUMNS if form == "wide" or column.heading not in same]


def _failed(job: JobSummary) -> bool:
    return job.state in (JobOutcome.FAILED, JobOutcome.DEACTIVATED)


def _chosen(args: argparse.Namespace) -> JobHistory:
    """The newest Job of this name, whenever it was; without one, the Job whose UID is or begins with that.

    The UIDs of older Jobs of the name are printed on standard error. Raises CommandRefused.
    """
    namespace, name = key_of(args.job, args.namespace or "")
    found = read(args, HistoryFilter(namespace=namespace, name=name))
    if found:
        if older := [each.job.uid[:SHOWN_UID] for each in reversed(found[:-1])]:
            more = f" and {len(older) - MOST_OLDER} more (sluice history -o wide)" if len(older) > MOST_OLDER else ""
            say(f"sluice history: older Jobs of this name, by UID: {', '.join(older[:MOST_OLDER])}{more}")
        return found[-1]
    found = read(args, HistoryFilter(namespace=namespace, uid=name)) if UID.fullmatch(name) else []
    if len(found) > 1:
        uids = ", ".join(each.job.uid for each in found[:MOST_OLDER])
        raise CommandRefused(f"the UIDs of {len(found)} Jobs begin with {name}: {uids}", EXIT_NEVER)
    if not found:
        where = f" in namespace {namespace}" if namespace else ""
        near = did_you_mean(name, names_of_jobs(args, namespace))
        hint = f"; {near}" if near else ""
        raise CommandRefused(f"the history has no Job {name}{where}{hint}", EXIT_NEVER)
    return found[0]


def step_rows(history: JobHistory) -> list[StepRow]:
    """The submission, all steps and all ended pods of a Job, by time."""
    submitted = StepRow(at=history.job.submitted_at, step=StepKind.SUBMITTED, attempt=0, cause="")
    entries = timeline(history.steps, history.pods)
    numbered = zip(entries, shown_attempts(entries), strict=True)
    return [submitted, *(_step_row(e, number) if isinstance(e, StepRecord) else _pod_row(e) for e, number in numbered)]


def _step_row(step: StepRecord, attempt: int) -> StepRow:
    held = f"{step.cpu_milli / 1000:g} cpu" + (f", {memory(step.memory_bytes)}" if step.memory_bytes else "")
    where = f"{step.cluster_queue}, {step.flavor}: {held}"
    return StepRow(
        at=step.at,
        step=step.kind,
        attempt=attempt,
        cause=where if step.kind is StepKind.ADMITTED else text(step),
        cluster_queue=step.cluster_queue,
        flavor=step.flavor,
    )


def _pod_row(pod: PodRecord) -> StepRow:
    return StepRow(
        at=pod.ended_at,
        step=f"Pod{pod.phase}",
        attempt=0,
        cause=f"{pod.name} on {pod.node or 'no node'}: {pod_end(pod)}, "
        f"cpu {cpu(pod.cpu_seconds)}, memory {memory(pod.peak_memory_bytes)}",
    )


def pod_end(pod: PodRecord) -> str:
    """`exit 3: no such column`; without a cause `exit 143 (Error)`, of containers without an end `no exit code`."""
    ended = pod.exit_code is not None and pod.reason != STATUS_UNKNOWN  # a kubelet puts 137 where no container was
    known = f"exit {pod.exit_code}" if ended else "no exit code"
    return pod.message or (f"{known} ({pod.reason})" if pod.reason else known)
