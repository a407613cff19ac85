"""Completes arguments for a shell: commands, options and choices from the parser, names from the cluster.

The `dest` of an argument selects how it is completed, so a new command with a known `dest` needs no change here. If the
cluster refuses, or does not answer within CLUSTER_SECONDS, nothing is completed.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import argcomplete
import msgspec
from argcomplete.completers import BaseCompleter, DirectoriesCompleter, FilesCompleter, SuppressCompleter

from queue_manager import assets
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
)
from queue_manager.cli.arguments.history_commands import GROUPS
from queue_manager.cli.connection import NoResponse, connect, read_default_namespace
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.logging_options import LEVELS
from queue_manager.cli.man_page import commands_of, summaries
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request

CLUSTER_SECONDS = 1.0  # time to wait for the cluster
MOST_NAMES = "500"  # of each kind

Reader = Callable[[RestClient, argparse.Namespace, str], Awaitable[Iterable[str]]]


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Head(msgspec.Struct):
    metadata: _Meta


class _Names(msgspec.Struct):
    items: list[_Head] = []


def answer(parser: argparse.ArgumentParser) -> None:
    """Print what completes the line in $COMP_LINE, and exit."""
    attach(parser)
    argcomplete.autocomplete(parser, always_complete_options=False, default_completer=SuppressCompleter())


def attach(parser: argparse.ArgumentParser) -> None:
    """Add a completer to each argument that has one."""
    for each in (parser, *commands_of(parser).values()):
        for action in each._actions:
            completer = BY_DEST.get(action.dest) if action.choices is None else _choices_of(action)
            if completer is not None:
                action.completer = completer  # type: ignore[attr-defined]


def _choices_of(action: argparse.Action) -> Any:
    """Return a completer that describes each choice of the action; None for subcommands, or without choices.

    argcomplete alone shows the help of the option beside each choice.
    """
    if action.choices is None or isinstance(action, argparse._SubParsersAction):
        return None
    described = {choice: CHOICES.get(choice, "") for choice in action.choices}
    return lambda **_: described


class NamesCompleter(BaseCompleter):
    """Completes names that `read` finds in the cluster of the command."""

    def __init__(self, read: Reader) -> None:
        self._read = read

    def __call__(
        self, *, prefix: str, action: argparse.Action, parser: argparse.ArgumentParser, parsed_args: argparse.Namespace
    ) -> list[str]:
        """Return the names that begin with `prefix`; [] if the cluster cannot be reached within CLUSTER_SECONDS."""
        try:
            return asyncio.run(asyncio.wait_for(self._names(parsed_args, prefix), CLUSTER_SECONDS))
        except (OSError, TimeoutError, NoResponse, CommandRefused, msgspec.DecodeError):
            return []

    async def _names(self, args: argparse.Namespace, prefix: str) -> list[str]:
        async with connect(getattr(args, "kubeconfig", None), getattr(args, "context", None)) as client:
            return sorted({name for name in await self._read(client, args, prefix) if name.startswith(prefix)})


async def _listed(client: RestClient, resource: Resource, namespace: str = "") -> list[_Meta]:
    answered = await client.transport.request(Request("GET", resource.path(namespace), {"limit": MOST_NAMES}))
    found = msgspec.json.decode(answered.body, type=_Names) if answered.is_ok else _Names()
    return [head.metadata for head in found.items]


def _namespace(args: argparse.Namespace) -> str:
    return getattr(args, "namespace", None) or read_default_namespace(args)


async def _jobs(client: RestClient, args: argparse.Namespace, prefix: str) -> list[str]:
    namespace, slash, _ = prefix.partition("/")
    if slash:
        return [f"{namespace}/{meta.name}" for meta in await _listed(client, JOBS, namespace)]
    return [meta.name for meta in await _listed(client, JOBS, _namespace(args))]


async def _queues(client: RestClient, args: argparse.Namespace, prefix: str) -> list[str]:
    local = await _listed(client, LOCAL_QUEUES, _namespace(args))
    return [meta.name for meta in local] + [f"cq/{meta.name}" for meta in await _listed(client, CLUSTER_QUEUES)]


async def _priority_classes(client: RestClient, args: argparse.Namespace, prefix: str) -> list[str]:
    return [meta.name for meta in await _listed(client, WORKLOAD_PRIORITY_CLASSES)]


def _causes(**given: Any) -> list[str]:
    """Complete the causes of deactivated Jobs, as `sluice deactivated --by cause` prints them."""
    from queue_manager.cli.deactivated import read_deactivated  # before the time that the cluster has
    from queue_manager.visibility.cause_groups import cause_groups

    async def read(client: RestClient, args: argparse.Namespace, prefix: str) -> list[str]:
        default_ns = read_default_namespace(args)
        namespace = "" if args.all_namespaces else args.namespace or default_ns
        rows, _ = await read_deactivated(client, namespace, default_ns)
        return [group.cause for group in cause_groups(rows, default_ns)]

    return NamesCompleter(read)(**given)


async def _namespaces(client: RestClient, args: argparse.Namespace, prefix: str) -> list[str]:
    return [meta.name for meta in await _listed(client, NAMESPACES)]


def _reasons(**_: Any) -> list[str]:
    """Complete the words of `explain --reason`, and the codes CLASS/Reason."""
    from queue_manager.visibility.reason_pages import read_pages, words

    pages = read_pages(assets.reasons().read_text(encoding="utf-8"))
    return [*words(pages), *(name for name in pages if "/" in name)]


def _states(*, prefix: str, **_: Any) -> list[str]:
    """Complete the last state of a comma-separated list, without those before it."""
    from queue_manager.visibility.job_states import LISTED_STATES

    head, comma, _rest = prefix.rpartition(",")
    given = head.lower().split(",")
    return [f"{head}{comma}{state.value}" for state in LISTED_STATES if state.lower() not in given]


def _commands(*, parser: argparse.ArgumentParser, **_: Any) -> dict[str, str]:
    """Return the commands for completion, each with what it does."""
    from queue_manager.cli.arguments import parser as whole

    return summaries(whole())


def _listed_among(*words: str) -> Any:
    """Complete the last word of a comma-separated list, without those before it."""

    def complete(*, prefix: str, **_: Any) -> list[str]:
        head, comma, _rest = prefix.rpartition(",")
        return [f"{head}{comma}{word}" for word in words if word not in head.split(",")]

    return complete


# What the values of options mean that are choices. Others need no words: `bash`, `text`.
CHOICES = {
    "table": "columns as wide as the terminal (default)",
    "wide": "all columns and rows",
    "json": "for programs, with a schema version",
    "yaml": "for programs, with a schema version",
    "csv": "for programs, with a line of headings",
    "name": "a name per line, for xargs",
    "finished": "all must succeed (default)",
    "admitted": "all are unsuspended",
    "started": "a pod of each is ready",
    "cause": "with counts and an example",
}
BY_DEST: dict[str, Any] = {
    "job": NamesCompleter(_jobs),
    "jobs": NamesCompleter(_jobs),
    "queue": NamesCompleter(_queues),
    "namespace": NamesCompleter(_namespaces),
    "why": _causes,
    "priority": NamesCompleter(_priority_classes),
    "reason": _reasons,
    "state": _states,
    "page": _commands,
    "by": _listed_among(*GROUPS),
    "log_level": _listed_among(*LEVELS),
    "file": FilesCompleter(),
    "config": FilesCompleter(),
    "kubeconfig": FilesCompleter(),
    "data_dir": DirectoriesCompleter(),
}
