"""Reads Leases of managers, with the API server's time, by which they are renewed or not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import msgspec

from job_controller.json_tree import Json
from queue_manager.api.api_resources import LEASES
from queue_manager.api.component_names import PUBLISHED_HOLDER, PUBLISHED_LEASE
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from queue_manager.visibility.manager_presence import LeaseFacts, is_renewed


class LeaseReading:
    """Leases that were read so far, and the API server's time at the last read."""

    def __init__(self, client: RestClient) -> None:
        self._client = client
        self.leases: list[LeaseFacts] = []
        self.all_read = True
        self.now = SystemClock().now()

    async def has_publisher(self, data: Mapping[str, str]) -> bool:
        """Whether the manager that has published this holds its Lease; by the Lease alone if no holder is published."""
        namespace, _, name = data.get(PUBLISHED_LEASE, "").partition("/")
        holder = data.get(PUBLISHED_HOLDER, "")
        return await self.is_renewed(namespace, name) and holder in ("", self.leases[-1].holder)

    async def is_renewed(self, namespace: str, name: str) -> bool:
        """Whether a manager holds this Lease; False, too, if it does not exist or cannot be read (`all_read`)."""
        answer = await self._client.transport.request(Request("GET", LEASES.path(namespace, name)))
        if not answer.is_ok:
            self.all_read = self.all_read and answer.status == HTTPStatus.NOT_FOUND
            return False
        self.now = _date(answer.header("date")) or self.now
        self.leases.append(lease_facts(msgspec.json.decode(answer.body)))
        return is_renewed(self.leases[-1], self.now)


def lease_facts(lease: Json) -> LeaseFacts:
    """The fields of a Lease that rules read."""
    meta, spec = lease["metadata"], lease.get("spec") or {}
    renewed = spec.get("renewTime")
    return LeaseFacts(
        f"{meta['namespace']}/{meta['name']}",
        spec.get("holderIdentity") or "",
        datetime.fromisoformat(renewed) if renewed else None,
        int(spec.get("leaseDurationSeconds") or 15),
    )


def _date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return None
