"""Reads a Job with its queues, pods and position, and explains why it does not run, for `sluice explain` and `show`.

`visibility.dominant_reason` chooses the reason and its sentence; `cli.explain` prints them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from job_controller.model import Job
from queue_manager.api.api_resources import EVENTS
from queue_manager.api.event_reasons import QUEUEING_REFUSED
from queue_manager.api.events import Event
from queue_manager.api.types import Workload
from queue_manager.cli.manager_reading import read_presence
from queue_manager.cli.named_targets import JobTarget
from queue_manager.cli.node_reading import nodes_for
from queue_manager.cli.permitted_lists import list_permitted
from queue_manager.cli.refused_pod_reading import read_refusals
from queue_manager.cli.scheduler_input_reading import ClusterView
from queue_manager.configuration import KueueConfig
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from queue_manager.lifecycle.queue_entry import waits
from queue_manager.lifecycle.refused_pods import newest_refusal as newest_pod_refusal
from queue_manager.lifecycle.unscheduled import unscheduled
from queue_manager.lifecycle.workload_settings import WorkloadSettings, settings_of
from queue_manager.visibility.absent_manager import is_in_doubt, without_manager
from queue_manager.visibility.explain_record import AheadRow, Explanation, Position, explain
from queue_manager.visibility.explained_case import Surroundings
from queue_manager.visibility.explanation_rows import HolderRow
from queue_manager.visibility.job_causes import cause_of, recorded_cause
from queue_manager.visibility.job_states import JobState, shown_cause
from queue_manager.visibility.log_selection import log_sources
from queue_manager.visibility.memory_advice import memory_advice
from queue_manager.visibility.obstacles import (
    ReadableQueues,
    local_queue_of,
    missing_pod_class,
    obstacles,
    unseen_class,
)
from queue_manager.visibility.pending_summary import MAX_LIMIT, PendingPage, explanation_path, local_queue_path
from queue_manager.visibility.pod_attempts import dead_container
from queue_manager.visibility.predictions import PredictionContext, predict
from queue_manager.visibility.reason_codes import ReasonClass
from queue_manager.visibility.refused_writes import AWAITED, newest_refusal, with_refusal, with_refused_pods
from queue_manager.visibility.scheduler_judgement import ClusterObjects
from queue_manager.visibility.served_explanation import WORKLOAD, ServedExplanation
from queue_manager.visibility.unlisted_queues import UNLISTED
from queue_manager.visibility.wire_types import Pod

DEFAULTS_ASSUMED = "the configuration of the queue manager: its defaults are assumed (--config F)"
EVENTS_NOT_SEEN = "Events, which say whether the API server refuses its pods"
ALL_OF_THEM = {"limit": str(MAX_LIMIT)}
MOST = 10  # rows of each table, and names of Jobs; JSON output is complete


async def read_explanation(
    client: RestClient,
    target: JobTarget,
    view: ClusterView,
    queues: ReadableQueues,
    config: KueueConfig | None,
    default_ns: str,
    now: datetime,
    pods: Sequence[Pod] = (),
) -> Explanation:
    """Explain a Job by what the user may read. `view`: the cluster, in which `target` replaces an older Workload.

    `pods`: those of the Job, which matter only for one that holds quota.
    """
    key = local_queue_of(target.job, target.workload)
    unlisted = queues.is_unlisted(key)
    if unlisted:
        view = ClusterView(None, (UNLISTED,))
    local, above = queues.of(key)
    unplaced = unscheduled(pods)
    messages = (unplaced.message if unplaced is not None else "", recorded_cause(target.workload))
    around = Surroundings(
        objects=_with_newest(view.objects, target.workload),
        settings=settings_of(config) if config is not None else WorkloadSettings(),
        local=local,
        above=above,
        obstacles=[*obstacles(target.job, target.workload, queues, default_ns)],
        names=queues.names(key.namespace),
        sees_queues=queues.local is not None,
        not_seen=(*view.not_seen, *(() if config is not None else (DEFAULTS_ASSUMED,))),
        default_ns=default_ns,
        unplaced=unplaced,
        failed_container=dead_container(target.job, pods) if target.job is not None else "",
        nodes=await nodes_for(client, messages),
        unseen_class=unseen_class(target.job, queues),
        missing_class=missing_pod_class(target.job, queues.pod_classes),
    )
    found = explain(target.job, target.workload, around, now)
    if view.objects is None and target.workload is not None and found.code:
        asked = waits(target.workload) and not unlisted
        served = await _read_served(client, target.workload) if asked else None
        found = _of_manager(found, served) or await _with_position(client, found, target.workload)
    argument = found.name if found.namespace == default_ns else f"{found.namespace}/{found.name}"
    found = await _with_refusal(client, found, target, argument, now)
    is_known = bool(around.missing_class) or (found.code and not found.code.startswith(ReasonClass.NEVER))
    if found.state == JobState.STARTING and not pods and not is_known:
        events = await read_refusals(client, found.namespace)
        if events is None:
            found = msgspec.structs.replace(found, not_seen=[*found.not_seen, EVENTS_NOT_SEEN])
        event = newest_pod_refusal(target.job, events or [])
        found = with_refused_pods(found, event, argument) if event is not None else found
    return without_manager(found, await read_presence(client, found.namespace)) if is_in_doubt(found) else found


async def _with_refusal(
    client: RestClient, found: Explanation, target: JobTarget, argument: str, now: datetime
) -> Explanation:
    """Name a write about the Job that the API server refuses, if that may be why it does not run."""
    if not is_in_doubt(found) or found.state not in AWAITED:
        return found
    reason = f"reason={QUEUEING_REFUSED}"
    events = await list_permitted(client, EVENTS, Event, found.namespace, field_selector=reason) or []
    refusal = newest_refusal(target.job, target.workload, events, now)
    return with_refusal(found, refusal, argument) if refusal is not None else found


def with_pods(
    found: Explanation,
    target: JobTarget,
    pods: Sequence[Pod],
    config: KueueConfig | None,
    now: datetime,
    default_ns: str = "default",
) -> Explanation:
    """Add the cause of the Job's pods, what happens at which time, and the command for the logs of a failed Job."""
    context = PredictionContext(settings=settings_of(config) if config is not None else None)
    if config is not None:
        context = replace(context, options=config.job_controller.options())
    expected = predict(target.job, target.workload, pods, None, found.state, context, now)
    of_pods = cause_of(target.job, target.workload, pods)
    cause = shown_cause(target.workload, found.state, found.reason, found.message, of_pods)
    is_deactivated = found.state == JobState.DEACTIVATED
    advice = [] if target.job is None else memory_advice(target.job, pods, cause, deactivated=is_deactivated)
    dated = [one for one in (*found.deadlines, *expected) if one.at is not None]
    deadlines = sorted(dated, key=lambda one: one.at or now)
    log_command = _log_command(found, target.job, pods, default_ns)
    return msgspec.structs.replace(found, cause=cause, advice=advice, deadlines=deadlines, log_command=log_command)


def _log_command(found: Explanation, job: Job | None, pods: Sequence[Pod], default_ns: str) -> str:
    """Return the command that prints the logs of the failed pods of a failed Job; "" if they do not exist."""
    if found.state != JobState.FAILED or job is None or not log_sources(job, pods, failed=True):
        return ""
    name = found.name if found.namespace == default_ns else f"{found.namespace}/{found.name}"
    return f"sluice logs {name} --failed"


def _with_newest(objects: ClusterObjects | None, workload: Workload | None) -> ClusterObjects | None:
    """Return the objects with `workload` in place of an older copy of it, so that both tables show one state."""
    if objects is None or workload is None:
        return objects
    others = [other for other in objects.workloads if other.metadata.uid != workload.metadata.uid]
    return replace(objects, workloads=[*others, workload])


def _of_manager(found: Explanation, served: Explanation | None) -> Explanation | None:
    """Return what a manager says in place of `found`, which lacks evidence; None if it says nothing.

    A manager whose caches lag behind explains another state: that is not used.
    """
    return served if served is not None and served.state == found.state else None


async def _read_served(client: RestClient, workload: Workload) -> Explanation | None:
    """The explanation of a manager; None if no manager serves it, or the user may not read it."""
    query = {WORKLOAD: workload.metadata.name}
    answer = await client.transport.request(Request("GET", explanation_path(workload.local_queue), query))
    return msgspec.json.decode(answer.body, type=ServedExplanation).explanation if answer.is_ok else None


async def _with_position(client: RestClient, found: Explanation, workload: Workload) -> Explanation:
    """Add the position by the visibility API, if that is served and the user may read it."""
    return msgspec.structs.replace(found, position=await _read_position(client, workload))


async def _read_position(client: RestClient, workload: Workload) -> Position | None:
    answer = await client.transport.request(Request("GET", local_queue_path(workload.local_queue), ALL_OF_THEM))
    found = msgspec.json.decode(answer.body, type=PendingPage).items if answer.is_ok else []
    own = next((item for item in found if item.metadata.name == workload.metadata.name), None)
    if own is None:
        return None
    first = (own.position_in_cluster_queue + 1, own.position_in_local_queue + 1)
    return Position(cluster_queue=first[0], of=None, local_queue=first[1], ahead=None)


# --- for people --------------------------------------------------------------------------------------------


def position_text(position: Position, cluster_queue: str, queue: str) -> str:
    """`3 of 17 in ClusterQueue cq, 1 in LocalQueue q; before it: 2 of ns/a`."""
    total = f" of {position.of}" if position.of is not None else ""
    text = f"{position.cluster_queue}{total} in ClusterQueue {cluster_queue}"
    text += f", {position.local_queue} in LocalQueue {queue}"
    ahead = [f"{row.workloads} of {queue_text(row)}" for row in position.ahead or ()]
    return f"{text}; before it: {first_of(ahead)}" if ahead else text


def queue_text(row: AheadRow | HolderRow) -> str:
    """Return the LocalQueue of a row, or that it is about those whose names are not known."""
    return f"{row.namespace}/{row.queue}" if row.queue else "other namespaces"


def first_of(names: Sequence[str]) -> str:
    """Join the first names of a list, and count the others: `a, b and 3 more`."""
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")
