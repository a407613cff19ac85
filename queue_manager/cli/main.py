"""The `sluice` command: argument parsing. Each subcommand lives in a module of its own, imported when it runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from queue_manager.cli.exits import EXIT_ERROR, Refusal

CONTROLLERS = ("job-controller", "queue")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 ok, 1 waiting or not as expected, 2 refused, 3 error."""
    args = parser().parse_args(argv)
    try:
        code: int = import_module(f"queue_manager.cli.{args.command}").run(args)
    except Refusal as refusal:
        print(f"sluice {args.command}: {refusal}", file=sys.stderr)  # noqa: T201
        return refusal.code
    except BrokenPipeError:  # the reader of a pipe has had enough
        sys.stderr.close()
        return EXIT_ERROR
    except KeyboardInterrupt:
        return 130
    return code


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="sluice",
        description="Queue suspended Kubernetes Jobs by priority and quota, and run them: here, or on a cluster.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    up = commands.add_parser("up", help="run a cluster on this machine: API server, queue, Job controller, node agent")
    add_cluster_options(up)
    up.add_argument("--config", metavar="F", help="a KueueConfig (config/kueue_config.yaml explains every field)")
    up.add_argument("--port", type=port, default=0, metavar="P", help="port on loopback (default: any free one)")

    ps = commands.add_parser("ps", help="one line per Job: queue, priority, state, pods, time, reason")
    add_client_options(ps)
    ps.add_argument("-n", "--namespace", metavar="NS", help="only this namespace (default: all)")
    ps.add_argument("-q", "--queue", metavar="Q", help="only Jobs of this LocalQueue")

    queues = commands.add_parser("queues", help="one line per ClusterQueue: pending, admitted, quota in use")
    add_client_options(queues)

    submit = commands.add_parser("submit", help="check Jobs and submit them")
    submit.add_argument("-f", "--file", required=True, metavar="FILE|DIR|-", help="YAML or JSON; - is standard input")
    submit.add_argument("-q", "--queue", metavar="Q", help="LocalQueue for Jobs that name none")
    submit.add_argument("-n", "--namespace", metavar="NS", help="for Jobs that name none (default: default)")
    add_client_options(submit)

    demo = commands.add_parser("demo", help="a temporary cluster, a dozen Jobs, and what became of them")
    demo.add_argument("-o", "--output", choices=("table", "json"), default="table", help="form of the summary")
    demo.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="give up after (default 120)")

    manager = commands.add_parser("manager", help="run the queue and the Job controller against a Kubernetes cluster")
    manager.add_argument(
        "--kubeconfig", metavar="F", help="default: the service account in a pod, else $KUBECONFIG, else kubectl's"
    )
    manager.add_argument("--context", metavar="C", help="context of the kubeconfig")
    manager.add_argument("--config", metavar="F", help="a KueueConfig")
    manager.add_argument(
        "--controllers",
        type=controllers,
        default=CONTROLLERS,
        metavar="A,B",
        help=f"which to run (default: {','.join(CONTROLLERS)})",
    )
    manager.add_argument(
        "--metrics-port",
        type=port,
        metavar="P",
        help="serve /healthz, /readyz and /metrics on loopback, 0: on any port (default: as the KueueConfig says)",
    )

    commands.add_parser("crds", help="print the queue's CustomResourceDefinitions, for kubectl apply -f -")
    return top


def add_cluster_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--data-dir", metavar="D", help="where the cluster lives (default: ~/.sluice)")
    command.add_argument("--nodes", type=positive, default=1, metavar="N", help="number of nodes (default 1)")
    command.add_argument("--cpu", metavar="C", help="cpu of each node, e.g. 4 or 500m (default: this machine's)")
    command.add_argument("--memory", metavar="M", help="memory of each node, e.g. 8Gi (default: this machine's)")


def add_client_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--kubeconfig", metavar="F", help="default: $KUBECONFIG, else that of `sluice up`")
    command.add_argument("--context", metavar="C", help="context of the kubeconfig")
    command.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")


def positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def controllers(text: str) -> tuple[str, ...]:
    chosen = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    for name in chosen:
        if name not in CONTROLLERS:
            raise argparse.ArgumentTypeError(f"{name!r} is no controller; there are: {', '.join(CONTROLLERS)}")
    if not chosen:
        raise argparse.ArgumentTypeError("names no controller")
    return tuple(chosen)


def port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return number


if __name__ == "__main__":
    sys.exit(main())
