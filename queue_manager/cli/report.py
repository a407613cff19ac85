"""`sluice report`: what queues, users and flavors requested, used and wasted, and how long their Jobs waited."""

from __future__ import annotations

import argparse

from queue_manager.accounting.usage_report import UsageRow, usage_rows
from queue_manager.cli import output
from queue_manager.cli.exit_codes import EXIT_OK
from queue_manager.cli.history_reading import summaries
from queue_manager.cli.time_texts import local_time, span


def hours(amount: float) -> str:
    """Hours with at most three significant digits and decimals: 0 (below 0.0005), 0.004, 1.25, 1200."""
    rounded = round(amount, 3)
    return f"{rounded:.3g}" if rounded < 999.5 else f"{amount:.0f}"


def wasted(row: UsageRow) -> str:
    """The wasted CPU hours by cause: `1.5 failed, 0.2 preempted`."""
    causes = (
        (row.wasted_failed_cpu_hours, "failed"),
        (row.wasted_preempted_cpu_hours, "preempted"),
        (row.wasted_not_ready_cpu_hours, "not ready"),
        (row.wasted_other_cpu_hours, "other"),
    )
    shown = ((hours(amount), cause) for amount, cause in causes)
    return ", ".join(f"{amount} {cause}" for amount, cause in shown if amount != "0") or "-"


def flavor(row: UsageRow) -> str:
    """The flavor of the last admission, `not admitted` for Jobs without one; `-` for Jobs that request nothing."""
    return row.flavor or ("not admitted" if row.first_wait_p50_seconds is None else "-")


HEADINGS = {
    "queue": output.TableColumn("QUEUE", lambda row: row.queue or "-"),
    "user": output.TableColumn("USER", lambda row: row.user or "-"),
    "flavor": output.TableColumn("FLAVOR", flavor),
    "namespace": output.TableColumn("NAMESPACE", lambda row: row.namespace),
}
FIGURES = (
    output.TableColumn("JOBS", lambda row: str(row.jobs), right=True),
    output.TableColumn("DEACT", lambda row: str(row.deactivated), right=True),
    output.TableColumn("FAILED", lambda row: str(row.failed), right=True, wide=True),
    output.TableColumn("OK", lambda row: _percent(row.success_percent), right=True),
    output.TableColumn("WAIT p50", lambda row: span(row.waited_p50_seconds), right=True),
    output.TableColumn("p90", lambda row: span(row.waited_p90_seconds), right=True),
    output.TableColumn("CPU-H", lambda row: hours(row.cpu_hours_requested), right=True),
    output.TableColumn("CPU-H USED", lambda row: _hours(row.cpu_hours_used), right=True, wide=True),
    output.TableColumn("USED", lambda row: _percent(row.used_percent), right=True),
    output.TableColumn("WASTED", wasted, wrap=True),
)


def run(args: argparse.Namespace) -> int:
    """Print the report; return the exit code."""
    rows = usage_rows(summaries(args), args.by)
    columns = [*(HEADINGS[name] for name in args.by), *FIGURES]
    output.show(args.output, columns, rows, f"no Jobs since {local_time(args.since)}", row_type=UsageRow)
    return EXIT_OK


def _hours(amount: float | None) -> str:
    return "-" if amount is None else hours(amount)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0f}%"
