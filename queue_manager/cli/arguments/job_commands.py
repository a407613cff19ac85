"""The commands about Jobs. Those that change something do what an API patch of kubectl could do too."""

from __future__ import annotations

import argparse
import math

from queue_manager.cli.arguments.argument_types import (
    TIMES,
    job_state_list,
    natural,
    past_time,
    positive,
    quantity,
    span,
    variable,
)
from queue_manager.cli.arguments.shared_options import (
    OWN_NAMESPACE,
    Commands,
    add_change_options,
    add_client_options,
    add_connection_options,
    add_namespace_option,
    add_scope_options,
)
from queue_manager.cli.exit_meanings import exit_sentence


def add_job_lists(commands: Commands) -> None:
    """Add the commands that list and submit Jobs."""
    ps = commands.add_parser(
        "ps",
        help="one line per Job: queue, priority, state, pods, time, reason",
        description="One line per Job: unfinished ones, as squeue, and those that ended within the last 24 hours.",
        epilog=f"TIME: {TIMES}, in this machine's zone. The column TIME has, with run, how long the Job held "
        "quota in all its attempts together: of one that was evicted and runs again it is more than the time since its "
        "last start (sluice show has each attempt). With wait, of a Job that waits or none of whose pods has started, "
        "it is all other time but that in which it was deactivated. -o wide has both, as WAITED and RAN. WAIT and RUN "
        "of sluice history are the time without quota and with it.",
    )
    add_client_options(ps)
    add_scope_options(ps)
    ps.add_argument("-q", "--queue", metavar="Q", help="only Jobs of this LocalQueue, or of cq/NAME, a ClusterQueue")
    ps.add_argument(
        "--state", type=job_state_list, default=(), metavar="S,...", help="only these words of the STATE column"
    )
    age = ps.add_mutually_exclusive_group()
    age.add_argument("--since", type=past_time, metavar="TIME", help="unfinished Jobs, and those that ended since TIME")
    age.add_argument("--all", action="store_true", help="all Jobs, however long ago they ended; so does --state")
    ps.add_argument(
        "-w", "--watch", action="store_true", help="follow changes: redraw; to a pipe, append changed lines"
    )

    submit = commands.add_parser(
        "submit",
        help="check Jobs and submit them",
        epilog=exit_sentence("submit"),
    )
    submit.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE|DIR|-",
        help="YAML or JSON; - is standard input; may be given several times",
    )
    submit.add_argument("-q", "--queue", metavar="Q", help="LocalQueue for Jobs that name none")
    submit.add_argument("-n", "--namespace", metavar="NS", help=f"for Jobs that name none ({OWN_NAMESPACE})")
    submit.add_argument(
        "--replace", action="store_true", help="delete a Job that has the name, then create the new one"
    )
    submit.add_argument(
        "--wait",
        nargs="?",
        const=math.inf,
        type=span,
        metavar="TIME",
        help="until all have ended, at most this time (default: no limit): exit code 0 if all succeeded, else 1",
    )
    add_client_options(submit)
    _add_run(commands)


def _add_run(commands: Commands) -> None:
    """Add the command `run` and its options."""
    run = commands.add_parser(
        "run",
        help="run a command as a queued Job, print its log, end with its exit code",
        usage="sluice run [OPTIONS] [--] COMMAND [ARGUMENTS]",
        epilog="After Ctrl-C the Job keeps running, unless --rm was given. If not the command, but Sluice ends with a "
        f"code, a line on standard error that begins with `sluice run:` says why. {exit_sentence('run')}",
    )
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND", help="with its arguments")
    run.add_argument("-q", "--queue", metavar="Q", help="LocalQueue (default: the only one, or that named default)")
    run.add_argument(
        "--name", metavar="JOB", help="name of the Job (default: that of the program, and five characters)"
    )
    run.add_argument("--replace", action="store_true", help="with --name: delete a Job that has the name first")
    run.add_argument("--cpu", type=quantity, default="1", metavar="C", help="cpu of each pod (default 1)")
    run.add_argument("--memory", type=quantity, metavar="M", help="memory of each pod, e.g. 2Gi; it is a limit too")
    run.add_argument("--image", metavar="I", help="container image (not needed with `sluice up`)")
    run.add_argument(
        "--env",
        action="append",
        type=variable,
        default=[],
        metavar="NAME[=VALUE]",
        help="variable of the command; without value: as in this shell; may be given several times",
    )
    run.add_argument("--workdir", metavar="DIR", help="working directory (with `sluice up`: default this one)")
    run.add_argument(
        "--completions", type=positive, metavar="N", help="pods with indexes 0 to N-1 (JOB_COMPLETION_INDEX)"
    )
    run.add_argument("--parallelism", type=positive, metavar="N", help="pods at the same time (default: completions)")
    run.add_argument("--retries", type=natural, default=0, metavar="N", help="of a failed pod or index (default 0)")
    run.add_argument("--priority", metavar="CLASS", help="WorkloadPriorityClass")
    run.add_argument("-d", "--detach", action="store_true", help="print the Job and do not wait for it")
    run.add_argument("--rm", action="store_true", help="delete the Job at its end, and after Ctrl-C")
    add_namespace_option(run)
    add_client_options(run)


def add_single_jobs(commands: Commands) -> None:
    """Add the commands about chosen Jobs."""
    show = commands.add_parser("show", help="all about one Job: state, history, pods, retries, what happens next")
    show.add_argument("job", metavar="JOB", help="its name, or NAMESPACE/NAME")
    add_namespace_option(show)
    show.add_argument(
        "--config", metavar="F", help="the queue's KueueConfig, if you may not read that of the running manager"
    )
    add_client_options(show)

    explain = commands.add_parser(
        "explain",
        help="why one Job does not run, who holds its quota, what would change it",
        epilog=exit_sentence("explain"),
    )
    subject = explain.add_mutually_exclusive_group(required=True)
    subject.add_argument("job", nargs="?", metavar="JOB", help="its name, or NAMESPACE/NAME")
    subject.add_argument(
        "--reason", metavar="WORD", help="print what a reason means and what to do instead, e.g. WaitingForQuota"
    )
    add_namespace_option(explain)
    explain.add_argument(
        "--config", metavar="F", help="the queue's KueueConfig, if you may not read that of the running manager"
    )
    add_client_options(explain)

    deactivated = commands.add_parser("deactivated", help="deactivated Jobs: why, attempts, last error, what to do")
    add_scope_options(deactivated)
    deactivated.add_argument("--by", choices=("cause",), help="group the Jobs by cause, with counts and an example")
    deactivated.add_argument(
        "-q", "--queue", metavar="Q", help="only Jobs of this LocalQueue, or of cq/NAME, a ClusterQueue"
    )
    add_client_options(deactivated)

    back = commands.add_parser(
        "reactivate",
        help="requeue deactivated Jobs, with a new budget of retries",
        epilog="""After an interruption, repeat the command: it reactivates the rest, and leaves active Jobs alone.
A cluster that does not respond between two changes is tried again for a minute.
kubectl patch workload NAME --type merge -p '{"spec":{"active":true}}' does the same.""",
    )
    back.add_argument("jobs", nargs="*", metavar="JOB", help="names, or NAMESPACE/NAME")
    back.add_argument("--all", action="store_true", help="all deactivated Jobs of the queue given with -q")
    back.add_argument(
        "--why",
        metavar="TEXT",
        help="all of this cause, as `sluice deactivated --by cause` prints it; else all whose cause contains TEXT",
    )
    back.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces; with --why")
    back.add_argument(
        "-q", "--queue", metavar="QUEUE", help="LocalQueue, or cq/NAME for a ClusterQueue; with --all or --why"
    )
    back.add_argument(
        "--stagger",
        type=span,
        default=0.0,
        metavar="TIME",
        help="pause between two Jobs, e.g. 10s; with --dry-run, print how long all pauses would last",
    )
    add_change_options(back)

    stop = commands.add_parser(
        "deactivate",
        help="stop Jobs and keep them out of the queue until they are reactivated",
        epilog="""kubectl patch workload NAME --type merge -p '{"spec":{"active":false}}' does the same.""",
    )
    stop.add_argument("jobs", nargs="+", metavar="JOB", help="names, or NAMESPACE/NAME")
    add_change_options(stop)

    _add_following(commands)
    cancel = commands.add_parser(
        "cancel",
        help="delete Jobs that have not ended, with their pods, and wait until they are gone",
        epilog="""To stop a Job and keep it: sluice deactivate.""",
    )
    cancel.add_argument("jobs", nargs="+", metavar="JOB", help="names, or NAMESPACE/NAME")
    cancel.add_argument("--timeout", type=span, metavar="TIME", help="end after this time with exit code 1")
    add_change_options(cancel)


def _add_following(commands: Commands) -> None:
    """Add the commands that follow Jobs: `logs`, `wait`."""
    logs = commands.add_parser(
        "logs",
        help="print the logs of a Job's pods: of the newest attempts",
        epilog="An eviction or a deactivation deletes the pods that still run, and their logs with them. No "
        "setting keeps them; what -f has printed stays.",
    )
    logs.add_argument("job", metavar="JOB", help="its name, or NAMESPACE/NAME")
    chosen = logs.add_mutually_exclusive_group()
    chosen.add_argument("-f", "--follow", action="store_true", help="print until the Job has ended, through retries")
    chosen.add_argument("--failed", action="store_true", help="only of pods and containers that failed")
    chosen.add_argument("--previous", action="store_true", help="of the attempt before the newest, where it is kept")
    logs.add_argument("--index", type=natural, metavar="N", help="only of this index of an indexed Job")
    logs.add_argument("-c", "--container", metavar="C", help="which one (default: the one that failed, else the first)")
    add_namespace_option(logs)
    add_connection_options(logs)

    wait = commands.add_parser(
        "wait",
        help="wait until Jobs have finished, been admitted or started",
        epilog=exit_sentence("wait"),
    )
    wait.add_argument("jobs", nargs="+", metavar="JOB", help="names, or NAMESPACE/NAME")
    wait.add_argument(
        "--for",
        dest="goal",
        choices=("finished", "admitted", "started"),
        default="finished",
        help="finished (default): all must succeed; admitted: unsuspended; started: a pod is ready",
    )
    wait.add_argument("--timeout", type=span, metavar="TIME", help="e.g. 10m (default: none)")
    add_namespace_option(wait)
    add_client_options(wait)
