"""The commands that run a cluster on this machine: `up`, `down`, `demo`."""

from __future__ import annotations

import argparse

from queue_manager import assets
from queue_manager.cli.arguments.argument_types import node_count, port, quantity, span
from queue_manager.cli.arguments.shared_options import Commands, add_output_option
from queue_manager.cli.logging_options import add_log_options

DEFAULT_NODES = 1


def add_up(commands: Commands) -> None:
    """Add the command `up` and its options."""
    up = commands.add_parser("up", help="run a cluster on this machine: API server, queue, Job controller, node agent")
    add_cluster_options(up)
    up.add_argument(
        "--config",
        metavar="F",
        help=f"a KueueConfig ({assets.shown(assets.config() / 'kueue_config.yaml')} explains every field)",
    )
    up.add_argument("--port", type=port, metavar="P", help="port on loopback (default: any free one)")
    up.add_argument("--detach", action="store_true", help="run in the background, with the output in DATA-DIR/up.log")
    up.add_argument(
        "--wait",
        type=span,
        nargs="?",
        const=60.0,
        metavar="T",
        help="with --detach: return when the API server answers, or after T (default 60s)",
    )
    up.add_argument(
        "--leave-running",
        action="store_true",
        help="a stop leaves the processes of Jobs running, and the next `sluice up` finds them; without it they end, "
        "and start again then, which does not count as a retry",
    )
    add_log_options(up, "warning")


def add_down(commands: Commands) -> None:
    """Add the command `down` and its options."""
    down = commands.add_parser("down", help="stop the cluster of `sluice up`, in the background or another terminal")
    down.add_argument("--data-dir", metavar="D", help="data directory of the cluster (default: ~/.sluice)")
    down.add_argument(
        "--timeout", type=span, default=60.0, metavar="T", help="wait this long for its end (default 60s)"
    )
    down.add_argument(
        "--remove-data", action="store_true", help="also end all processes of its Jobs and delete its objects and logs"
    )


def add_demo(commands: Commands) -> None:
    """Add the command `demo` and its options."""
    demo = commands.add_parser("demo", help="run a dozen Jobs on a temporary cluster and print the results")
    add_output_option(demo)
    demo.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="give up after (default 120)")


def add_cluster_options(command: argparse.ArgumentParser) -> None:
    """Add the data directory of an embedded cluster, and the number and size of its nodes."""
    command.add_argument("--data-dir", metavar="D", help="data directory of the cluster (default: ~/.sluice)")
    command.add_argument("--nodes", type=node_count, metavar="N", help=f"number of nodes (default {DEFAULT_NODES})")
    command.add_argument(
        "--cpu", type=quantity, metavar="C", help="cpu of each node, e.g. 4 or 500m (default: this machine's)"
    )
    command.add_argument(
        "--memory", type=quantity, metavar="M", help="memory of each node, e.g. 8Gi (default: this machine's)"
    )
