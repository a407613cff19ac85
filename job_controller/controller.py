"""The Job controller: hears of changes, decides, performs.

All decisions are sync.decide's. What is left here is what needs the world: which key to look at when, claiming
pods, and what to do when a write fails. Memory is keyed by UID, so a Job created under the name of a deleted
one inherits nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from typing_extensions import TypeIs

from job_controller import conditions, job_patches, reasons
from job_controller.decision import Decision, JobMemory
from job_controller.model import Job, Key, Pod
from job_controller.options import JobControllerOptions
from job_controller.perform import (
    CONFLICT,
    METRICS_PREFIX,
    NOT_FOUND,
    REFUSED,
    Errors,
    Performer,
    PermitWithdrawn,
    StatusConflict,
    is_namespace_terminating,
    status_of,
)
from job_controller.pod_facts import is_terminal
from job_controller.pod_identity import Identities, disagreement
from job_controller.pod_manifest import Tree
from job_controller.pod_selection import claims, matches
from job_controller.ports import AlwaysPermitted, Clock, Cluster, Events, Metrics, PodPermits, Queue
from job_controller.sync import decide

# How often one sync decides anew because somebody else wrote to the Job.
ATTEMPTS = 4
# The first change after a rest waits for others a GATHERING-th of the batch window.
GATHERING = 10
# A Job with more running pods than this waits for more of their changes, in proportion and up to so many windows: one
# look at 100 000 pods takes as long as the window of a small Job, and each one writes the whole status.
SMALL_JOB = 200
MOST_WINDOWS = 10
# For which news of a Job wait whose last sync failed, in seconds. Changes of its spec do not wait.
TROUBLE_DELAY = 1.0
# After a pod changed under our hands: until its change has reached us.
CONFLICT_DELAY = 0.5


class JobController:
    """Runs Jobs. `job_changed` and `pod_changed` are told of every change, `sync` works on keys of the queue."""

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        events: Events,
        clock: Clock,
        metrics: Metrics,
        options: JobControllerOptions | None = None,
        permits: PodPermits | None = None,
    ) -> None:
        """`permits` says which Jobs may have pods; None: all."""
        self.options = options or JobControllerOptions()
        self._permits = permits or AlwaysPermitted()
        self._cluster = cluster
        self._queue = queue
        self._clock = clock
        self._metrics = metrics
        self._events = events
        self._identities = Identities()
        self._performer = Performer(cluster, events, metrics, self.options, self._identities, self._permits)
        self._memories: dict[str, JobMemory] = {}  # by Job UID
        self._synced: dict[Key, datetime] = {}  # when the last sync began or ended
        self._syncing: dict[Key, bool] = {}  # Jobs in a sync now -> whether something changed meanwhile
        self._ended: dict[Key, int] = {}  # how many pods have ended since the last look at them
        self._troubled: set[Key] = set()  # Jobs whose last sync failed
        self._withheld: set[Key] = set()  # Jobs that may not have new pods, as of their last sync
        self._sweeps = self.options.sweeps
        self._window = timedelta(seconds=self.options.sync_batch_period)
        self._permits.subscribe(self._permit_changed)

    # --- what wakes a Job ---

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """A Job was added (no old), changed, or deleted (no new)."""
        job = new if new is not None else old
        if job is None:
            return
        key = job.metadata.key
        if new is None or conditions.finished(new.status) is not None:
            self._forget(job)
        if new is None:
            self._queue.add(key)
        elif not self.options.manages(new):
            if old is None and new.spec.managed_by is not None:
                self._count("jobs_by_external_controller_total", {"controller_name": new.spec.managed_by})
        elif conditions.finished(new.status) is None:
            if old is None:
                self._queue.add(key, new=bool(new.spec.suspend))
            elif old.metadata.generation != new.metadata.generation:
                self._queue.add(key, urgent=True)
            else:
                self._wake(key)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod was added (no old), changed, or deleted (no new)."""
        self._note_identity(old, new)
        self._count_tracked(old, new)
        keys = [self._job_of(pod) for pod in (old, new) if pod is not None]
        if old is not None and not is_terminal(old) and (new is None or is_terminal(new)) and keys[0] in self._synced:
            self._ended[keys[0]] = self._ended.get(keys[0], 0) + 1
        for key in dict.fromkeys(key for key in keys if key is not None):
            self._wake(key)
        if new is not None and new.metadata.controller is None and _claims_changed(old, new):
            for job in self._cluster.jobs(new.metadata.namespace):
                if self.options.manages(job) and matches(job.spec.selector, new.metadata.labels):
                    self._wake(job.metadata.key)

    def _note_identity(self, old: Pod | None, new: Pod | None) -> None:
        """Keep what the pod was created for; report on its Job that somebody has written something else."""
        identity = self._identities.pod_changed(old, new)
        if identity is None or new is None or (key := self._job_of(new)) is None:
            return
        job = self._cluster.job(key)
        if self._is_ours(job) and job.spec.completion_mode == "Indexed":
            message = disagreement(new, identity)
            self._events.event(job, "Warning", reasons.EVENT_POD_ANNOTATION_IGNORED, message)

    def _permit_changed(self, key: Key) -> None:
        """Sync a Job at once if its last sync was not allowed to create pods."""
        if key in self._withheld:
            self._queue.add(key)

    def _job_of(self, pod: Pod) -> Key | None:
        owner = pod.metadata.controller
        if owner is None or not owner.is_job:
            return None
        job = self._cluster.job(Key(pod.metadata.namespace, owner.name))
        return job.metadata.key if job is not None and job.metadata.uid == owner.uid else None

    def _wake(self, key: Key) -> None:
        """Sync soon. A busy Job waits until the batch window since its last sync is over; one that was at rest
        only for the few milliseconds in which changes of one cause arrive. Most of what is heard during a
        sync is that sync's own writes, and those of a sync that fails must not start the next one at once."""
        if key in self._syncing:
            self._syncing[key] = True
            return
        if key in self._troubled:
            self._queue.add_after(key, TROUBLE_DELAY)
            return
        last = self._synced.get(key)
        window = self._window_of(key)
        left = window - (self._clock.now() - last) if last is not None else timedelta(0)
        wait = left if left <= window else timedelta(0)  # a clock that was set back must not delay
        self._queue.add_after(key, max(wait, self._window / GATHERING).total_seconds())

    def _window_of(self, key: Key) -> timedelta:
        """The batch window of a Job; that of its last pods is the shortest, for nothing more can be waited for."""
        job = self._cluster.job(key)
        running = job.status.active - self._ended.get(key, 0) if job is not None else 0
        return self._window * min(MOST_WINDOWS, max(1.0, running / SMALL_JOB))

    def _forget(self, job: Job) -> None:
        self._memories.pop(job.metadata.uid, None)
        self._synced.pop(job.metadata.key, None)
        self._ended.pop(job.metadata.key, None)
        self._troubled.discard(job.metadata.key)
        self._withheld.discard(job.metadata.key)
        self._performer.forget(job.metadata.uid)

    # --- one sync ---

    async def sync(self, key: Key) -> None:
        """Bring one Job forward. Raises what should be repeated with backoff."""
        job = self._cluster.job(key)
        if not self._is_ours(job):
            return
        began = self._synced[key] = self._clock.now()
        self._syncing[key] = False
        labels = {"completion_mode": job.spec.completion_mode, "action": "reconciling", "result": "success"}
        try:
            labels["action"] = await self._with_fresh_job(job)
            self._troubled.discard(key)
        except Exception:
            labels["result"] = "error"
            self._troubled.add(key)
            raise
        finally:
            ended = self._clock.now()
            changed = self._syncing.pop(key)
            if self._is_ours(self._cluster.job(key)):
                self._synced[key] = ended
                if changed:
                    self._wake(key)
            else:
                self._synced.pop(key, None)
                self._ended.pop(key, None)
                self._troubled.discard(key)
                self._withheld.discard(key)
            self._count("job_syncs_total", labels)
            self._metrics.observe(METRICS_PREFIX + "job_sync_duration_seconds", labels, (ended - began).total_seconds())

    def _is_ours(self, job: Job | None) -> TypeIs[Job]:
        return job is not None and self.options.manages(job) and conditions.finished(job.status) is None

    async def _with_fresh_job(self, job: Job) -> str:
        """Sync, again if somebody else changed the Job meanwhile. The action, for metrics."""
        for attempt in range(ATTEMPTS):
            try:
                return await self._once(job)
            except StatusConflict:
                if attempt == ATTEMPTS - 1:
                    raise
            fresh = await self._cluster.read_job(job.metadata.key)
            if not self._is_ours(fresh):
                break
            job = fresh
        return "reconciling"

    async def _once(self, job: Job) -> str:
        pods = await self._claim(job)
        decision = self._decide(job, pods)
        errors = await self._performer.perform(job, decision)
        if errors:
            await self._after_errors(job, errors)
        elif decision.requeue_after is not None:
            self._queue.add_after(job.metadata.key, decision.requeue_after)
        return decision.action

    def _decide(self, job: Job, pods: Iterable[Pod], *, pods_done: bool = False) -> Decision:
        uid = job.metadata.uid
        self._ended.pop(job.metadata.key, None)
        memory = self._memories.get(uid)
        permitted = self._is_permitted(job)
        now = self._clock.now()
        decision = decide(job, pods, memory, now, self.options, pods_done=pods_done, permitted=permitted)
        self._memories[uid] = decision.memory
        return decision

    def _is_permitted(self, job: Job) -> bool:
        """Whether the Job may have new pods. A suspended one creates none, so that nobody needs to be asked."""
        permitted = job.spec.suspend or self._permits.may_create_pods(job)
        (self._withheld.discard if permitted else self._withheld.add)(job.metadata.key)
        return permitted

    async def _after_errors(self, job: Job, errors: Errors) -> None:
        """Write down what did happen, then have the rest repeated; without a permit, when it is given again."""
        current = self._cluster.job(job.metadata.key)
        if self._is_ours(current) and current.metadata.uid == job.metadata.uid:
            owned = claims(current, self._cluster.pods_of(current.metadata.uid), ()).owned
            decision = self._decide(current, self._identities.restored(job.metadata.uid, owned), pods_done=True)
            errors = errors + await self._performer.perform(current, decision)
        errors = [error for error in errors if not isinstance(error, PermitWithdrawn)]
        serious = [error for error in errors if status_of(error) != CONFLICT and not is_namespace_terminating(error)]
        if serious:
            raise serious[0]
        if any(status_of(error) == CONFLICT for error in errors):
            self._queue.add_after(job.metadata.key, CONFLICT_DELAY)

    # --- which pods are the Job's ---

    async def _claim(self, job: Job) -> Sequence[Pod]:
        """The pods of the Job, after adopting and releasing by its selector; each with its true identity."""
        meta = job.metadata
        found = claims(job, self._cluster.pods_of(meta.uid), self._cluster.orphans(meta.namespace))
        owned = list(found.owned)
        if found.adopt and await self._may_adopt(job):
            for pod in found.adopt:
                adopted = await self._reassign(pod, job_patches.adopt(job, pod, self.options.finalizer))
                if adopted is not None:
                    owned.append(adopted)
        for pod in found.release:
            await self._reassign(pod, job_patches.let_go(job, pod))
        return self._identities.restored(meta.uid, owned)

    async def _may_adopt(self, job: Job) -> bool:
        """The cache may not know yet that the Job is deleted or another: the API server does."""
        live = await self._cluster.read_job(job.metadata.key)
        return live is not None and live.metadata.uid == job.metadata.uid and live.metadata.deletion_timestamp is None

    async def _reassign(self, pod: Pod, patch: Tree) -> Pod | None:
        try:
            return await self._cluster.patch_pod(pod.metadata.key, patch)
        except Exception as error:
            if status_of(error) in (NOT_FOUND, REFUSED):
                return None
            raise

    # --- metrics ---

    def _count(self, name: str, labels: dict[str, str]) -> None:
        self._metrics.inc(METRICS_PREFIX + name, labels)

    def _count_tracked(self, old: Pod | None, new: Pod | None) -> None:
        before, after = (pod is not None and self._awaits_counting(pod) for pod in (old, new))
        if before != after:
            self._count("terminated_pods_tracking_finalizer_total", {"event": "add" if after else "delete"})

    def _awaits_counting(self, pod: Pod) -> bool:
        return is_terminal(pod) and not self._sweeps.isdisjoint(pod.metadata.finalizers)


def _claims_changed(old: Pod | None, new: Pod) -> bool:
    """Whether an ownerless pod may have become some Job's."""
    return (
        old is None
        or old.metadata.labels != new.metadata.labels
        or old.metadata.owner_references != new.metadata.owner_references
    )
