"""Reads the Jobs for `sluice history` and `sluice report` from the store that their options name."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from queue_manager.accounting.database import HistoryUnavailable, NoHistoryUrl, shown_url
from queue_manager.accounting.history_queries import HistoryFilter, JobHistory, has_jobs_of, read_history
from queue_manager.accounting.job_summary import JobSummary, summary
from queue_manager.cli.connection import connect, default_data_dir, find_kubeconfig, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.machine_formats import Namer, job_names
from queue_manager.cli.named_targets import CLUSTER_QUEUE_PREFIXES
from queue_manager.cli.published_config import history_url, published
from queue_manager.local.kubeconfig_file import is_of_local_cluster
from queue_manager.local.storage.data_directory import HISTORY
from queue_manager.visibility.similar_names import did_you_mean

CONFIG_SECONDS = 5.0  # for a local cluster to say where its history is
RECENT = timedelta(days=7)  # of the Jobs whose names and queues are suggested
DEFAULT_NAMESPACE = "default"  # of commands without a kubeconfig


def summaries(args: argparse.Namespace) -> list[JobSummary]:
    """The chosen Jobs, in the order of their submission. Raises CommandRefused."""
    cluster_queue = _cluster_queue(args.queue or "")
    wanted = HistoryFilter(
        since=args.since,
        until=args.until,
        namespace=args.namespace or "",
        user=args.user or "",
        queue="" if cluster_queue else args.queue or "",
    )
    now, store = datetime.now(UTC), _store(args)
    with _refusing(args):
        found = [summary(*history, now) for history in read_history(store, wanted)]
        chosen = [job for job in found if cluster_queue in ("", job.cluster_queue)]
        if args.queue and not chosen:
            _check_queue(store, args.queue, cluster_queue, wanted.namespace)
    return chosen


def _check_queue(store: str, queue: str, cluster_queue: str, namespace: str) -> None:
    """Raise CommandRefused for a queue of which the history has no Job at all: its name is probably mistyped."""
    local = "" if cluster_queue else queue
    if not has_jobs_of(store, queue=local, cluster_queue=cluster_queue, namespace=namespace):
        where = f" in namespace {namespace}" if namespace else ""
        kind, name = ("ClusterQueue", cluster_queue) if cluster_queue else ("LocalQueue", queue)
        jobs = recent_jobs(store, namespace)
        hint = did_you_mean(name, (job.cluster_queue if cluster_queue else job.queue for job in jobs))
        hint = f"; {hint}" if hint else ""
        raise CommandRefused(f"the history has no Job of {kind} {name}{where}{hint}", EXIT_NEVER)


def names_of_jobs(args: argparse.Namespace, namespace: str) -> list[str]:
    """Return the names of recent Jobs, which are suggested for an unknown one. `namespace`: "" for all."""
    return [job.name for job in recent_jobs(_store(args), namespace)]


def recent_jobs(store: str, namespace: str) -> list[JobSummary]:
    """Return the Jobs of the last RECENT days. `namespace`: "" for all."""
    now = datetime.now(UTC)
    wanted = HistoryFilter(since=now - RECENT, namespace=namespace)
    return [summary(*history, now) for history in read_history(store, wanted)]


def read(args: argparse.Namespace, wanted: HistoryFilter) -> list[JobHistory]:
    """Read the chosen Jobs. Raises CommandRefused."""
    with _refusing(args):
        return read_history(_store(args), wanted)


def _store(args: argparse.Namespace) -> str:
    return args.store or own_store(args)


@contextmanager
def _refusing(args: argparse.Namespace) -> Iterator[None]:
    """Turn HistoryUnavailable into CommandRefused: wrong usage if the URL names no store."""
    try:
        yield
    except NoHistoryUrl as error:
        raise CommandRefused(str(error), EXIT_NEVER) from error
    except HistoryUnavailable as error:
        hint = "" if args.store else "; name another, e.g. the history.url of the cluster, with --store URL"
        raise CommandRefused(f"{error}{hint}") from error


def own_store(args: argparse.Namespace) -> str:
    """The history of the cluster that other commands use, if `sluice up` wrote its kubeconfig; else the default one.

    That is history.url of the running cluster, otherwise the file beside the kubeconfig.

    Raises CommandRefused if the options name another cluster: no API serves a history.
    """
    named = bool(args.kubeconfig or args.context)
    try:
        kubeconfig = find_kubeconfig(args.kubeconfig)
    except CommandRefused:
        if named:
            raise
        kubeconfig = None
    local = kubeconfig is not None and is_of_local_cluster(kubeconfig)
    if named and not local:
        where = asyncio.run(_where(args))
        raise CommandRefused(f"the history is read from its store, not from the cluster; {where}", EXIT_NEVER)
    if local and (url := asyncio.run(_running_store(args))):
        return url
    directory = kubeconfig.absolute().parent if kubeconfig is not None and local else default_data_dir()
    return f"sqlite:///{directory / HISTORY}"


async def _running_store(args: argparse.Namespace) -> str:
    """history.url of a local cluster; "" if it is not set, or the cluster does not run."""
    try:
        async with asyncio.timeout(CONFIG_SECONDS), connect(args.kubeconfig, args.context) as client:
            config = await published(client)
    except (CommandRefused, TimeoutError):
        return ""
    return config.history.url if config is not None else ""


async def _where(args: argparse.Namespace) -> str:
    """Return advice on the database that the cluster's manager uses, from its configuration if that can be read."""
    async with connect(args.kubeconfig, args.context) as client:
        url = await history_url(client)
    if url is None:
        return (
            "the manager's KueueConfig, which cannot be read here, names it in history.url: "
            f"sluice {args.command} --store URL"
        )
    if url:
        return f"the manager writes it to {shown_url(url)}: sluice {args.command} --store URL"
    return (
        "the manager's KueueConfig sets no history.url: `sluice up` then writes history.db in its data directory "
        f"(sluice {args.command} --store sqlite:///DIRECTORY/history.db), and `sluice manager` keeps no history"
    )


def own_namer(args: argparse.Namespace) -> Namer:
    """Return the function that names Jobs as arguments of commands, which leave out their default namespace."""
    try:
        own = args.namespace or read_default_namespace(args)
    except CommandRefused:  # the history can be read without a cluster
        own = DEFAULT_NAMESPACE
    return job_names(own)


def _cluster_queue(queue: str) -> str:
    """The name of a ClusterQueue given as `cq/NAME`; "" for a LocalQueue."""
    return next((queue.removeprefix(p) for p in CLUSTER_QUEUE_PREFIXES if queue.startswith(p)), "")
