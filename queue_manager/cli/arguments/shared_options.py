"""Options that several commands share."""

from __future__ import annotations

import argparse
from typing import TypeAlias

from queue_manager.api.component_names import NAMESPACE
from queue_manager.cli.arguments.argument_types import namespace

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
FORMS = ("table", "wide", "json", "yaml", "csv", "name")
JOB_NAME, OBJECT_NAME = "job/NAME", "KIND/NAME"
OWN_NAMESPACE = "default: that of the context, else default"


def add_change_options(command: argparse.ArgumentParser) -> None:
    """Add the options of commands that change objects in one namespace: namespace, --dry-run, connection, format."""
    add_namespace_option(command)
    command.add_argument("--dry-run", action="store_true", help="print what would happen, change nothing")
    add_client_options(command)


def add_scope_options(command: argparse.ArgumentParser) -> None:
    """Add -n and -A, of which one may be given: without either, a command reads all namespaces."""
    scope = command.add_mutually_exclusive_group()
    scope.add_argument("-n", "--namespace", metavar="NS", help="only this namespace (default: all that may be read)")
    scope.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, as without -n")


def add_namespace_option(command: argparse.ArgumentParser) -> None:
    """Add -n of a command that acts in one namespace."""
    command.add_argument("-n", "--namespace", metavar="NS", help=OWN_NAMESPACE)


def add_client_options(command: argparse.ArgumentParser, named: str = JOB_NAME) -> None:
    """Add the options of commands that read a cluster: connection, and -o. `named`: a line of -o name."""
    add_connection_options(command)
    add_output_option(command, named)


def add_output_option(command: argparse.ArgumentParser, named: str = JOB_NAME) -> None:
    """Add -o. `named`: a line of -o name; "": the rows have no names, and -o name cannot be chosen."""
    forms = [form for form in FORMS if named or form != "name"]
    names = f"; name: {named} per line, for xargs" if named else ""
    command.add_argument(
        "-o",
        "--output",
        choices=forms,
        default="table",
        metavar="FORM",
        help=f"{', '.join(forms)} (default: table){names}",
    )


def add_connection_options(command: argparse.ArgumentParser) -> None:
    """Add --kubeconfig and --context."""
    command.add_argument(
        "--kubeconfig", metavar="F", help="default: $KUBECONFIG, else that of `sluice up`, else kubectl's"
    )
    command.add_argument("--context", metavar="C", help="context of the kubeconfig")


def add_managers_namespace(command: argparse.ArgumentParser) -> None:
    """Add the namespace of an installation."""
    command.add_argument(
        "--namespace",
        type=namespace,
        default=NAMESPACE,
        metavar="NS",
        help="where the managers run (default: kueue-system)",
    )
