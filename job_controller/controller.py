"""The Job controller: receives changes, calls sync.decide, has the decision carried out (upstream job.Controller).

All decisions are made by sync.decide. This file handles what needs an API server: when to sync which Job, adopting and
releasing pods, and failed writes. State is kept by Job UID, so that a Job created under the name of a deleted one
inherits nothing (DIFFERENCES.md, row 14).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from typing_extensions import TypeIs

from job_controller import conditions, event_reasons, job_patches
from job_controller.managed_by import is_handled
from job_controller.model import Job, Key, Pod
from job_controller.options import JobControllerOptions
from job_controller.perform import (
    CONFLICT,
    METRICS_PREFIX,
    NOT_FOUND,
    UNPROCESSABLE,
    Errors,
    Performer,
    PermitWithdrawn,
    StatusConflict,
    is_namespace_terminating,
    status_of,
)
from job_controller.pod_adoption import claims, matches
from job_controller.pod_facts import is_terminal
from job_controller.pod_identity import PodIdentities, mismatch_message
from job_controller.pod_manifest import Tree
from job_controller.ports import AlwaysPermitted, Clock, Events, JobClient, Metrics, PodPermits, Queue
from job_controller.sync import decide
from job_controller.sync_steps import Decision, JobMemory

# How many times one sync decides, if status writes conflict with other writers of the Job.
MAX_CONFLICT_ATTEMPTS = 4
# The first change of an idle Job waits 1/IDLE_WINDOW_DIVISOR of the batch window for related changes.
IDLE_WINDOW_DIVISOR = 10
# The batch window grows in proportion to the active pods beyond SMALL_JOB_ACTIVE_PODS, up to MAX_WINDOW_FACTOR windows:
# a sync of 100 000 pods takes about one window of a small Job, and each sync writes the whole status.
SMALL_JOB_ACTIVE_PODS = 200
MAX_WINDOW_FACTOR = 10
# Delay of changes other than of the spec after a failed sync.
FAILED_SYNC_DELAY_SECONDS = 1.0
# Delay of the next sync after a conflict on a pod, so that the cache can receive the change.
CONFLICT_DELAY_SECONDS = 0.5


class JobController:
    """The controller. The host calls `job_changed` and `pod_changed` for every change, and `sync` for queued keys."""

    def __init__(
        self,
        cluster: JobClient,
        queue: Queue,
        events: Events,
        clock: Clock,
        metrics: Metrics,
        options: JobControllerOptions | None = None,
        permits: PodPermits | None = None,
    ) -> None:
        """`permits` decides which Jobs may have new pods; None permits all."""
        self.options = options or JobControllerOptions()
        self._permits = permits or AlwaysPermitted()
        self._cluster = cluster
        self._queue = queue
        self._clock = clock
        self._metrics = metrics
        self._events = events
        self._identities = PodIdentities()
        self._performer = Performer(cluster, events, metrics, self.options, self._identities, self._permits)
        self._memories: dict[str, JobMemory] = {}  # by Job UID
        self._synced: dict[Key, datetime] = {}  # when the last sync started or ended
        self._syncing: dict[Key, bool] = {}  # Jobs being synced -> whether they changed since it started
        self._ended_pods: dict[Key, int] = {}  # number of pods that ended since the last sync
        self._failing: set[Key] = set()  # Jobs whose last sync failed
        self._withheld: set[Key] = set()  # Jobs whose last sync was not permitted to create pods
        self._sweeps = self.options.swept_finalizers
        self._window = timedelta(seconds=self.options.sync_batch_period)
        self._permits.subscribe(self._permit_changed)

    # --- what enqueues a Job ---

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """Handle a Job that was added (`old` is None), changed, or deleted (`new` is None): enqueue it if need be.

        See BEHAVIOUR.md#b12-sync-triggers.
        """
        job = new if new is not None else old
        if job is None:
            return
        key = job.metadata.key
        if new is None or conditions.finished(new.status) is not None:
            self._forget(job)
        if new is None:
            self._queue.add(key)
        elif not is_handled(new, self.options.manage):
            if old is None and new.spec.managed_by is not None:
                self._count("jobs_by_external_controller_total", {"controller_name": new.spec.managed_by})
        elif conditions.finished(new.status) is None:
            if old is None:
                self._queue.add(key, new=bool(new.spec.suspend))
            elif old.metadata.generation != new.metadata.generation:
                self._queue.add(key, urgent=True)
            else:
                self._enqueue(key)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Enqueue the Jobs concerned by a pod that was added (`old` is None), changed, or deleted (`new` is None).

        They are the Jobs that control the pod now or controlled it before, and for a pod without a controller the Jobs
        whose selector matches it.
        """
        self._check_identity(old, new)
        self._count_tracked(old, new)
        keys = [self._job_of(pod) for pod in (old, new) if pod is not None]
        if old is not None and not is_terminal(old) and (new is None or is_terminal(new)) and keys[0] in self._synced:
            self._ended_pods[keys[0]] = self._ended_pods.get(keys[0], 0) + 1
        for key in dict.fromkeys(key for key in keys if key is not None):
            self._enqueue(key)
        if new is not None and new.metadata.controller is None and _claims_changed(old, new):
            for job in self._cluster.jobs(new.metadata.namespace):
                if is_handled(job, self.options.manage) and matches(job.spec.selector, new.metadata.labels):
                    self._enqueue(job.metadata.key)

    def _check_identity(self, old: Pod | None, new: Pod | None) -> None:
        """Keep what the pod was created for, and record an Event if its annotations have been changed since."""
        identity = self._identities.pod_changed(old, new)
        if identity is None or new is None or (key := self._job_of(new)) is None:
            return
        job = self._cluster.job(key)
        if self._is_ours(job) and job.spec.completion_mode == "Indexed":
            message = mismatch_message(new, identity)
            self._events.event(job, "Warning", event_reasons.POD_ANNOTATION_IGNORED, message)

    def _permit_changed(self, key: Key) -> None:
        """Enqueue a Job whose last sync was not permitted to create pods."""
        if key in self._withheld:
            self._queue.add(key)

    def _job_of(self, pod: Pod) -> Key | None:
        """The key of the Job that controls this pod, if the cache has it under the same UID."""
        owner = pod.metadata.controller
        if owner is None or not owner.is_job:
            return None
        job = self._cluster.job(Key(pod.metadata.namespace, owner.name))
        return job.metadata.key if job is not None and job.metadata.uid == owner.uid else None

    def _enqueue(self, key: Key) -> None:
        """Enqueue the Job after the rest of its batch window.

        A Job that was synced recently waits until the window since that sync is over. A Job that was idle waits only
        1/IDLE_WINDOW_DIVISOR of a window, in which the changes of one cause arrive together. Changes that arrive during
        a sync are mostly its own writes, and are handled when it ends; after a failed sync they wait
        FAILED_SYNC_DELAY_SECONDS.
        """
        if key in self._syncing:
            self._syncing[key] = True
            return
        if key in self._failing:
            self._queue.add_after(key, FAILED_SYNC_DELAY_SECONDS)
            return
        last = self._synced.get(key)
        window = self._window_of(key)
        left = window - (self._clock.now() - last) if last is not None else timedelta(0)
        wait = left if left <= window else timedelta(0)  # no longer wait if the clock was set back
        self._queue.add_after(key, max(wait, self._window / IDLE_WINDOW_DIVISOR).total_seconds())

    def _window_of(self, key: Key) -> timedelta:
        """The batch window of a Job, longer for many running pods; pods that ended since the last sync do not count."""
        job = self._cluster.job(key)
        running = job.status.active - self._ended_pods.get(key, 0) if job is not None else 0
        return self._window * min(MAX_WINDOW_FACTOR, max(1.0, running / SMALL_JOB_ACTIVE_PODS))

    def _forget(self, job: Job) -> None:
        self._memories.pop(job.metadata.uid, None)
        self._synced.pop(job.metadata.key, None)
        self._ended_pods.pop(job.metadata.key, None)
        self._failing.discard(job.metadata.key)
        self._withheld.discard(job.metadata.key)
        self._performer.forget(job.metadata.uid)

    # --- one sync ---

    async def sync(self, key: Key) -> None:
        """Sync one Job. Raises errors that the host should retry with backoff."""
        job = self._cluster.job(key)
        if not self._is_ours(job):
            return
        began = self._synced[key] = self._clock.now()
        self._syncing[key] = False
        labels = {"completion_mode": job.spec.completion_mode, "action": "reconciling", "result": "success"}
        try:
            labels["action"] = await self._sync_with_retry(job)
            self._failing.discard(key)
        except Exception:
            labels["result"] = "error"
            self._failing.add(key)
            raise
        finally:
            ended = self._clock.now()
            changed = self._syncing.pop(key)
            if self._is_ours(self._cluster.job(key)):
                self._synced[key] = ended
                if changed:
                    self._enqueue(key)
            else:
                self._synced.pop(key, None)
                self._ended_pods.pop(key, None)
                self._failing.discard(key)
                self._withheld.discard(key)
            self._count("job_syncs_total", labels)
            self._metrics.observe(METRICS_PREFIX + "job_sync_duration_seconds", labels, (ended - began).total_seconds())

    def _is_ours(self, job: Job | None) -> TypeIs[Job]:
        """Whether the Job exists, is managed by this controller, and is unfinished."""
        return job is not None and is_handled(job, self.options.manage) and conditions.finished(job.status) is None

    async def _sync_with_retry(self, job: Job) -> str:
        """Sync, and repeat with the live Job after a conflict. Returns the label `action` for metrics."""
        for attempt in range(MAX_CONFLICT_ATTEMPTS):
            try:
                return await self._sync_once(job)
            except StatusConflict:
                if attempt == MAX_CONFLICT_ATTEMPTS - 1:
                    raise
            fresh = await self._cluster.read_job(job.metadata.key)
            if not self._is_ours(fresh):
                break
            job = fresh
        return "reconciling"

    async def _sync_once(self, job: Job) -> str:
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
        self._ended_pods.pop(job.metadata.key, None)
        memory = self._memories.get(uid)
        permitted = self._is_permitted(job)
        now = self._clock.now()
        decision = decide(job, pods, memory, now, self.options, pods_done=pods_done, permitted=permitted)
        self._memories[uid] = decision.memory
        return decision

    def _is_permitted(self, job: Job) -> bool:
        """Whether the Job may have new pods. A suspended Job creates none, so its permit is not requested."""
        permitted = job.spec.suspend or self._permits.may_create_pods(job)
        (self._withheld.discard if permitted else self._withheld.add)(job.metadata.key)
        return permitted

    async def _after_errors(self, job: Job, errors: Errors) -> None:
        """Write the status that matches what did succeed, then raise the first error that should be retried.

        Conflicts are retried after CONFLICT_DELAY_SECONDS. A withdrawn permit is not retried: the permit enqueues the
        Job.
        """
        current = self._cluster.job(job.metadata.key)
        if self._is_ours(current) and current.metadata.uid == job.metadata.uid:
            owned = claims(current, self._cluster.pods_of(current.metadata.uid), ()).owned
            decision = self._decide(current, self._identities.restored(job.metadata.uid, owned), pods_done=True)
            errors = errors + await self._performer.perform(current, decision)
        errors = [error for error in errors if not isinstance(error, PermitWithdrawn)]
        to_retry = [error for error in errors if status_of(error) != CONFLICT and not is_namespace_terminating(error)]
        if to_retry:
            raise to_retry[0]
        if any(status_of(error) == CONFLICT for error in errors):
            self._queue.add_after(job.metadata.key, CONFLICT_DELAY_SECONDS)

    # --- which pods belong to the Job ---

    async def _claim(self, job: Job) -> Sequence[Pod]:
        """The pods of the Job with their original identity (pod_identity.py), after adopting and releasing pods by the
        selector.
        """
        meta = job.metadata
        found = claims(job, self._cluster.pods_of(meta.uid), self._cluster.orphans(meta.namespace))
        owned = list(found.owned)
        if found.adopt and await self._may_adopt(job):
            for pod in found.adopt:
                adopted = await self._patch_owner(pod, job_patches.adopt(job, pod, self.options.finalizer))
                if adopted is not None:
                    owned.append(adopted)
        for pod in found.release:
            await self._patch_owner(pod, job_patches.release_pod(job, pod))
        return self._identities.restored(meta.uid, owned)

    async def _may_adopt(self, job: Job) -> bool:
        """Whether the live Job has the same UID and is not being deleted; the cache may be stale."""
        live = await self._cluster.read_job(job.metadata.key)
        return live is not None and live.metadata.uid == job.metadata.uid and live.metadata.deletion_timestamp is None

    async def _patch_owner(self, pod: Pod, patch: Tree) -> Pod | None:
        """Patch the owner of a pod. None if the pod is gone or the API server rejects the patch (404, 422)."""
        try:
            return await self._cluster.patch_pod(pod.metadata.key, patch)
        except Exception as error:
            if status_of(error) in (NOT_FOUND, UNPROCESSABLE):
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
    """Whether the labels or owners of a pod without a controller changed, so that a Job may adopt it."""
    return (
        old is None
        or old.metadata.labels != new.metadata.labels
        or old.metadata.owner_references != new.metadata.owner_references
    )
