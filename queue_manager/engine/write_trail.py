"""Reports each write: its duration as a metric, a log line at level debug, its cause in the audit log, a span.

The header Audit-ID carries the cause id: kube-apiserver takes it for the id of the request, so that its audit log and
ours can be joined. BEHAVIOUR.md#q95-cause-ids.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from job_controller.model import Object, ObjectMeta
from job_controller.ports import Metrics
from queue_manager.api.api_resources import Resource
from queue_manager.engine import tracing
from queue_manager.engine.cause_ids import CURRENT, CauseId
from queue_manager.engine.json_codec import UNDECODABLE, decoder
from queue_manager.engine.kept_loop import KeptLoop
from queue_manager.engine.tracing import WriteSpan
from queue_manager.engine.transport_protocol import Request, Response

log = logging.getLogger(__name__)

WRITE_DURATION = "sluice_api_write_duration_seconds"
AUDIT_ID = "Audit-ID"

InFlight = dict[tuple[str, str], CauseId]


class Write:
    """A write under way: `with Write(...) as write:` around request and response. Send `request`, call `answered`."""

    def __init__(
        self,
        verb: str,
        resource: Resource,
        subresource: str,
        key: tuple[str, str],
        request: Request,
        *,
        server: str,
        loop: KeptLoop,
        metrics: Metrics | None,
        in_flight: InFlight | None,
    ) -> None:
        """`in_flight` gets the cause under `key` until the response is applied; None: no cache follows the resource."""
        self.request = request
        self._verb = verb
        self._collection = resource
        self._subresource = subresource
        self._resource = f"{resource}/{subresource}" if subresource else str(resource)
        self._key = key
        self._server = server
        self._loop = loop
        self._metrics = metrics
        self._in_flight = in_flight
        self._cause: CauseId | None = None
        self._started = 0.0
        self._answer: Response | None = None
        self._block: AbstractContextManager[WriteSpan] | None = None
        self._span: WriteSpan | None = None

    def __enter__(self) -> Self:
        self._started = self._loop.time()
        headers: tuple[tuple[str, str], ...] = ()
        if tracing.tracer is not None:
            self._block = tracing.tracer.write(self.request, self._resource, self._template(), self._server)
            self._span = self._block.__enter__()
            headers = self._span.headers()
        cause = self._cause = CURRENT.get()
        if cause is not None:
            headers = ((AUDIT_ID, cause.audit_id()), *headers)
            if self._in_flight is not None:
                self._in_flight[self._key] = cause
        if headers:
            self.request = self.request._replace(headers=headers)
        return self

    def answered(self, answer: Response) -> None:
        """Record the response to a write that was executed."""
        self._observe()
        self._answer = answer
        if self._span is not None:
            self._span.answered(answer.status)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answer is None:
            self._observe()
        if self._in_flight is not None and self._in_flight.get(self._key) is self._cause:
            self._in_flight.pop(self._key, None)
        if log.isEnabledFor(logging.DEBUG):
            self._log(error)
        if self._block is not None:
            self._block.__exit__(kind, error, trace)

    def _template(self) -> str:
        """The request path with placeholders for names, as the span name."""
        name = "{name}" if self._subresource or self._verb != "create" else ""
        return self._collection.path("{namespace}", name, self._subresource)

    def _observe(self) -> None:
        if self._metrics is not None:
            seconds = self._loop.time() - self._started
            self._metrics.observe(WRITE_DURATION, {"verb": self._verb, "resource": self._resource}, seconds)

    def _log(self, error: BaseException | None) -> None:
        """Log the write: what was written is the cause of work elsewhere, under its uid and resourceVersion."""
        extra: dict[str, object] = {
            "verb": self._verb,
            "resource": self._resource,
            "key": "/".join(filter(None, self._key)),
        }
        if self._answer is None:
            log.debug("write failed", extra={**extra, "error": f"{type(error).__name__}: {error}"})
            return
        try:
            meta = decoder(Object).decode(self._answer.body).metadata
        except UNDECODABLE:
            meta = ObjectMeta()
        if meta.uid:
            extra |= {"key": str(meta.key), "uid": meta.uid, "resourceVersion": meta.resource_version}
        log.debug("wrote", extra=extra)
