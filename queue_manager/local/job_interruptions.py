"""Notes on each Job since when, and until when, the cluster was stopped (`lifecycle.interruptions`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from job_controller.model import Job
from queue_manager.api import keys
from queue_manager.api.api_resources import JOBS
from queue_manager.engine.cache import Cache
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.lifecycle.interruptions import after_start, after_stop

log = logging.getLogger(__name__)


class JobInterruptions:
    """Writes the annotation with a client. `jobs` gets what was written at once, for the history's last step."""

    def __init__(self, client: RestClient, jobs: Cache[Job], now: Callable[[], datetime]) -> None:
        self._client, self._jobs, self._now = client, jobs, now

    async def begin(self) -> None:
        """Note that the running Jobs do not run from now on: their processes have been ended."""
        now = self._now()
        await self._annotate(lambda job: after_stop(job, now))

    async def end(self) -> None:
        """Note that the Jobs that the last stop interrupted run again."""
        now = self._now()
        await self._annotate(lambda job: after_start(job, now))

    async def _annotate(self, annotation: Callable[[Job], str | None]) -> None:
        """Write the annotation of each Job that gets one. Errors are logged: the time then counts as running."""
        try:
            for job in await self._client.list(JOBS, type=Job):
                text = annotation(job)
                if text is not None:
                    await self._write(job, text)
        except (ApiError, OSError):
            log.warning("the time in which the cluster was stopped counts as running", exc_info=True)

    async def _write(self, job: Job, text: str) -> None:
        meta = job.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": {keys.INTERRUPTIONS: text}}}
        try:
            self._jobs.apply_response(await self._client.patch(JOBS, meta.namespace, meta.name, patch, type=Job))
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):  # deleted meanwhile, or another one of its name
                raise
