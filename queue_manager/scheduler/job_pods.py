"""The pods of each Job that matter to the queue: those that use a node, and those that no node can take.

While a Job has pods that use a node, its quota is in use. That includes a pod whose create request has no response
yet: the API server may accept the request after it has deleted or suspended the Job. An index holds only the pods of
its kind, so that a lookup is cheap. BEHAVIOUR.md#q27-quota-release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from job_controller.model import Pod
from job_controller.pod_facts import is_terminal
from queue_manager.api.api_resources import PODS
from queue_manager.engine.cache import controller_uid
from queue_manager.engine.runtime import Runtime


class JobPods:
    """The pods for which `counts` holds, by the uid of their Job. `name` must be unique within the runtime."""

    def __init__(self, runtime: Runtime, name: str, counts: Callable[[Pod], bool]) -> None:
        self._pods = runtime.cache(PODS, Pod)
        self._index = f"queue: controller uid of pods that {name}"
        self._counts = counts
        self._creating: Counter[str] = Counter()  # create requests without a response, by uid of the Job
        self._subscribers: list[Callable[[str], None]] = []
        self._pods.index(self._index, self._jobs)
        self._pods.subscribe(self._on_pod)

    def of(self, job_uid: str) -> list[Pod]:
        """The pods of the Job for which `counts` holds."""
        return self._pods.lookup(self._index, job_uid)

    def any_of(self, job_uid: str) -> bool:
        """Whether the Job has any of these pods, or a pod that is being created."""
        return job_uid in self._creating or self._pods.has(self._index, job_uid)

    @contextmanager
    def creating(self, job_uid: str) -> Iterator[None]:
        """While the block runs, count one more pod that is being created for this Job."""
        self._creating[job_uid] += 1
        try:
            yield
        finally:
            self._creating[job_uid] -= 1
            if not self._creating[job_uid]:
                del self._creating[job_uid]
                self._notify(job_uid)

    def subscribe(self, changed: Callable[[str], None]) -> None:
        """From now on call `changed(job_uid)` when a Job gains or loses one of these pods."""
        self._subscribers.append(changed)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        before = self._jobs(old) if old is not None else ()
        now = self._jobs(new) if new is not None else ()
        if before != now:
            for uid in (*before, *now):
                self._notify(uid)

    def _notify(self, job_uid: str) -> None:
        for changed in self._subscribers:
            changed(job_uid)

    def _jobs(self, pod: Pod) -> tuple[str, ...]:
        return controller_uid(pod) if self._counts(pod) else ()


def uses_node(pod: Pod) -> bool:
    """Whether the pod runs or may run; a terminating pod does until its containers have ended."""
    return not is_terminal(pod)
