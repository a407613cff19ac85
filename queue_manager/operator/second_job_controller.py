"""Detects that kube-controller-manager's Job controller manages the same Jobs. Every Job would get twice its pods.

With `jobController.manage: All` this process manages all Jobs, so the Job controller of kube-controller-manager must
be disabled. No API shows whether it is: the Lease of kube-controller-manager says that the process runs, not which
controllers. But the API server records in a Job's managedFields which field manager wrote the status and when, and
returns them in the response to each write. A status that another field manager wrote after this process started proves
that a second controller is active.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import msgspec

from queue_manager.engine.http_transport import USER_AGENT
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport

log = logging.getLogger(__name__)

REPORT_INTERVAL = timedelta(minutes=1)
_JOB = re.compile(r"/apis/batch/v1/namespaces/([^/]+)/jobs/([^/]+)(/status)?").fullmatch
_WRITES = ("PUT", "PATCH")


class _Entry(msgspec.Struct):
    """An entry of metadata.managedFields."""

    manager: str = ""
    subresource: str = ""
    time: datetime | None = None


class _Meta(msgspec.Struct, rename="camel"):
    managed_fields: list[_Entry] = []


class _Job(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Job).decode


class SecondControllerDetector(Relay):
    """Transport wrapper that finds, in the responses to writes of Jobs, other field managers that write their status.

    It logs them at most once a minute.
    """

    def __init__(self, inner: Transport, report: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._report = report
        self._began: datetime | None = None  # by the API server's clock, as all times here
        self._reported: datetime | None = None

    async def request(self, request: Request) -> Response:
        """Send the request, and log whether the Job in the response has another writer as well."""
        answer = await super().request(request)
        now = _date(answer)
        if now is not None:
            self._began = min(self._began or now, now)  # the clock may have been set back
            found = _JOB(request.path) if request.method in _WRITES and answer.is_ok else None
            if found is not None and (self._reported is None or abs(now - self._reported) >= REPORT_INTERVAL):
                self._check_response(found[1], found[2], answer.body, now)
        return answer

    def _check_response(self, namespace: str, name: str, body: bytes, now: datetime) -> None:
        assert self._began is not None
        other = other_writer(body, self._began)
        if other:
            self._reported = now
            line = (
                f"{other} controls Job {namespace}/{name} as well, which gets twice its pods: "
                f"jobController.manage is All; "
                f"disable the other Job controller (kube-controller-manager --controllers=*,-job-controller), "
                f"or set jobController.manage: ManagedBy"
            )
            log.error("two Job controllers", extra={"key": f"{namespace}/{name}", "other": other})
            self._report(f"! {line}")


def other_writer(job: bytes, since: datetime) -> str:
    """Return a field manager other than ours that wrote the Job's status after `since` (whole seconds), else ""."""
    try:
        entries = _decode(job).metadata.managed_fields
    except msgspec.DecodeError:
        return ""
    for entry in entries:
        if entry.subresource == "status" and entry.manager != USER_AGENT and entry.time and entry.time > since:
            return entry.manager
    return ""


def _date(answer: Response) -> datetime | None:
    """Return the time in the Date header of a response."""
    try:
        return parsedate_to_datetime(answer.header("date")).astimezone(UTC)
    except ValueError:
        return None
