"""The writes of `sluice import --apply`. The command may be interrupted after each; the next run continues there."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from job_controller.conditions import finished
from job_controller.model import Job
from queue_manager.adoption.job_imports import (
    Import,
    ImportStep,
    ImportSurroundings,
    label_patch,
    next_step,
    workload_for,
    workload_of,
)
from queue_manager.api import condition_types, keys
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.api.workload_names import workload_name
from queue_manager.cli.api_error_text import webhook_sentence
from queue_manager.cli.named_targets import FIELD_MANAGER
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.jobs.workload_manifest import permits_pods, queue_name

IMPORTED, OUTSIDE, ENDED = "imported", "stays outside", "ended meanwhile"
NOT_DECIDED = "its Workload was not admitted in time; is the manager running?"


class ImportRow(msgspec.Struct, frozen=True, kw_only=True, order=True, rename="camel"):
    """What becomes of one Job. `result`: imported, stays outside, skipped, refused, ...; `note`: why."""

    namespace: str
    name: str
    queue: str
    result: str
    note: str = ""

    @property
    def text(self) -> str:
        """Result and note as one clause."""
        return f"{self.result}: {self.note}" if self.note else self.result


def row_of(item: Import, text: str) -> ImportRow:
    """Return the row of a Job. `text`: the result, or `result: why`."""
    result, _, note = text.partition(": ")
    meta = item.job.metadata
    return ImportRow(namespace=meta.namespace, name=meta.name, queue=item.queue, result=result, note=note)


class Importer:
    """Performs the writes of imports: creates Workloads, waits for admissions, labels Jobs."""

    def __init__(self, client: RestClient, around: ImportSurroundings) -> None:
        self._client = client
        self._around = around
        self._refused: dict[str, str] = {}  # by Job: why its last write was refused
        self._created: set[str] = set()  # Jobs whose Workload was created by this command

    async def advance(self, imports: Sequence[Import]) -> dict[str, ImportRow]:
        """Write what is next for each Job. Return the results of those that are decided, by namespace/name."""
        workloads = await self._marked({item.job.metadata.namespace for item in imports})
        done = {}
        for item in imports:
            key = qualified(item.job)
            result = await self._advance_one(item, workloads.get(item.job.metadata.namespace, []))
            if result:
                done[key] = row_of(item, result)
        return done

    async def _marked(self, namespaces: set[str]) -> dict[str, list[Workload]]:
        selector = f"{keys.IMPORTED}=true"
        return {
            name: await self._client.list(WORKLOADS, name, label_selector=selector, type=Workload)
            for name in sorted(namespaces)
        }

    async def _advance_one(self, item: Import, workloads: Sequence[Workload]) -> str:
        """Perform one write. Return what has become of the Job, "" while that is open."""
        step = next_step(item.job, item.queue, workloads)
        try:
            if step is ImportStep.CREATE:
                return await self._create(item)
            if step is ImportStep.REPLACE and (found := workload_of(item.job, workloads)) is not None:
                await self._delete(found)
                self._created.discard(qualified(item.job))
            if step is ImportStep.LABEL:
                return await self._label(item, workloads)
        except ApiError as error:
            if not (error.is_conflict or error.is_not_found):
                self._refused[qualified(item.job)] = webhook_sentence(error.message) or error.message
        return ""

    async def _create(self, item: Import) -> str:
        """Create the Workload, at most once: if it is gone later, the end of the Job or an eviction deleted it."""
        key = qualified(item.job)
        if key in self._created:
            return ENDED if await self._has_ended(item.job) else f"{OUTSIDE}: its Workload was deleted meanwhile"
        made = workload_for(item.job, item.queue, self._around)
        await self._client.create(WORKLOADS, item.job.metadata.namespace, made)
        self._created.add(key)
        return ""

    async def _has_ended(self, job: Job) -> bool:
        meta = job.metadata
        try:
            found = await self._client.get(JOBS, meta.namespace, meta.name, type=Job)
        except ApiError as error:
            if not error.is_not_found:
                raise
            return True
        return found.metadata.uid != meta.uid or finished(found.status) is not None

    async def _label(self, item: Import, workloads: Sequence[Workload]) -> str:
        """Label the Job if it still runs as its Workload says. A Job that changes meanwhile is read again."""
        meta = item.job.metadata
        job = await self._client.get(JOBS, meta.namespace, meta.name, type=Job)
        if job.metadata.uid != meta.uid or finished(job.status) is not None:
            return ENDED
        if queue_name(job):  # the response to the label was lost
            return IMPORTED
        if job.spec.suspend or next_step(job, item.queue, workloads) is not ImportStep.LABEL:
            return f"{OUTSIDE}: it was {'suspended' if job.spec.suspend else 'changed'} meanwhile"
        patch = label_patch(job, item.queue)
        await self._client.patch(JOBS, meta.namespace, meta.name, patch, field_manager=FIELD_MANAGER)
        return IMPORTED

    async def take_back(self, item: Import) -> ImportRow:
        """Delete the Workload of a Job that was not admitted in time. Return why.

        An admitted one stays: the Job may have its label, although no response said so.
        """
        key = qualified(item.job)
        found = await self._workload(item.job)
        while found is not None and not permits_pods(found) and not await self._delete(found):
            found = await self._workload(item.job)
        return row_of(item, f"{OUTSIDE}: {self._refused.get(key) or _reason(found)}")

    async def _workload(self, job: Job) -> Workload | None:
        name = workload_name(job.metadata.name, job.metadata.uid)
        return await self._client.find(WORKLOADS, job.metadata.namespace, name, type=Workload)

    async def _delete(self, workload: Workload) -> bool:
        """Delete a Workload as it was read; False if it has changed since, perhaps by its admission."""
        meta = workload.metadata
        try:
            await self._client.delete(
                WORKLOADS, *meta.key, uid=meta.uid, resource_version=meta.resource_version, propagation="Background"
            )
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise
            return error.is_not_found
        return True


def qualified(job: Job) -> str:
    """Return "namespace/name" of a Job."""
    return f"{job.metadata.namespace}/{job.metadata.name}"


def _reason(workload: Workload | None) -> str:
    """Return why the scheduler did not admit a Workload."""
    reserved = workload.condition(condition_types.QUOTA_RESERVED) if workload is not None else None
    return reserved.message if reserved is not None and reserved.message else NOT_DECIDED
