"""What the queue benchmark prints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tests.benchmarks.queue_load import PLAIN_IN_FLIGHT
from tests.benchmarks.queue_record import BY_RUNNER, Record
from tests.benchmarks.queue_shape import Shape

if TYPE_CHECKING:
    from tests.benchmarks.bench_queue import Result

SHOWN_WRITES = 12
MIN_SHARE = 0.005  # of writes per Workload, below which a row is left out
# The whole benchmark, Kueue's own manager and runner on the same machine and server.
KUEUE = {
    "makespan": "379 s",
    "large": "26 s",
    "status writes": "2.2",
    "server": "30 ms",
    "manager": "6.6 ms",
}
AIMS = {
    "makespan": "< 150 s",
    "large": "< 10 s",
    "our writes": "at most 2",
    "writes of preempted": "at most 3",
    "manager": "< 3 ms",
}


class Progress:
    """One line every few seconds."""

    def __init__(self, cpu: Callable[[], Mapping[str, float]]) -> None:
        self._cpu = cpu
        self._last_cpu, self._last = cpu(), time.monotonic()

    def show(self, record: Record) -> None:
        cpu, now = self._cpu(), time.monotonic()
        busy = ", ".join(
            f"{name} {(seconds - self._last_cpu[name]) / (now - self._last):.0%}" for name, seconds in cpu.items()
        )
        self._last_cpu, self._last = cpu, now
        writes = record.status_writes / max(1, len(record.lives))
        print(
            f"{now - record.started:6.0f} s  created {len(record.lives):>6,}  pending {record.pending:>6,}  "
            f"running {record.running:>4,}  finished {record.finished:>6,}  "
            f"status writes {writes:4.1f} each  cpu: {busy}",
            flush=True,
        )


def headline(shape: Shape) -> str:
    classes = ", ".join(f"{c.count} {c.name}" for c in shape.classes)
    return (
        f"{shape.total:,} Workloads in {len(shape.queues)} ClusterQueues ({classes} in each), "
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
    )


def show(shape: Shape, ours: Result, plain: Result) -> None:
    console = Console(width=120)
    table = Table("what", "sluice", "plain client", "aim", "Kueue")
    for row in rows(shape, ours, plain):
        table.add_row(*row)
    console.print(table)
    console.print(_shares("status and other writes, by cause", ours, dict(ours.record.causes)))
    console.print(_shares("writes that the API server answered", ours, dict(ours.spent.writes)))
    console.print(_shares("Event objects, by reason", ours, dict(ours.events)))
    console.print(
        f"Plain client: a create and two status patches per Workload, {PLAIN_IN_FLIGHT} in flight, on its own server. "
        "Aims and Kueue: the whole benchmark; Kueue was measured on another day. "
        f"Load average {plain.load_average[0]:.1f} after the plain client, {ours.load_average[0]:.1f} after sluice."
    )


def rows(shape: Shape, ours: Result, plain: Result) -> list[tuple[str, ...]]:
    record, total = ours.record, shape.total

    def both(name: str, of: Callable[[Result], str], key: str = "") -> tuple[str, ...]:
        return (name, of(ours), of(plain), AIMS.get(key, ""), KUEUE.get(key, ""))

    def one(name: str, figure: str, key: str = "") -> tuple[str, ...]:
        return (name, figure, "", AIMS.get(key, ""), KUEUE.get(key, ""))

    def cpu(process: str) -> Callable[[Result], str]:
        return lambda result: f"{result.spent.cpu[process] / total * 1e3:.2f} ms"

    found = [
        both("makespan", lambda r: f"{r.record.makespan:.1f} s", "makespan"),
        one("  the quota alone allows", f"{shape.least_seconds:.1f} s"),
        both("  all created within", lambda r: f"{r.record.created_within:.1f} s"),
        one("  last Event or queue status written after", f"{ours.settled:.1f} s"),
        *(
            one(f"{c.name} admitted after (mean)", f"{record.wait(c.name, last=True):.2f} s", c.name)
            for c in reversed(shape.classes)
        ),
        *(
            one(f"  {c.name}, its first admission", f"{record.wait(c.name, last=False):.2f} s")
            for c in reversed(shape.classes)
        ),
        both("status writes per Workload", lambda r: f"{r.record.status_writes / total:.2f}", "status writes"),
        one(
            "  by us, without the runner's",
            f"{(record.status_writes - record.causes[BY_RUNNER]) / total:.2f}",
            "our writes",
        ),
        one("  by us, of those preempted once", preempted_once(record), "writes of preempted"),
        both("CPU of the API server per Workload", cpu("kube-apiserver"), "server"),
        both("CPU of etcd per Workload", cpu("etcd")),
        one("CPU of the manager per Workload", cpu("manager")(ours), "manager"),
        both("CPU of the clients per Workload", cpu("clients")),
        both("all of this CPU, of what the machine has", _share_of_machine),
        one("memory of the manager, at most", f"{ours.memory / 2**20:.0f} MiB"),
        one("pending at most / on average", f"{record.most_pending:,} / {record.mean_pending:,.0f}"),
        one("cpus in use in one cohort, at most", f"{record.most_in_use} of {shape.quota_of_cohort}"),
        one("Events dropped", f"{ours.lost_events:,}"),
        one("preemptions", ", ".join(f"{n:,} {reason}" for reason, n in record.preemptions.items()) or "none"),
    ]
    return found


def _share_of_machine(result: Result) -> str:
    """If this is low, other programs have slowed down the run, or it waited for its own limits."""
    return f"{sum(result.spent.cpu.values()) / (result.settled * (os.cpu_count() or 1)):.0%}"


def preempted_once(record: Record) -> str:
    """The status writes by us of each Workload that was preempted once, by cause."""
    workloads, causes = record.writes_of_preempted()
    if not workloads:
        return "none was preempted once"
    shown = ", ".join(f"{count / workloads:.2f} {why}" for why, count in causes.most_common())
    return f"{causes.total() / workloads:.2f}: {shown}"


def _shares(title: str, ours: Result, counts: Mapping[str, int]) -> Table:
    table = Table(title, "per Workload", "in all")
    total = ours.record.shape.total
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    for name, count in ranked[:SHOWN_WRITES]:
        if count / total >= MIN_SHARE:
            table.add_row(name, f"{count / total:.2f}", f"{count:,}")
    return table
