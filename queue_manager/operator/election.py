"""Leader election by a Lease, with the protocol of client-go's tools/leaderelection.

The Lease names its holder, which renews it every `retryPeriod`. A candidate that has seen no change of the Lease for
leaseDurationSeconds may take it. If several try, the API server accepts one write, by resourceVersion. Each candidate
measures these times on its own monotonic clock: the times in the Lease are informative, because clocks of machines
differ.

A leader whose renewals have failed for `renewDeadline`, which is shorter than the lease duration, stops before another
candidate can take the Lease, and becomes a candidate again. This does not protect against a process that was paused
(SIGSTOP, a suspended machine): when it resumes, it would send its next write although another leader may exist.
Therefore every write passes a `Fence`, which checks the clock immediately before sending.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import operator
import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from queue_manager.api.api_resources import LEASES
from queue_manager.configuration.process_sections import LeaderElection
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response, Transport
from queue_manager.operator.preflight import CannotStart

log = logging.getLogger(__name__)

JITTER = 1.2  # factor: up to 1.2 retry periods more, so that candidates do not retry at once (client-go's JitterFactor)
RELEASE_SECONDS = 0.5  # time limit of the write that releases the Lease
_CLOCK = getattr(
    time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC
)  # CLOCK_BOOTTIME also counts while the machine is suspended

Json = dict[str, Any]


class LeadershipLost(Exception):
    """Another process holds the Lease, or may take it at any time."""


def monotonic_seconds() -> float:
    """Return seconds on a clock that cannot be set."""
    return time.clock_gettime(_CLOCK)


def own_identity() -> str:
    """Return a holder identity unique to this start, so that a restarted process does not resume the old Lease."""
    return f"{os.uname().nodename}_{uuid4()}"


class Election:
    """A candidate for one Lease: `acquire`, then `renew` for as long as the work lasts, then `release`."""

    def __init__(
        self,
        transport: Transport,
        settings: LeaderElection,
        namespace: str,
        *,
        name: str = "",
        rng: random.Random | None = None,
        now: Callable[[], float] = monotonic_seconds,
        report: Callable[[str], None] = log.info,
    ) -> None:
        """`name`: the identity of the candidate. `report` logs a line that names the holder while this one waits."""
        self.namespace = namespace
        self.lease = settings.resource_name
        self.name = name or own_identity()
        self._client = RestClient(transport)
        self._rng = rng or random.SystemRandom()
        self._now = now
        self._report = report
        self._duration = max(
            1, math.ceil(settings.lease_duration.total_seconds())
        )  # leaseDurationSeconds is an integer
        self._deadline = settings.renew_deadline.total_seconds()
        self._retry = settings.retry_period.total_seconds()
        self._observed: Json = {}  # the last observed spec of the Lease, and when it changed
        self._observed_at = 0.0
        self._renewed_at = -math.inf  # when the last successful renewal was sent
        self._answered_at = -math.inf

    @property
    def is_leader(self) -> bool:
        """Whether no other process can have taken the Lease yet.

        Counted from the time at which the renewal was sent: no candidate can have observed it earlier.
        """
        return self._now() < self._ends

    @property
    def _ends(self) -> float:
        """The time from which another process may take the Lease, unless this one renews it before."""
        return self._renewed_at + self._duration

    async def acquire(self, on_wait: Callable[[], None] = lambda: None) -> None:
        """Wait until this process holds the Lease. Raises CannotStart if the API server refuses access to it.

        `on_wait` is called with each holder for which this process begins to wait.
        """
        reported = ""

        def report_holder(attempt: RetryCallState) -> None:
            nonlocal reported
            # The Lease may still name this process from an earlier term.
            if self._holder not in ("", reported, self.name):
                reported = self._holder
                self._report(f"waiting: {reported} holds the lease {self.namespace}/{self.lease}")
                on_wait()

        campaign = AsyncRetrying(retry=retry_if_result(operator.not_), wait=self._pause, before_sleep=report_holder)
        await campaign(self._try_acquire_or_renew)

    def _pause(self, attempt: RetryCallState) -> float:
        """Return the seconds before the next attempt to take the Lease: the retry period with jitter."""
        return self._retry * (1 + JITTER * self._rng.random())

    async def renew(self) -> None:
        """Renew the Lease for as long as possible; raise LeadershipLost when renewals have failed for too long."""
        while (left := min(self._answered_at + self._deadline, self._ends) - self._now()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await asyncio.sleep(self._retry)
                    await self._try_acquire_or_renew()
            if self._holder not in ("", self.name):
                raise LeadershipLost(f"lost the lease: {self._holder} holds it")
        raise LeadershipLost(f"lost the lease {self.namespace}/{self.lease}: could not renew it")

    async def release(self) -> None:
        """Clear the holder of the Lease if this process leads, so that another can take it without waiting.

        Called after the last write of the term.
        """
        led, self._renewed_at = self.is_leader, -math.inf
        if led:
            with contextlib.suppress(ApiError, OSError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    lease = await self._client.get(LEASES, self.namespace, self.lease)
                    if lease["spec"].get("holderIdentity") == self.name:
                        await self._write(lease, "", 1)

    # --- one try ---

    @property
    def _holder(self) -> str:
        return str(self._observed.get("holderIdentity") or "")

    async def _try_acquire_or_renew(self) -> bool:
        """Take or renew the Lease if it is free or held by this process. A connection error is a failed attempt."""
        began = self._now()
        try:
            lease = await self._read()
            if not self._may_take(lease, began):
                return False
            sent = self._now()
            self._observed = (await self._write(lease, self.name, self._duration))["spec"]
        except ApiError as error:
            if not error.is_conflict:  # on a conflict another candidate won
                log.warning("cannot acquire the lease", extra={"lease": self.lease, "error": str(error)})
            return False
        except OSError as error:
            log.warning("no response when acquiring the lease", extra={"lease": self.lease, "error": str(error)})
            return False
        self._observed_at, self._renewed_at, self._answered_at = sent, sent, self._now()
        return True

    async def _read(self) -> Json | None:
        try:
            return await self._client.get(LEASES, self.namespace, self.lease)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    def _may_take(self, lease: Json | None, now: float) -> bool:
        if lease is None:
            return True
        spec = lease.get("spec") or {}
        if spec != self._observed:
            self._observed, self._observed_at = spec, now
        lasts = float(spec.get("leaseDurationSeconds") or 0)
        return self._holder in ("", self.name) or now >= self._observed_at + lasts

    async def _write(self, lease: Json | None, holder: str, seconds: int) -> Json:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec: Json = {**((lease or {}).get("spec") or {}), "leaseDurationSeconds": seconds, "renewTime": now}
        if lease is None or spec.get("holderIdentity") != holder:
            spec["leaseTransitions"] = 0 if lease is None else int(spec.get("leaseTransitions") or 0) + bool(holder)
            spec["acquireTime"] = now
        spec["holderIdentity"] = holder
        if lease is not None:
            return await self._client.replace(LEASES, {**lease, "spec": spec})
        try:
            return await self._client.create(LEASES, self.namespace, {"metadata": {"name": self.lease}, "spec": spec})
        except ApiError as error:
            if error.is_not_found:
                raise CannotStart(
                    f"namespace {self.namespace} for the lease of the leader election does not exist: create it"
                ) from error
            raise


class Fence(Relay):
    """Transport wrapper that rejects writes while this process does not lead, and all writes once it is closed.

    Each term has its own fence, so that leftover tasks of an earlier term cannot write during a later one.
    """

    def __init__(self, inner: Transport, election: Election | None) -> None:
        """`election`: None if leader election is disabled."""
        super().__init__(inner)
        self._election = election
        self._closed = False

    def reject_writes(self) -> None:
        """Reject all further writes."""
        self._closed = True

    async def request(self, request: Request) -> Response:
        """Send the request. A write while this process does not lead is not sent: raises ConnectionError."""
        is_leader = self._election is None or self._election.is_leader
        if request.method != "GET" and (self._closed or not is_leader):
            raise ConnectionError("write not sent: this process is not the leader")
        return await super().request(request)
