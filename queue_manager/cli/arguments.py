"""The arguments of the `sluice` command. Each subcommand lives in a module of its own, imported when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TypeAlias

from job_controller import quantities
from queue_manager.operator.permissions import ALL

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
OWN = "default: that of the context, else default"
MAX_NODES = 1000  # each node opens a watch of its own; more nodes take too long to start


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="sluice",
        description="Queue suspended Kubernetes Jobs by priority and quota, and run them: here, or on a cluster.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_up(commands)
    add_user_commands(commands)
    add_operator_commands(commands)
    add_demo(commands)
    add_manager(commands)
    check = commands.add_parser("check-config", help="list all mistakes in a KueueConfig, or print it with defaults")
    check.add_argument("file", metavar="F", help="the KueueConfig, or the ConfigMap with it; - is standard input")
    add_crds(commands)
    return top


def add_crds(commands: Commands) -> None:
    crds = commands.add_parser(
        "crds",
        help="print the queue's CustomResourceDefinitions, for kubectl apply -f -",
        epilog="To remove the queue and keep running Jobs: stop every `sluice manager` (while one runs, it stops each "
        "Job whose Workload is deleted), then `sluice crds | kubectl delete -f -`, which waits, and in another "
        "terminal `sluice crds --finish-delete`. Running Jobs continue; pending Jobs stay suspended.",
    )
    crds.add_argument(
        "--finish-delete",
        action="store_true",
        help="end a `kubectl delete` of them: remove the queue's finalizer from what is being deleted",
    )
    crds.add_argument(
        "--dry-run", action="store_true", help="with --finish-delete: print what would be done, change nothing"
    )
    add_client_options(crds)


def add_up(commands: Commands) -> None:
    up = commands.add_parser("up", help="run a cluster on this machine: API server, queue, Job controller, node agent")
    add_cluster_options(up)
    up.add_argument("--config", metavar="F", help="a KueueConfig (config/kueue_config.yaml explains every field)")
    up.add_argument("--port", type=port, default=0, metavar="P", help="port on loopback (default: any free one)")


def add_user_commands(commands: Commands) -> None:
    """Add the commands that list all Jobs and queues, submit Jobs, and run a demo or the manager."""
    ps = commands.add_parser("ps", help="one line per Job: queue, priority, state, pods, time, reason")
    add_client_options(ps)
    add_scope_options(ps)
    ps.add_argument("-q", "--queue", metavar="Q", help="only Jobs of this LocalQueue, or of cq/NAME, a ClusterQueue")

    queues = commands.add_parser("queues", help="one line per ClusterQueue: pending, admitted, quota in use")
    add_client_options(queues)

    submit = commands.add_parser("submit", help="check Jobs and submit them")
    submit.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE|DIR|-",
        help="YAML or JSON; - is standard input; may be given several times",
    )
    submit.add_argument("-q", "--queue", metavar="Q", help="LocalQueue for Jobs that name none")
    submit.add_argument("-n", "--namespace", metavar="NS", help=f"for Jobs that name none ({OWN})")
    add_client_options(submit)


def add_demo(commands: Commands) -> None:
    demo = commands.add_parser("demo", help="run a dozen Jobs on a temporary cluster and print the results")
    demo.add_argument("-o", "--output", choices=("table", "json"), default="table", help="format of the summary")
    demo.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="give up after (default 120)")


def add_manager(commands: Commands) -> None:
    manager = commands.add_parser("manager", help="run the queue and the Job controller against a Kubernetes cluster")
    manager.add_argument(
        "--kubeconfig", metavar="F", help="default: the service account in a pod, else $KUBECONFIG, else kubectl's"
    )
    manager.add_argument("--context", metavar="C", help="context of the kubeconfig")
    manager.add_argument("--config", metavar="F", help="a KueueConfig")
    manager.add_argument(
        "--controllers",
        type=controllers,
        default=ALL,
        metavar="A,B",
        help=f"which to run (default: {','.join(ALL)})",
    )
    manager.add_argument(
        "--metrics-port",
        type=port,
        metavar="P",
        help="serve /healthz, /readyz and /metrics on loopback, 0: on any port (default: as the KueueConfig says)",
    )
    manager.add_argument(
        "--visibility-port",
        type=port,
        metavar="P",
        help="serve the visibility API over TLS on loopback, 0: on any port (default: as the KueueConfig says; with "
        "--metrics-port: not)",
    )


def add_operator_commands(commands: Commands) -> None:
    """Add the commands that inspect and change single Jobs and queues, by API patches that kubectl could send too."""
    show = commands.add_parser("show", help="all about one Job: state, history, pods, retries, what happens next")
    show.add_argument("job", metavar="JOB", help="its name, or NAMESPACE/NAME")
    add_namespace_option(show)
    show.add_argument(
        "--config", metavar="F", help="the queue's KueueConfig, for its deadlines (not needed with `sluice up`)"
    )
    add_client_options(show)

    explain = commands.add_parser("explain", help="why one Job does not run, who holds its quota, what would change it")
    explain.add_argument("job", metavar="JOB", help="its name, or NAMESPACE/NAME")
    add_namespace_option(explain)
    explain.add_argument("--config", metavar="F", help="the queue's KueueConfig (not needed with `sluice up`)")
    add_client_options(explain, forms=("table", "json", "yaml"))

    inbox = commands.add_parser("deactivated", help="deactivated Jobs: why, attempts, last error, what to do")
    add_scope_options(inbox)
    inbox.add_argument("-q", "--queue", metavar="Q", help="only Jobs of this LocalQueue, or of cq/NAME, a ClusterQueue")
    add_client_options(inbox)

    back = commands.add_parser(
        "reactivate",
        help="requeue deactivated Jobs, with a new budget of retries",
        epilog="""kubectl patch workload NAME --type merge -p '{"spec":{"active":true}}' does the same.""",
    )
    back.add_argument("jobs", nargs="*", metavar="JOB", help="names, or NAMESPACE/NAME")
    back.add_argument("--all", action="store_true", help="all deactivated Jobs of the queue given with -q")
    back.add_argument("-q", "--queue", metavar="QUEUE", help="LocalQueue, or cq/NAME for a ClusterQueue; with --all")
    back.add_argument("--stagger", type=span, default=0.0, metavar="TIME", help="pause between two Jobs, e.g. 10s")
    add_change_options(back)

    stop = commands.add_parser(
        "deactivate",
        help="stop Jobs and keep them out of the queue until they are reactivated",
        epilog="""kubectl patch workload NAME --type merge -p '{"spec":{"active":false}}' does the same.""",
    )
    stop.add_argument("jobs", nargs="+", metavar="JOB", help="names, or NAMESPACE/NAME")
    add_change_options(stop)

    for name, policy, text in (
        ("hold", "Hold", "stop admitting Jobs of a queue; running Jobs continue"),
        ("release", "None", "let a held or drained queue admit Jobs again"),
        ("drain", "HoldAndDrain", "stop admitting Jobs of a queue, stop its running Jobs and requeue them"),
    ):
        command = commands.add_parser(
            name,
            help=text,
            epilog=f"""kubectl patch localqueue NAME --type merge -p '{{"spec":{{"stopPolicy":"{policy}"}}}}' """
            "does the same.",
        )
        command.add_argument("queue", metavar="QUEUE", help="a LocalQueue, or cq/NAME for a ClusterQueue")
        command.add_argument("--cluster-queue", action="store_true", help="QUEUE is a ClusterQueue")
        add_change_options(command)


def add_change_options(command: argparse.ArgumentParser) -> None:
    add_namespace_option(command)
    command.add_argument("--dry-run", action="store_true", help="print what would happen, change nothing")
    add_client_options(command)


def add_scope_options(command: argparse.ArgumentParser) -> None:
    scope = command.add_mutually_exclusive_group()
    scope.add_argument("-n", "--namespace", metavar="NS", help="only this namespace (default: all)")
    scope.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, as without -n")


def add_namespace_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("-n", "--namespace", metavar="NS", help=OWN)


def add_cluster_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--data-dir", metavar="D", help="data directory of the cluster (default: ~/.sluice)")
    command.add_argument("--nodes", type=node_count, default=1, metavar="N", help="number of nodes (default 1)")
    command.add_argument(
        "--cpu", type=quantity, metavar="C", help="cpu of each node, e.g. 4 or 500m (default: this machine's)"
    )
    command.add_argument(
        "--memory", type=quantity, metavar="M", help="memory of each node, e.g. 8Gi (default: this machine's)"
    )


def add_client_options(command: argparse.ArgumentParser, forms: Sequence[str] = ("table", "json")) -> None:
    command.add_argument(
        "--kubeconfig", metavar="F", help="default: $KUBECONFIG, else that of `sluice up`, else kubectl's"
    )
    command.add_argument("--context", metavar="C", help="context of the kubeconfig")
    command.add_argument("-o", "--output", choices=forms, default="table", help="default: table")


def span(text: str) -> float:
    """Parse a duration as in the configuration ("10s", "1m30s"); return seconds."""
    from queue_manager import durations  # imported late: most commands do not need it

    try:
        seconds = durations.parse(text).total_seconds()
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return seconds


def node_count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= number <= MAX_NODES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MAX_NODES}")
    return number


def controllers(text: str) -> tuple[str, ...]:
    chosen = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    for name in chosen:
        if name not in ALL:
            raise argparse.ArgumentTypeError(f"{name!r} is not a controller; choose from: {', '.join(ALL)}")
    if not chosen:
        raise argparse.ArgumentTypeError("names no controller")
    return tuple(chosen)


def quantity(text: str) -> str:
    try:
        amount = quantities.exact(text)
    except quantities.MalformedQuantity:
        raise argparse.ArgumentTypeError(f"{text!r} is not a quantity such as 4, 500m, 512Mi or 8Gi") from None
    if amount <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not greater than 0")
    return text


def port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return number
