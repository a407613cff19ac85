"""The commands that read the history of Jobs: `history`, `report`."""

from __future__ import annotations

import argparse

from queue_manager.cli.arguments.argument_types import TIMES, past_time
from queue_manager.cli.arguments.shared_options import Commands, add_connection_options, add_output_option

GROUPS = ("queue", "user", "flavor", "namespace")


def add_history_commands(commands: Commands) -> None:
    """Add the commands that read the history, which outlives Jobs."""
    history = commands.add_parser(
        "history",
        help="Jobs of the past, deleted ones too: result, cause, waits, CPU time and memory",
        epilog=f"TIME: {TIMES}, in this machine's zone. With JOB: each step of the newest Job of that name. RUN "
        "is the time with quota of all tries together, evicted ones too, WAIT all other time until the end or now, but "
        "that in which the Job was deactivated, as in sluice ps and show. A ? is a value that the node does not know: "
        "the memory of a short pod.",
    )
    history.add_argument(
        "job",
        nargs="?",
        metavar="JOB",
        help="its name, NAMESPACE/NAME, or UID (8 characters are enough): show its steps",
    )
    history.add_argument("--failed", action="store_true", help="only Jobs that failed or were deactivated")
    _add_choice(history)
    add_output_option(history)

    report = commands.add_parser(
        "report",
        help="per queue, user and flavor: jobs, success, waits, CPU hours requested, used and wasted",
        epilog=f"TIME: {TIMES}, in this machine's zone. A Job counts in full if it existed, unfinished, within them. "
        "OK is the share of those that succeeded among those that succeeded or failed; deactivated ones (DEACT) "
        "count as neither. WAIT is that of sluice history, of Jobs that were admitted. FLAVOR is that of the last "
        "admission: `not admitted` without one, - if the Job requests nothing. WASTED is the requested CPU time of "
        "attempts that failed, were preempted or did not get ready; other: that a user, a deletion or a stopped queue "
        "ended.",
    )
    report.add_argument(
        "--by",
        type=group_list,
        default=GROUPS[:3],
        metavar="A,B",
        help=f"group by some of {','.join(GROUPS)} (default: {','.join(GROUPS[:3])})",
    )
    _add_choice(report)
    add_output_option(report, "")


def _add_choice(command: argparse.ArgumentParser) -> None:
    """Add the options that select Jobs and name the history's database."""
    command.add_argument(
        "--since", type=past_time, default="7d", metavar="TIME", help="not ended before this time (default: 7d)"
    )
    command.add_argument("--until", type=past_time, metavar="TIME", help="submitted before this time (default: now)")
    command.add_argument("--user", metavar="U", help="only Jobs of this user")
    command.add_argument("-q", "--queue", metavar="Q", help="only Jobs of this LocalQueue, or of cq/NAME")
    command.add_argument("-n", "--namespace", metavar="NS", help="only this namespace (default: all)")
    command.add_argument(
        "--store",
        metavar="URL",
        help="sqlite:///PATH or postgresql://HOST/DATABASE (default: that of `sluice up`, history.db beside the "
        "kubeconfig that other commands use)",
    )
    add_connection_options(command)


def group_list(text: str) -> tuple[str, ...]:
    """Parse the groups of a report. Raises ArgumentTypeError for unknown ones."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names or not set(names) <= set(GROUPS):
        raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(GROUPS)}")
    return names
