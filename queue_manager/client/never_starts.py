"""Finds out in time that a pending Job will never start."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from queue_manager.cli.node_reading import fixed_nodes
from queue_manager.cli.queue_reading import read_pod_classes
from queue_manager.client.job_requests import lasting_obstacles
from queue_manager.client.job_update import Seen
from queue_manager.client.official_transport import blocking
from queue_manager.visibility.job_states import AWAITS_NODE, JobState
from queue_manager.visibility.node_fit import NodeFacts
from queue_manager.visibility.obstacles import Obstacle, node_obstacle, pod_class, pod_class_obstacle

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
        self._nodes: Sequence[NodeFacts] | None = None  # read once: they do not change while `sluice up` runs
        self._are_nodes_read = False

    @property
    def is_confirming(self) -> bool:
        """Whether an obstacle was found that has not lasted long enough to count."""
        return self._since is not None

    def obstacle(self, seen: Seen) -> Obstacle | None:
        """The confirmed obstacle that keeps the Job from ever starting; None without one, or if no check is due yet.

        The queues matter to a pending Job, the nodes and its pods' PriorityClass to any that does not run. The text
        names all obstacles.
        """
        if seen.update.state not in AWAITS_NODE:
            return None
        found = self._of_queue(seen) if seen.update.state == JobState.PENDING else []
        if not found and self.is_confirming:
            return None
        if not found and pod_class(seen.job):
            of_class = pod_class_obstacle(seen.job, blocking(self._api_client, read_pod_classes))
            found = [of_class] if of_class is not None else []
        if not self._are_nodes_read:
            self._nodes, self._are_nodes_read = blocking(self._api_client, fixed_nodes), True
        of_nodes = node_obstacle(seen.job, seen.workload, self._nodes)
        found = [*found, *([of_nodes] if of_nodes is not None else [])]
        if not found:
            return None
        remedy = found[0].remedy
        if seen.update.state == JobState.DEACTIVATED:
            remedy = f"{remedy}; then: sluice reactivate {seen.job.metadata.key}"
        return found[0]._replace(text="; also ".join(each.text for each in found), remedy=remedy)

    def _of_queue(self, seen: Seen) -> list[Obstacle]:
        now = time.monotonic()
        if now < self._next_check:
            return []
        found = blocking(
            self._api_client, lambda client: lasting_obstacles(client, seen.job, seen.workload, self._default_ns)
        )
        if not found:
            self._since, self._next_check = None, now + AGAIN_SECONDS
            return []
        self._since = now if self._since is None else self._since
        return found if now - self._since >= CONFIRM_SECONDS else []
