"""Finds out in time that a pending Job will never start."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from queue_manager.client.job_requests import lasting_obstacle
from queue_manager.client.job_update import Seen
from queue_manager.client.official_transport import blocking
from queue_manager.visibility.obstacles import Obstacle

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

CONFIRM_SECONDS = 1.0
AGAIN_SECONDS = 10.0  # between checks while nothing is wrong


class ObstacleChecks:
    """Checks repeatedly whether one Job can ever start.

    An obstacle counts only once it has lasted CONFIRM_SECONDS: a queue that was created a moment ago, together with the
    Job, may not be active yet.
    """

    def __init__(self, api_client: ApiClient, default_ns: str) -> None:
        self._api_client = api_client
        self._default_ns = default_ns
        self._since: float | None = None
        self._next_check = 0.0

    @property
    def is_confirming(self) -> bool:
        """Whether an obstacle was found that has not lasted long enough to count."""
        return self._since is not None

    def obstacle(self, seen: Seen) -> Obstacle | None:
        """The confirmed obstacle that keeps the Job from ever starting; None without one, or if no check is due yet."""
        now = time.monotonic()
        if now < self._next_check:
            return None
        found = blocking(
            self._api_client, lambda client: lasting_obstacle(client, seen.job, seen.workload, self._default_ns)
        )
        if found is None:
            self._since, self._next_check = None, now + AGAIN_SECONDS
            return None
        self._since = now if self._since is None else self._since
        return found if now - self._since >= CONFIRM_SECONDS else None
