"""The commands that help to use the others: `completion`, `man`; and --version."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from queue_manager.cli.arguments.shared_options import Commands

SHELLS = ("bash", "zsh", "fish")


class ShowVersion(argparse.Action):
    """Prints the version and ends. Unlike argparse's own action, it finds the version only when the option is given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        """Print the line and exit with 0."""
        from queue_manager.cli.version_line import version_line

        sys.stdout.write(f"{version_line()}\n")
        parser.exit()


def add_version(top: argparse.ArgumentParser) -> None:
    """Add --version."""
    top.add_argument("--version", action=ShowVersion, nargs=0, help="print version, commit and Python, and exit")


def add_help_commands(commands: Commands) -> None:
    """Add the commands that help to use the others."""
    completion = commands.add_parser(
        "completion",
        help="print code that makes a shell complete commands, options, and names of Jobs and queues",
        epilog="bash: source <(sluice completion bash); zsh: after compinit, source <(sluice completion zsh); "
        "fish: sluice completion fish | source. Names come from the cluster, if it answers within a second.",
    )
    completion.add_argument("shell", choices=SHELLS, help="the shell")

    man = commands.add_parser(
        "man",
        help="show the man page of a command",
        epilog="A wheel installs all pages (man sluice-ps). To install one by hand: "
        "sluice man --roff ps > ~/.local/share/man/man1/sluice-ps.1",
    )
    man.add_argument("--roff", action="store_true", help="print the source of the page, for man and mandoc")
    man.add_argument("page", nargs="?", metavar="COMMAND", help="default: all commands in short")
