"""The arguments of the `sluice` command. Each subcommand lives in a module of its own, imported when it runs."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from queue_manager.cli.arguments.help_commands import add_help_commands, add_version
from queue_manager.cli.arguments.history_commands import add_history_commands
from queue_manager.cli.arguments.installation_commands import (
    add_adopt,
    add_crds,
    add_import,
    add_installation_commands,
)
from queue_manager.cli.arguments.job_commands import add_job_lists, add_single_jobs
from queue_manager.cli.arguments.local_commands import add_demo, add_down, add_up
from queue_manager.cli.arguments.manager_command import add_manager
from queue_manager.cli.arguments.queue_commands import add_queue_commands
from queue_manager.cli.arguments.shared_options import add_output_option
from queue_manager.cli.exit_codes import EXIT_NEVER
from queue_manager.cli.standard_streams import sentence


class CommandParser(argparse.ArgumentParser):
    """Folds its error messages at the width of the terminal, as the commands do."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit with code 2."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_NEVER, sentence(f"{self.prog}: error: {message}", sys.stderr))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top: argparse.ArgumentParser = CommandParser(
        prog="sluice",
        description="Queue suspended Kubernetes Jobs by priority and quota, and run them: here, or on a cluster.",
    )
    add_version(top)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_up(commands)
    add_down(commands)
    add_job_lists(commands)
    add_queue_commands(commands)
    add_single_jobs(commands)
    add_history_commands(commands)
    add_demo(commands)
    add_manager(commands)
    check = commands.add_parser("check-config", help="list all mistakes in a KueueConfig, or print it with defaults")
    check.add_argument("file", metavar="F", help="the KueueConfig, or the ConfigMap with it; - is standard input")
    add_output_option(check, "the field of a finding")
    add_crds(commands)
    add_adopt(commands)
    add_import(commands)
    add_installation_commands(commands)
    add_help_commands(commands)
    return top
