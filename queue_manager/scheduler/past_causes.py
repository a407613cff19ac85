"""Why the last pod of each Job was disrupted, or a container of it restarted, remembered beyond the pod.

`kubectl drain` deletes the pods that it evicts, and the Job controller ends a Job that fails by that only when its pods
are gone: so the cause has to outlive them. The same holds for a Job whose containers restarted too often (restartPolicy
OnFailure), none of whose pods has failed. BEHAVIOUR.md#q113-pod-causes.
"""

from __future__ import annotations

from job_controller.model import Job, Pod
from queue_manager.api.api_resources import JOBS, PODS
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.lifecycle.pod_causes import PodCause, disruption_of, restart_of


class PastCauses:
    """Watches pods and Jobs. Construct it before the runtime starts."""

    def __init__(self, runtime: Runtime) -> None:
        self._last: dict[str, PodCause] = {}  # by Job UID; only Jobs in the cache
        self._jobs: Cache[Job] = runtime.cache(JOBS, Job)
        self._jobs.subscribe(self._on_job)
        runtime.cache(PODS, Pod).subscribe(self._on_pod)

    def last_of(self, job_uid: str) -> PodCause | None:
        """The last disruption or restart of a pod of the Job since this process began to watch, or None."""
        return self._last.get(job_uid)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        owner = pod.metadata.controller if pod is not None else None
        if pod is None or owner is None or not owner.is_job:
            return
        found = disruption_of(pod) or restart_of(pod)
        if found is None or self._jobs.by_uid(owner.uid) is None:
            return
        known = self._last.get(owner.uid)
        if known is None or found.at >= known.at:
            self._last[owner.uid] = found

    def _on_job(self, old: Job | None, new: Job | None) -> None:
        if old is not None and new is None:
            self._last.pop(old.metadata.uid, None)
