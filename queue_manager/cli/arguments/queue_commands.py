"""The commands about queues."""

from __future__ import annotations

from queue_manager.cli.arguments.shared_options import (
    Commands,
    add_change_options,
    add_client_options,
    add_scope_options,
)
from queue_manager.cli.exit_meanings import exit_sentence


def add_queue_commands(commands: Commands) -> None:
    """Add the commands that list queues, and stop and release them."""
    queues = commands.add_parser("queues", help="one line per ClusterQueue: pending, admitted, quota in use")
    add_scope_options(queues)
    add_client_options(queues, "clusterqueue/NAME")

    doctor = commands.add_parser(
        "doctor",
        help="find mistakes in queues and settings, expiring certificates, stuck objects, wrong clocks",
        epilog=exit_sentence("doctor"),
    )
    add_client_options(doctor, "KIND/NAME -n NS")
    doctor.add_argument(
        "-n", "--namespace", metavar="NS", help="only what is in this namespace or in none (default: all)"
    )

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
