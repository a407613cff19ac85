"""Reads why the API server refuses to create the pods of Jobs, if one has none and nothing else says why."""

from __future__ import annotations

from collections.abc import Sequence

from job_controller.event_reasons import CREATE_FAILED
from job_controller.model import Job, Key
from queue_manager.api.api_resources import EVENTS
from queue_manager.api.events import Event
from queue_manager.cli.permitted_lists import list_permitted
from queue_manager.engine.rest_client import RestClient
from queue_manager.visibility.job_states import JobRow
from queue_manager.visibility.jobs_without_pods import lacks_cause, with_refusal


async def with_refused_pods(client: RestClient, rows: list[JobRow], jobs: Sequence[Job]) -> list[JobRow]:
    """Return the rows with the cause of those that have no pods. The Events are read only if there is such a row."""
    namespaces = {row.namespace for row in rows if lacks_cause(row)}
    if not namespaces:
        return rows
    events = await read_refusals(client, namespaces.pop() if len(namespaces) == 1 else "") or []
    of = {job.metadata.key: job for job in jobs}
    return [with_refusal(row, of[Key(row.namespace, row.name)], events) if lacks_cause(row) else row for row in rows]


async def read_refusals(client: RestClient, namespace: str) -> list[Event] | None:
    """Return the Events about pods that could not be created; None if the user may not list Events."""
    reason = f"reason={CREATE_FAILED}"
    return await list_permitted(client, EVENTS, Event, namespace, field_selector=reason)
