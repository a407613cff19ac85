"""One of several managers works, the others wait: leader election by a Lease, as client-go does it.

A Lease names its holder, who renews it every `retryPeriod`. Whoever has not seen it change for the duration that it
states may take it; of several who try, the API server lets one win, by resourceVersion. Times are measured by each
candidate for itself, on a clock that nobody sets: those in the Lease are for people, and clocks of machines differ.

A leader that has had no answer to a renewal for `renewDeadline`, which is shorter than the Lease lasts, stops before
another begins, and stands for election again. That is not enough for a process that did not run meanwhile (SIGSTOP, a
machine that slept): it would send what it was about to send, as one of two leaders. So every write goes through a
`Fence`, which reads the clock once more.
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

from queue_manager.api.resources import LEASES
from queue_manager.configuration.process import LeaderElection
from queue_manager.engine.client import Client
from queue_manager.engine.transport import ApiError, Relay, Request, Response, Transport
from queue_manager.operator.preflight import CannotStart

log = logging.getLogger(__name__)

JITTER = 1.2  # of the retry period, so that candidates do not ask all at once (as client-go)
RELEASE_SECONDS = 0.5  # for the last write
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the first goes on while the machine sleeps

Json = dict[str, Any]


class LeadershipLost(Exception):
    """Another leads, or may do so any moment."""


def forward() -> float:
    """Seconds on a clock that nobody sets."""
    return time.clock_gettime(_CLOCK)


def own_name() -> str:
    """Of this process, different at each start: who comes back does not lead any more."""
    return f"{os.uname().nodename}_{uuid4()}"


class Election:
    """A candidate for one Lease: `win`, then `keep` for as long as the work lasts, then `release`."""

    def __init__(
        self,
        transport: Transport,
        settings: LeaderElection,
        namespace: str,
        *,
        name: str = "",
        rng: random.Random | None = None,
        now: Callable[[], float] = forward,
        told: Callable[[str], None] = log.info,
    ) -> None:
        """`name`: of the candidate. `told` takes a line, while we wait, that says for whom."""
        self.namespace = namespace
        self.lease = settings.resource_name
        self.name = name or own_name()
        self._client = Client(transport)
        self._rng = rng or random.SystemRandom()
        self._now = now
        self._told = told
        self._duration = max(1, math.ceil(settings.lease_duration.total_seconds()))  # the API knows whole seconds
        self._deadline = settings.renew_deadline.total_seconds()
        self._retry = settings.retry_period.total_seconds()
        self._seen: Json = {}  # the Lease's spec, and since when it has been that
        self._since = 0.0
        self._renewed = -math.inf  # when the last renewal that was answered was sent
        self._answered = -math.inf

    @property
    def leads(self) -> bool:
        """Nobody else may lead yet. Counted from before the renewal was sent: nobody can have seen it earlier."""
        return self._now() < self._ends

    @property
    def _ends(self) -> float:
        """When another may lead, if we do not renew."""
        return self._renewed + self._duration

    async def win(self) -> None:
        """Wait until this process leads. Raises CannotStart if the Lease can never be had."""
        reported = ""

        def report(attempt: RetryCallState) -> None:
            nonlocal reported
            if self._holder not in ("", reported, self.name):  # our own from an earlier term may be left
                reported = self._holder
                self._told(f"waits: {reported} leads, by the lease {self.namespace}/{self.lease}")

        campaign = AsyncRetrying(retry=retry_if_result(operator.not_), wait=self._pause, before_sleep=report)
        await campaign(self._try)

    def _pause(self, attempt: RetryCallState) -> float:
        """Seconds between two attempts to take the Lease: the retry period and its jitter."""
        return self._retry * (1 + JITTER * self._rng.random())

    async def keep(self) -> None:
        """Renew for ever. Raises LeadershipLost."""
        while (left := min(self._answered + self._deadline, self._ends) - self._now()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await asyncio.sleep(self._retry)
                    await self._try()
            if self._holder not in ("", self.name):
                raise LeadershipLost(f"does not lead any more: {self._holder} does")
        raise LeadershipLost(f"does not lead any more: could not renew the lease {self.namespace}/{self.lease}")

    async def release(self) -> None:
        """Let another lead at once, if we do. Called when nothing is written any more."""
        led, self._renewed = self.leads, -math.inf
        if led:
            with contextlib.suppress(ApiError, OSError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    lease = await self._client.get(LEASES, self.namespace, self.lease)
                    if lease["spec"].get("holderIdentity") == self.name:
                        await self._write(lease, "", 1)

    # --- one try ---

    @property
    def _holder(self) -> str:
        return str(self._seen.get("holderIdentity") or "")

    async def _try(self) -> bool:
        """Take or renew the Lease if it is free or ours. An API server that does not answer is no reason to give up."""
        began = self._now()
        try:
            lease = await self._read()
            if not self._may_take(lease, began):
                return False
            sent = self._now()
            self._seen = (await self._write(lease, self.name, self._duration))["spec"]
        except ApiError as error:
            if not error.is_conflict:  # else another was faster
                log.warning("the lease cannot be had", extra={"lease": self.lease, "error": str(error)})
            return False
        except OSError as error:
            log.warning("no answer about the lease", extra={"lease": self.lease, "error": str(error)})
            return False
        self._since, self._renewed, self._answered = sent, sent, self._now()
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
        if spec != self._seen:
            self._seen, self._since = spec, now
        lasts = float(spec.get("leaseDurationSeconds") or 0)
        return self._holder in ("", self.name) or now >= self._since + lasts

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
                raise CannotStart(f"no namespace {self.namespace} for the lease of the leader: create it") from error
            raise


class Fence(Relay):
    """Transport wrapper that lets writes pass only while this process leads, and none once it is closed.

    Each term of leadership has its own: what is left of an earlier term does not write in a later one.
    """

    def __init__(self, inner: Transport, election: Election | None) -> None:
        """`election`: None if there is no other process to lead."""
        super().__init__(inner)
        self._election = election
        self._closed = False

    def shut(self) -> None:
        """Let no write pass any more."""
        self._closed = True

    async def request(self, request: Request) -> Response:
        leads = self._election is None or self._election.leads
        if request.method != "GET" and (self._closed or not leads):
            raise ConnectionError("not sent: we do not lead any more")
        return await super().request(request)
