"""The scheduler: runs admission cycles when something changed, and never otherwise.

It keeps two views of the API, both derived and both updated synchronously from the caches: who waits
(`queues`) and who holds how much (`state`). A cycle is one synchronous call between two awaits, so nothing
changes under it. What it admits is *assumed* at once: the Workload leaves the line and its usage counts
before the write has begun. If the write fails the assumption is forgotten and the Workload stands in line
again. Whatever frees quota or changes the rules wakes those that had been refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable

from job_controller.model import Key
from queue_manager.api import labels
from queue_manager.api.types import (
    AdmissionCheck,
    ClusterQueue,
    LimitRange,
    LocalQueue,
    Namespace,
    ResourceFlavor,
    RuntimeClass,
    Workload,
)
from queue_manager.engine.cache import Cache
from queue_manager.engine.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOADS,
)
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport import ApiError
from queue_manager.queueing.queues import Queues
from queue_manager.scheduling.cycle import Admit, Refuse, run_cycle
from queue_manager.scheduling.info import Info, info
from queue_manager.scheduling.pod_surroundings import PodSurroundings
from queue_manager.scheduling.state import Holding, SchedulerState, holding_of
from queue_manager.workloads import checks, transitions
from queue_manager.workloads.draft import Draft
from queue_manager.workloads.lifecycle import View
from queue_manager.workloads.settings import Settings
from queue_manager.workloads.writer import Gone, WorkloadWriter

log = logging.getLogger(__name__)

CONCURRENT_WRITES = 50
SECOND_LOOK = 1.0  # s: after the rules of a ClusterQueue have changed
NEVER = (labels.EXCEEDS_MAX_QUOTA, labels.NO_MATCHING_FLAVOR)  # unless quota or flavors are changed
RETRY_SECONDS = 1.0  # after a write that failed


class Scheduler:
    """Admits Workloads. Others may ask it for the view of a Workload, and to wake who was refused."""

    def __init__(self, runtime: Runtime, settings: Settings, writer: WorkloadWriter) -> None:
        self.state = SchedulerState(ignore_undeclared=settings.resources.ignore_undeclared)
        self.queues = Queues()
        self.cycles = 0
        self._runtime = runtime
        self._settings = settings
        self._writer = writer
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._changed = asyncio.Event()
        self._writes: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(CONCURRENT_WRITES)
        self._unwritten: set[str] = set()  # uids whose admission is being written
        runtime.cache(NAMESPACES, Namespace).subscribe(self._on_namespace)
        runtime.cache(RESOURCE_FLAVORS, ResourceFlavor).subscribe(self._on_flavor)
        runtime.cache(CLUSTER_QUEUES, ClusterQueue).subscribe(self._on_cluster_queue)
        runtime.cache(LOCAL_QUEUES, LocalQueue).subscribe(self._on_local_queue)
        runtime.cache(ADMISSION_CHECKS, AdmissionCheck).subscribe(self._on_check)
        self._limit_ranges: Cache[LimitRange] = runtime.cache(LIMIT_RANGES, LimitRange)
        self._limit_ranges.index("namespace", lambda r: (r.metadata.namespace,))
        self._limit_ranges.subscribe(self._on_limit_range)
        self._runtime_classes: Cache[RuntimeClass] = runtime.cache(RUNTIME_CLASSES, RuntimeClass)
        self._runtime_classes.subscribe(self._on_runtime_class)
        self._surroundings: dict[str, PodSurroundings] = {}
        self._workloads.subscribe(self._on_workload)
        runtime.task(self.run)

    def use(self, settings: Settings) -> None:
        """From now on; who waits is read and placed anew, and has another chance."""
        self._settings = settings
        self.state.ignore_undeclared = settings.resources.ignore_undeclared
        self._read_again(lambda workload: True)
        self.wake(list(self.queues.cluster_queues))

    # --- the world as it changes ---

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is None:
            if old is not None:
                self.queues.remove(old.metadata.key)
                self._released(self.state.release(old.metadata.uid))
        elif (holding := holding_of(new)) is not None:
            before = self.state.holdings.get(holding.uid)
            self.queues.remove(holding.key)
            self.state.hold(holding)
            if before is not None and before.usage != holding.usage:
                self._released(before)
        elif new.metadata.uid not in self._unwritten:
            released = self.state.release(new.metadata.uid)
            self._line_up(new)
            self._released(released)
        self._changed.set()

    def _line_up(self, workload: Workload) -> None:
        if waits(workload):
            self.queues.put(self._read(workload), self._runtime.clock.now())
        else:
            self.queues.remove(workload.metadata.key)

    def _read(self, workload: Workload) -> Info:
        around = self._pod_surroundings(workload.metadata.namespace)
        return info(workload, self._settings.timestamp, self._settings.resources, around)

    def _released(self, holding: Holding | None) -> None:
        if holding is not None:
            self.wake(self.state.relatives(holding.cluster_queue))

    def wake(self, cluster_queues: Iterable[str]) -> None:
        """Give those another chance that these ClusterQueues had refused."""
        self.queues.wake(cluster_queues, self._runtime.clock.now())
        self._changed.set()

    def _on_cluster_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        now = self._runtime.clock.now()
        if new is None:
            if old is not None:
                relatives = self.state.relatives(old.metadata.name)
                self.state.drop_queue(old.metadata.name)
                self.queues.drop_cluster_queue(old.metadata.name)
                self.wake(relatives)
            return
        before = [] if old is None else self.state.relatives(old.metadata.name)
        self.state.set_queue(new)
        self.queues.set_cluster_queue(new, now)
        self._changed.set()
        if old is None or old.spec != new.spec:
            concerned = list(dict.fromkeys([*before, *self.state.relatives(new.metadata.name)]))
            self.wake(concerned)
            if old is not None:  # whoever is admitted now changes what the others have to be told
                asyncio.get_running_loop().call_later(SECOND_LOOK, self.wake, concerned)

    def _on_local_queue(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        if new is not None:
            self.queues.set_local_queue(new, self._runtime.clock.now())
        elif old is not None:
            self.queues.drop_local_queue(old.metadata.key)
        self._changed.set()

    def _on_flavor(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        flavor = new or old
        if flavor is None:
            return
        name = flavor.metadata.name
        if new is None:
            self.state.flavors.pop(name, None)
        else:
            self.state.flavors[name] = new
        if old is None or new is None or old.spec != new.spec:
            self.wake([q for q, s in self.state.queues.items() if name in flavors_of(s.queue)])

    def _on_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        check = new or old
        if check is None:
            return
        name = check.metadata.name
        if new is None:
            self.state.checks.pop(name, None)
        else:
            self.state.checks[name] = new
        if old is None or new is None or old.active != new.active:
            self.wake([q for q, s in self.state.queues.items() if name in self.state.checks_of(q)])

    def _on_limit_range(self, old: LimitRange | None, new: LimitRange | None) -> None:
        limit_range = new or old
        if limit_range is not None and (old is None or new is None or old.spec != new.spec):
            self._surroundings.pop(limit_range.metadata.namespace, None)
            self._read_again(lambda w: w.metadata.namespace == limit_range.metadata.namespace)

    def _on_runtime_class(self, old: RuntimeClass | None, new: RuntimeClass | None) -> None:
        if old is None or new is None or old.overhead != new.overhead:
            self._surroundings.clear()
            self._read_again(_names_runtime_class)

    def _read_again(self, concerned: Callable[[Workload], bool]) -> None:
        """What waiting Workloads ask for has changed without them."""
        waiting = [w for w in self._workloads.values() if w.metadata.key in self.queues and concerned(w)]
        for workload in waiting:
            self.queues.remove(workload.metadata.key)
            self._line_up(workload)
        if waiting:
            self._changed.set()

    def _pod_surroundings(self, namespace: str) -> PodSurroundings:
        found = self._surroundings.get(namespace)
        if found is None:
            ranges = sorted(self._limit_ranges.lookup("namespace", namespace), key=lambda r: r.metadata.name)
            overheads = {c.metadata.name: c.overhead.pod_fixed for c in self._runtime_classes.values() if c.overhead}
            found = self._surroundings[namespace] = PodSurroundings(tuple(ranges), overheads)
        return found

    def _on_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is None:
            if old is not None:
                self.state.namespaces.pop(old.metadata.name, None)
            return
        self.state.namespaces[new.metadata.name] = new.metadata.labels
        if old is None or old.metadata.labels != new.metadata.labels:
            self.wake(list(self.queues.cluster_queues))

    # --- cycles ---

    async def run(self) -> None:
        """Cycle while there is somebody to try, then wait for a change."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                if self.cycle():
                    self._changed.set()
                await asyncio.sleep(0)  # let watches and writes proceed between two cycles
        finally:
            for task in self._writes:
                task.cancel()

    def cycle(self) -> bool:
        """One admission cycle. False if there is nobody to try before something changes."""
        heads = self.queues.heads(self.is_active)
        if not heads:
            return False
        self.cycles += 1
        started = self._loop_time()
        outcomes = run_cycle(self.state, heads, self._runtime.clock.now())
        progress = False
        for outcome in outcomes:
            progress = self._act(outcome) or progress
        self._measure(outcomes, self._loop_time() - started)
        return progress

    def _act(self, outcome: Admit | Refuse) -> bool:
        """True if the next cycle will see another head."""
        if isinstance(outcome, Refuse):
            self.queues.refused(outcome, never=outcome.reason in NEVER)
            self._later(self._write_refusal(outcome))
            return True
        if self._must_wait_for_pods():
            self._later(self._write_wait(outcome))
            return False
        self._assume(outcome)
        self._later(self._write_admission(outcome))
        return True

    def is_active(self, cluster_queue: str) -> bool:
        return cluster_queue in self.state.queues and self.state.inactive(cluster_queue) is None

    def _must_wait_for_pods(self) -> bool:
        ready = self._settings.pods_ready
        if ready is None or not ready.block_admission:
            return False
        return any(not holding.ready for holding in self.state.holdings.values())

    def _assume(self, decision: Admit) -> None:
        what = decision.info
        self.queues.remove(what.key)
        self._unwritten.add(what.uid)
        self.state.hold(
            Holding(
                uid=what.uid,
                key=what.key,
                cluster_queue=decision.cluster_queue,
                queue=what.queue,
                usage=decision.assignment.usage,
                admitted=not self.state.checks_of(decision.cluster_queue),
            )
        )

    # --- writes ---

    def _later(self, write: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _write_admission(self, decision: Admit) -> None:
        what = decision.info
        workload = self._workloads.by_uid(what.uid)
        written = False
        try:
            if workload is not None:
                async with self._slots:
                    latest = await self._writer.write(
                        workload, lambda draft: self._admit(draft, decision), labels.SCHEDULER_COMPONENT
                    )
                written = holding_of(latest) is not None  # it may have ended in the same write
        except Gone:
            pass
        except Exception as error:
            _report(error, "an admission could not be written", what)
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._unwritten.discard(what.uid)
        if not written:
            self._forget(what)

    def _admit(self, draft: Draft, decision: Admit) -> None:
        """Only if nothing has changed since the decision that would have changed it."""
        newest = self._read(draft.workload)
        if not self.is_active(decision.cluster_queue) or self.queues.is_stopped(newest.queue):
            return
        if waits(draft.workload) and not newest.in_backoff(draft.now) and _same(newest, decision.info):
            transitions.reserve(draft, decision.cluster_queue, decision.assignment)
            flavors = {flavor for pod_set in decision.assignment.pod_sets for flavor in pod_set.flavors.values()}
            checks.synchronise(draft, self.state.checks_of(decision.cluster_queue, flavors))
            checks.confirm(draft)

    def _forget(self, what: Info) -> None:
        """The admission came to nothing: its quota is free, and the Workload, if it still waits, in line."""
        latest = self._workloads.by_uid(what.uid)
        if latest is not None and holding_of(latest) is not None:
            return
        released = self.state.release(what.uid)
        if latest is not None:
            self._line_up(latest)
        self._released(released)
        self._changed.set()

    async def _write_refusal(self, refusal: Refuse) -> None:
        def refuse(draft: Draft) -> None:
            before = len(draft.events)
            if waits(draft.workload):
                transitions.refuse(draft, refusal.reason, refusal.message, refusal.requests)
            if len(draft.events) > before and refusal.reason in NEVER and self._is_strict(refusal.cluster_queue):
                text = f"Can never be admitted, and blocks ClusterQueue {refusal.cluster_queue}: {refusal.message}"
                draft.event("Warning", labels.NEVER_FITS, text)

        await self._write_reason(refusal.info, refuse)

    async def _write_wait(self, decision: Admit) -> None:
        def wait(draft: Draft) -> None:
            if waits(draft.workload):
                transitions.block(draft, labels.WAITING_FOR_PODS_READY, labels.WAITING_FOR_PODS_READY_MESSAGE)

        await self._write_reason(decision.info, wait)

    async def _write_reason(self, what: Info, transition: transitions.Transition) -> None:
        workload = self._workloads.by_uid(what.uid)
        if workload is None or not _changes(workload, transition, self._runtime):
            return
        try:
            async with self._slots:
                await self._writer.write(workload, transition, labels.SCHEDULER_COMPONENT)
        except Gone:
            return
        except Exception as error:
            _report(error, "a refusal could not be written", what)
            await asyncio.sleep(RETRY_SECONDS)
            local = self.queues.local_queues.get(what.queue)
            self.wake([local.spec.cluster_queue] if local else [])

    def _is_strict(self, cluster_queue: str) -> bool:
        pending = self.queues.cluster_queues.get(cluster_queue)
        return pending is not None and pending.strategy == labels.STRICT_FIFO and not pending.pass_by

    # --- what others ask ---

    def view(self, workload: Workload) -> View:
        """What surrounds a Workload, for its life cycle."""
        local = self.queues.local_queues.get(workload.local_queue)
        name = local.spec.cluster_queue if local is not None else ""
        admission = workload.status.admission
        holder = admission.cluster_queue if admission is not None else name
        cluster = self.state.queues.get(holder)
        waiting = self.queues.get(workload.metadata.key)
        error = waiting.error if waiting is not None else ""
        if not error and cluster is not None and not self.state.selects_namespace(holder, workload.metadata.namespace):
            error = labels.NAMESPACE_MISMATCH_MESSAGE
        flavors = {f for p in admission.pod_set_assignments for f in p.flavors.values()} if admission else None
        return View(
            checks=self.state.checks_of(holder, flavors),
            cluster_queue_terminating=cluster is not None and cluster.queue.metadata.deletion_timestamp is not None,
            local_queue_exists=local is not None,
            local_queue_stop=local.spec.stop_policy if local is not None else "",
            cluster_queue=holder,
            cluster_queue_exists=cluster is not None,
            cluster_queue_active=self.is_active(holder),
            cluster_queue_stop=cluster.queue.spec.stop_policy if cluster is not None else "",
            error=error,
            bypassed=self.queues.bypassed(workload.metadata.key),
        )

    def workloads_of(self, queues: Iterable[Key]) -> list[Key]:
        """Workloads, waiting or not, that name one of these LocalQueues."""
        wanted = set(queues)
        return [w.metadata.key for w in self._workloads.values() if w.local_queue in wanted]

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()

    def _measure(self, outcomes: list[Admit | Refuse], seconds: float) -> None:
        admitted = sum(isinstance(outcome, Admit) for outcome in outcomes)
        result = {"result": "success" if admitted else "inadmissible"}
        self._runtime.metrics.inc("kueue_admission_attempts_total", result)
        self._runtime.metrics.observe("kueue_admission_attempt_duration_seconds", result, seconds)


def waits(workload: Workload) -> bool:
    """It may be given quota: nobody has ended, deleted, switched off or gated it, and it has none."""
    return (
        workload.spec.active
        and workload.metadata.deletion_timestamp is None
        and not workload.is_true(labels.FINISHED)
        and not workload.is_true(labels.DEACTIVATION_TARGET)
        and not workload.is_true(labels.QUOTA_RESERVED)
        and not workload.metadata.annotations.get(labels.ADMISSION_GATED_BY)
    )


def _report(error: Exception, text: str, what: Info) -> None:
    """A server that is busy or away is part of life; anything else is a mistake of ours, told with its place."""
    extra = {"key": str(what.key), "error": str(error)}
    if isinstance(error, ApiError | OSError):
        log.warning(text, extra=extra)
    else:
        log.error(text, extra=extra, exc_info=error)


def flavors_of(queue: ClusterQueue) -> set[str]:
    """The flavors that a ClusterQueue names."""
    return {flavor.name for group in queue.spec.resource_groups for flavor in group.flavors}


def _names_runtime_class(workload: Workload) -> bool:
    return any((p.template.get("spec") or {}).get("runtimeClassName") for p in workload.spec.pod_sets)


def _same(a: Info, b: Info) -> bool:
    return (a.uid, a.queue, a.shape) == (b.uid, b.queue, b.shape)


def _changes(workload: Workload, transition: transitions.Transition, runtime: Runtime) -> bool:
    draft = Draft(workload, runtime.clock.now())
    transition(draft)
    return draft.changed
