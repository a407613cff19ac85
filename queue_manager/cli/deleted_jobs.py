"""What the history of a cluster of `sluice up` knows of a Job that a command names and that does not exist."""

from __future__ import annotations

import argparse

from job_controller.model import Key
from queue_manager.accounting.history_queries import HistoryFilter
from queue_manager.accounting.job_summary import summary
from queue_manager.accounting.record_types import StepKind
from queue_manager.cli.connection import find_kubeconfig, read_default_namespace
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.history_reading import own_store, read
from queue_manager.cli.time_texts import ago
from queue_manager.engine.clock import SystemClock
from queue_manager.local.kubeconfig_file import is_of_local_cluster


def deleted_job(args: argparse.Namespace, key: Key) -> str:
    """`no Job j in namespace ns; it was deleted 3m ago (Cancelled by anna): sluice history j`; "" if it is unknown.

    That is the newest Job of this name. A history of another cluster is not read: no API serves it.
    """
    try:
        if not is_of_local_cluster(find_kubeconfig(args.kubeconfig)):
            return ""
        where = argparse.Namespace(**vars(args) | {"store": own_store(args)})
        found = read(where, HistoryFilter(namespace=key.namespace, name=key.name))
        own = read_default_namespace(args)
    except CommandRefused:
        return ""
    if not found:
        return ""
    now, newest = SystemClock().now(), found[-1]
    job = summary(*newest, now)
    gone = next((step for step in newest.steps if step.kind == StepKind.DELETED), None)
    if gone is not None:
        what = f"it was deleted {ago(gone.at, now)} ago{f' ({gone.message})' if gone.message else ''}"
    elif job.ended_at is not None:
        what = f"one that ended {ago(job.ended_at, now)} ago ({job.state}) does not exist any more"
    else:
        what = "the history has one that does not exist any more"
    name = key.name if key.namespace == own else str(key)
    return f"no Job {key.name} in namespace {key.namespace}; {what}: sluice history {name}"
