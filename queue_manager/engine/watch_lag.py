"""How far a watch is behind the API server, measured by the writes of this process.

The response to a write carries the revision that the watch delivers later. Between the two lies the lag: the time that
the API server takes to send the event, and this process to get to it. Objects carry no time of their last change, so
the lag of the writes of others cannot be measured.

    idle ──response, ahead of the watch──> awaiting its revision ──watch gets there──> idle, lag observed

One write at a time is measured, so that thousands of writes in flight cost no more than one.
"""

from __future__ import annotations

from collections.abc import Callable

from job_controller.ports import Metrics

WATCH_LAG = "reflector_watch_lag_seconds"


class WatchLag:
    """Observes the lag of one watch. `now` returns seconds of a clock that never goes back."""

    def __init__(self, metrics: Metrics, resource: str, now: Callable[[], float]) -> None:
        self._metrics = metrics
        self._labels = {"resource": resource}
        self._now = now
        self._revision: int | None = None  # that is awaited
        self._since = 0.0

    def await_revision(self, revision: int) -> None:
        """Remember a response whose revision the watch has not delivered yet."""
        if self._revision is None:
            self._revision, self._since = revision, self._now()

    def delivered(self, progress: int) -> None:
        """Remember that the watch has delivered everything up to this revision."""
        if self._revision is not None and progress >= self._revision:
            self._metrics.observe(WATCH_LAG, self._labels, self._now() - self._since)
            self._revision = None
