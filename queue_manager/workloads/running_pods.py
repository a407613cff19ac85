"""Which Jobs have pods that use nodes: as long as there are any, the quota of the Job is in use, whatever became of it.

The index holds only such pods; it is that of the Job's side as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from job_controller.model import Pod
from job_controller.pod_facts import is_terminal
from queue_manager.engine.cache import controller_uid
from queue_manager.engine.resources import PODS
from queue_manager.engine.runtime import Runtime

RUNNING = "queue: controller uid of pods that use nodes"  # an index of the cache of pods


class RunningPods:
    """Answers from the cache of pods. `ended(job_uid)` is called when a Job has none left."""

    def __init__(self, runtime: Runtime, ended: Callable[[str], None]) -> None:
        self._pods = runtime.cache(PODS, Pod)
        self._pods.index(RUNNING, _job_of_running)
        self._ended = ended
        self._pods.subscribe(self._on_pod)

    def any_of(self, job_uid: str) -> bool:
        return self._pods.has(RUNNING, job_uid)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Whether it ended, is gone, or was orphaned: it is no longer one of its Job's."""
        for uid in {*_jobs(old)} - {*_jobs(new)}:
            if not self.any_of(uid):
                self._ended(uid)


def uses_node(pod: Pod) -> bool:
    """It runs, or may; a terminating pod does until its containers have ended."""
    return not is_terminal(pod)


def _job_of_running(pod: Pod) -> Iterable[str]:
    return controller_uid(pod) if uses_node(pod) else ()


def _jobs(pod: Pod | None) -> tuple[str, ...]:
    return tuple(_job_of_running(pod)) if pod is not None else ()
