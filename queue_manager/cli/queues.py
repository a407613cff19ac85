"""`sluice queues`: prints one line per ClusterQueue and quota, and per missing ClusterQueue that a LocalQueue names.

`cpu ██████████ 3/2, borrowed 1 of 4` means: usage 3, nominal quota 2, 1 borrowed, borrowing limit 4. COHORT is the path
of cohorts from the root: `all/team`. SHARE is the weighted share of fair sharing.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from job_controller.quantities import INT64_MAX, parse
from queue_manager import assets
from queue_manager.api import policy_values
from queue_manager.api.api_resources import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS
from queue_manager.api.types import ClusterQueue, Cohort, LocalQueue, Workload
from queue_manager.cli import output
from queue_manager.cli.connection import connect, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_OK
from queue_manager.cli.machine_formats import cluster_queue_name
from queue_manager.cli.manager_reading import read_presence
from queue_manager.cli.named_targets import check_namespace
from queue_manager.cli.permitted_lists import list_all_or_own, list_permitted, only_one_namespace, seen
from queue_manager.cli.standard_streams import say
from queue_manager.cli.time_texts import span
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.visibility.effects_of_changes import stopped_word
from queue_manager.visibility.manager_presence import notice
from queue_manager.visibility.queue_rows import UNLISTED, QueueRow, QuotaRow, queue_rows
from queue_manager.visibility.readable_amounts import readable, readable_pair

BAR = 10
VIEWER_ROLE = f"kueue-{CLUSTER_QUEUES.kind.lower()}-viewer-role"  # of `installation.user_roles`
NOT_READABLE = (
    f"{UNLISTED}: you may not read ClusterQueues, so their state and quotas are not known; an admin allows it by a "
    f"ClusterRoleBinding to {VIEWER_ROLE}"
)
HELD, DRAINED = (stopped_word(policy) for policy in (policy_values.HOLD, policy_values.HOLD_AND_DRAIN))


def quota(row: QuotaRow) -> str:
    """`cpu ████░░░░░░ 2/5`: the bar has ten steps and is full only if the quota is used up."""
    used, nominal = (parse(text, row.resource) for text in (row.used, row.nominal))
    filled = min(BAR, used * BAR // nominal) if nominal else (BAR if used else 0)
    bar = f"{row.resource} {'█' * filled}{'░' * (BAR - filled)} {readable_pair(row.resource, row.used, row.nominal)}"
    return ", ".join([bar, *shares(row)])


def shares(row: QuotaRow) -> list[str]:
    """Return `borrowed 1 of 4`, `lent 2`: amounts borrowed from and lent to the cohort, with limits if set; before them
    `3 over quota`.
    """

    def read(quantity: str) -> str:
        return readable(row.resource, quantity)

    least, most = read(row.lent_at_least), read(row.lent_at_most)
    lent = most if least == most else f"{least}-{most}"
    kinds = (("borrowed", read(row.borrowed), row.borrowing_limit), ("lent", lent, row.lending_limit))
    over = [f"{read(row.over_quota)} over quota"] if row.over_quota != "0" else []
    return over + [
        f"{name} {share}{f' of {read(limit)}' if limit is not None else ''}"
        for name, share, limit in kinds
        if share != "0" or limit is not None
    ]


def quotas(row: QueueRow) -> str:
    """Return one line per quota; the flavor is named only if the queue has several."""
    flavors = {entry.flavor for entry in row.quotas}
    return "\n".join(quota(entry) + (f" ({entry.flavor})" if len(flavors) > 1 else "") for entry in row.quotas)


def local_queues(row: QueueRow) -> str:
    """Return one line per LocalQueue, marked if it is held or drained; `-` without a LocalQueue."""
    words = dict.fromkeys(row.stopped_queues, HELD) | dict.fromkeys(row.drained_queues, DRAINED)
    return "\n".join(f"{name} ({words[name]})" if name in words else name for name in row.local_queues) or "-"


def columns(rows: Sequence[QueueRow]) -> list[output.TableColumn]:
    """Return the columns; COHORT only if a row has a cohort, SHARE only with fair sharing."""
    absent = set() if any(row.cohort for row in rows) else {"COHORT"}
    absent |= set() if any(row.weighted_share is not None for row in rows) else {"SHARE"}
    return [column for column in COLUMNS if column.heading not in absent]


def weighted_share(row: QueueRow) -> str:
    """Return `250`, or `250, weight 2`; `-` without fair sharing."""
    if row.weighted_share is None:
        return "-"
    share = "infinite" if row.weighted_share == INT64_MAX else str(row.weighted_share)
    return share if row.fair_weight == "1" else f"{share}, weight {row.fair_weight}"


COLUMNS = (
    output.TableColumn("CLUSTERQUEUE", lambda row: row.name),
    output.TableColumn("COHORT", lambda row: "/".join(row.cohort_path) or "-"),
    output.TableColumn("STRATEGY", lambda row: row.strategy or "-"),
    output.TableColumn(
        "STATE", lambda row: row.state, style=lambda row: "" if row.state in ("Active", UNLISTED) else "red"
    ),
    output.TableColumn("PENDING", lambda row: str(row.pending), right=True),
    output.TableColumn("ADMITTED", lambda row: str(row.admitted), right=True),
    output.TableColumn("OLDEST", lambda row: span(row.oldest_waiting_seconds), right=True),
    output.TableColumn("SHARE", weighted_share, right=True),
    output.TableColumn("QUOTA IN USE", quotas, wrap=True),
    output.TableColumn("LOCALQUEUES", local_queues),
    output.TableColumn("MESSAGE", lambda row: row.message or "-", wrap=True, wide=True),
)


def run(args: argparse.Namespace) -> int:
    """Print all ClusterQueues, or those that LocalQueues of a namespace name; or how to create some.

    What the user may not read, so that numbers, states or quotas are not those of all, is a line on standard error.
    """
    (rows, notes, cohorts), without_manager = asyncio.run(_table_and_notice(args))
    for note in notes:
        say(note)
    file = assets.shown(assets.samples() / "queues.yaml")
    empty = f"no ClusterQueues; two to start with: kubectl apply -f {file}"
    if args.namespace:
        empty = f"no LocalQueues in namespace {args.namespace}"
    output.show(
        args.output,
        columns(rows),
        rows,
        empty,
        "\n".join(filter(None, (remainder(rows), *own_quotas(cohorts, rows)))),
        notice=without_manager,
        row_type=QueueRow,
        name=cluster_queue_name,
    )
    return EXIT_OK


def remainder(rows: Sequence[QueueRow]) -> str:
    """Return the line below the table about a quota that the others reduce; "" without others."""
    first = next((row for row in rows if row.is_remainder), None)
    others = [row.name for row in rows if row.quotas and not row.is_remainder]
    if first is None or not others:
        return ""
    return (
        f"quota of {first.name}: what the nodes have less that of all other ClusterQueues, active or not, and Cohorts"
    )


def own_quotas(cohorts: Sequence[Cohort], rows: Sequence[QueueRow]) -> list[str]:
    """Return a line about each Cohort above these ClusterQueues that adds a quota of its own."""
    above = {name for row in rows for name in row.cohort_path}
    quotas = {
        cohort.metadata.name: [
            f"{resource.name} {readable(resource.name, str(resource.nominal_quota))} ({flavor.name})"
            for group in cohort.spec.resource_groups
            for flavor in group.flavors
            for resource in flavor.resources
        ]
        for cohort in cohorts
        if cohort.metadata.name in above
    }
    return [f"own quota of Cohort {name}: {', '.join(quotas[name])}" for name in sorted(quotas) if quotas[name]]


class QueueTable(NamedTuple):
    """Rows of ClusterQueues, and the Cohorts. `notes`: what of it the user may not read."""

    rows: list[QueueRow]
    notes: list[str]
    cohorts: Sequence[Cohort]


async def _table_and_notice(args: argparse.Namespace) -> tuple[QueueTable, str]:
    """Return the table, and the notice about an absent manager if Workloads wait; "" otherwise."""
    namespace = args.namespace or read_default_namespace(args)
    async with connect(args.kubeconfig, args.context) as client:
        rows, notes, cohorts = await queue_table(client, namespace)
        if args.namespace:
            rows = rows_of_namespace(rows, args.namespace)
        if not rows:
            await check_namespace(client, args.namespace)
        waits = any(row.pending for row in rows)
        return QueueTable(rows, notes, cohorts), notice(await read_presence(client, namespace)) if waits else ""


def rows_of_namespace(rows: Sequence[QueueRow], namespace: str) -> list[QueueRow]:
    """Return the ClusterQueues that LocalQueues of a namespace name, with these alone. Numbers stay those of all."""

    def own(names: Sequence[str]) -> list[str]:
        return [name for name in names if name.startswith(f"{namespace}/")]

    found = (
        replace(
            row,
            local_queues=own(row.local_queues),
            stopped_queues=own(row.stopped_queues),
            drained_queues=own(row.drained_queues),
        )
        for row in rows
    )
    return [row for row in found if row.local_queues]


async def queue_table(client: RestClient, default_ns: str) -> QueueTable:
    """Return the table of all ClusterQueues. Referring objects are listed before the objects they refer to.

    For a user who may read only some namespaces, the rows are those of `default_ns`. If its manager has the
    ClusterQueues from files, and manages no other namespace, whose usage would be missing, they are read from these.
    """
    now = SystemClock().now()
    workloads, all_workloads = await list_all_or_own(client, WORKLOADS, Workload, default_ns)
    local_queues, all_local_queues = await list_all_or_own(client, LOCAL_QUEUES, LocalQueue, default_ns)
    cluster_queues = await list_permitted(client, CLUSTER_QUEUES, ClusterQueue)
    if cluster_queues is None:
        client = await _client_of_manager(client, default_ns)
        cluster_queues = await list_permitted(client, CLUSTER_QUEUES, ClusterQueue)
    cohorts = await seen(client, COHORTS, Cohort) or ()
    rows = queue_rows(cluster_queues, local_queues, workloads, now, cohorts)
    own = {"Workloads": all_workloads, "LocalQueues": all_local_queues}
    kinds = " and ".join(kind for kind, is_all in own.items() if not is_all)
    notes = [only_one_namespace(default_ns, "are counted", kinds)] if kinds else []
    return QueueTable(rows, [*notes, NOT_READABLE] if cluster_queues is None and rows else notes, cohorts)


async def _client_of_manager(client: RestClient, namespace: str) -> RestClient:
    """Return a client that reads as the manager of this namespace and of no other; else the given one."""
    from queue_manager.cli.published_objects import managers_view  # imports pydantic: 0.1 s

    found = await managers_view(client, namespace)
    return found.client if found.namespaces == (namespace,) else client
