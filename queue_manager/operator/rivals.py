"""Another Job controller on the same Jobs, which every Job would have twice its pods from.

With `jobController.manage: All` this process works on all Jobs, so the Job controller of kube-controller-manager must
be switched off. The API server cannot be asked whether it is: the Lease of kube-controller-manager says that it runs,
not which controllers it runs. But the server notes in a Job's managedFields which program wrote the status, and when,
and returns that with each of our own writes. A status that another program wrote since we began shows the other
controller at work.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import msgspec

from queue_manager.engine.http_transport import USER_AGENT
from queue_manager.engine.transport import Relay, Request, Response, Transport

log = logging.getLogger(__name__)

REPORT_AGAIN = timedelta(minutes=1)
_JOB = re.compile(r"/apis/batch/v1/namespaces/([^/]+)/jobs/([^/]+)(/status)?").fullmatch
_WRITES = ("PUT", "PATCH")


class _Entry(msgspec.Struct):
    """Who wrote which part of an object."""

    manager: str = ""
    subresource: str = ""
    time: datetime | None = None


class _Meta(msgspec.Struct, rename="camel"):
    managed_fields: list[_Entry] = []


class _Job(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Job).decode


class RivalsAreReported(Relay):
    """Transport wrapper that reports, at most once a minute, who else works on Jobs that this process writes."""

    def __init__(self, inner: Transport, told: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._told = told
        self._began: datetime | None = None  # by the API server's clock, as all times here
        self._reported: datetime | None = None

    async def request(self, request: Request) -> Response:
        answer = await super().request(request)
        now = _date(answer)
        if now is not None:
            self._began = self._began or now
            found = _JOB(request.path) if request.method in _WRITES and answer.status == 200 else None
            if found is not None and (self._reported is None or now - self._reported >= REPORT_AGAIN):
                self._look(found[1], found[2], answer.body, now)
        return answer

    def _look(self, namespace: str, name: str, body: bytes, now: datetime) -> None:
        assert self._began is not None
        rival = other_writer(body, self._began)
        if rival:
            self._reported = now
            line = (
                f"{rival} works on Job {namespace}/{name} too, so it gets its pods twice: jobController.manage is All; "
                f"switch the other Job controller off (kube-controller-manager --controllers=*,-job-controller), "
                f"or set manage: ManagedBy"
            )
            log.error("two Job controllers", extra={"job": f"{namespace}/{name}", "other": rival})
            self._told(f"! {line}")


def other_writer(job: bytes, since: datetime) -> str:
    """The program other than this that wrote a Job's status after a moment, to the second; empty if none did."""
    try:
        entries = _decode(job).metadata.managed_fields
    except msgspec.DecodeError:
        return ""
    for entry in entries:
        if entry.subresource == "status" and entry.manager != USER_AGENT and entry.time and entry.time > since:
            return entry.manager
    return ""


def _date(answer: Response) -> datetime | None:
    """When the server answered."""
    try:
        return parsedate_to_datetime(answer.headers["Date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return None
