"""Looks at a running world every now and then: its memory against its store, and what is published against both.

At a sample nothing is under way but writes that wait for a timer or a connection, since in virtual time all else takes
no time. So these hold exactly; what may lag is said with each:

    S2   the cache holds what the store says, and the admissions that are being written; usage follows, from the leaves
         of the quota tree to its roots, and is never negative
    S4   each Workload is in one place: pending, reserved, or out of the queue (gated, inactive, finished, deleted)
    S24  a ClusterQueue or flavor that is being deleted loses the manager's finalizer when it is not in use
    S26  a reason that a pending Workload has published for WRITTEN_SECONDS is one that the store gave in this time:
         only its numbers may be older, by a period and a 20th. One that was passed over with an equal one has its
         reason after the period
    L1   between two of these samples without a write, while no victims stop, nothing is left to decide
    S27  a page of the visibility API of one namespace's LocalQueue names nothing of the other
    L1, L6, L10  at the end: what could run has run, and the rest says truly why it never can
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from queue_manager.api import condition_types, keys, reasons
from queue_manager.api.types import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Namespace,
    ResourceFlavor,
    Workload,
)
from queue_manager.configuration import KueueConfig
from queue_manager.lifecycle.queue_entry import waits
from queue_manager.lifecycle.workload_settings import WorkloadSettings, settings_of
from queue_manager.scheduling.holdings import reserves_quota
from queue_manager.simulation.world import World
from queue_manager.visibility.pending_summary import local_queue_path
from queue_manager.visibility.scheduler_judgement import NEVER_REASONS, ClusterObjects, ClusterState
from tests.local.queue.invariants import Broken, is_true, phase, recount_memory
from tests.simulation.cohort_lives import TEAMS
from tests.simulation.workload_trees import usage_of

T = TypeVar("T")
EVERY = 0.4637  # s; no timer of the system has this period
JUDGED_EVERY = 2  # samples
SELDOM = 10  # samples, when reasons are not judged any more
WRITTEN_SECONDS = 2.0  # within which a changed reason is written, whatever the period
REASON_SECONDS = WRITTEN_SECONDS + 2 * JUDGED_EVERY * EVERY  # with what is between two samples
WORKLOADS = "workloads.kueue.x-k8s.io"


class State(NamedTuple):
    """The store at one time."""

    objects: ClusterObjects
    settings: WorkloadSettings
    now: datetime


class Sampler:
    """Takes samples until it is cancelled. `judges`: whether reasons are checked; `states`: the stores at these samples
    in which Workloads are pending; `checked`: how often what was.
    """

    def __init__(self, world: World, config: KueueConfig) -> None:
        self._world = world
        self._settings = settings_of(config)
        self._numbers_seconds = 1.05 * self._settings.pending_reason_period + REASON_SECONDS
        self._since: dict[int, datetime] = {}
        # By uid, for the last samples: when, the reason that the store gave, and the published one.
        self._given: dict[str, deque[tuple[datetime, str, str]]] = {}
        self._messages: dict[str, tuple[str, datetime]] = {}  # by uid: what the store gives, and since when
        self._unused: dict[str, datetime] = {}  # by uid: since when it is being deleted and not in use
        self._judged_revision = 0  # of the store when reasons were checked last
        self.judges = True
        self.states: list[State] = []
        self.checked: Counter[str] = Counter()

    async def run(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(EVERY)
            number += 1
            if self._is_settled():
                if self.judges or number % SELDOM == 0:
                    self._check_memory()
                if self.judges and number % JUDGED_EVERY == 0:
                    self._check_reasons()
            else:
                self._given.clear()
                self._unused.clear()

    def _is_settled(self) -> bool:
        """Whether a manager runs, and has for a sample."""
        world = self._world
        if not world.alive:
            return False
        first = self._since.setdefault(id(world.queue), world.clock.now())
        return world.clock.now() > first

    # --- S2, S4 ---

    def _check_memory(self) -> None:
        cache = self._world.queue.quota_cache
        state = cache.state
        for uid, tree, w in self._workloads():
            self.checked["S4"] += 1
            assumed = uid in cache._assumed
            pending, held = w.metadata.key in cache.queues, uid in state.holdings
            expected = (waits(w) and not assumed, reserves_quota(w) or assumed)
            if (pending, held) != expected:
                raise Broken(f"S4: {w.metadata.name} is (pending, reserved) = {pending, held} and not {expected}")
            found = usage_of(tree)
            if found is not None:
                self.checked["S2"] += 1
                usage = +Counter(state.holdings[uid].usage)
                if usage != +found[1] or state.holdings[uid].cluster_queue != found[0]:
                    raise Broken(f"S2: {w.metadata.name} counts {usage}, and its status says {found}")
                if is_true(tree, "Evicted") and not state.holdings[uid].evicted:
                    raise Broken(f"S2: {w.metadata.name} is evicted, and counts as running")
        stored = {uid for uid, _, _ in self._workloads()}
        if gone := state.holdings.keys() - stored:
            raise Broken(f"S2: quota is held by Workloads that do not exist: {gone}")
        recount_memory(state)
        for queue in state.queues.values():
            if any(value < 0 for node in queue.node.path() for value in node.usage.values()):
                raise Broken(f"S2: the usage around {queue.name} is negative")
        self._check_pages()
        self._check_finalizers()

    def _check_finalizers(self) -> None:
        """S24."""
        queues, flavors = self._all("clusterqueues", ClusterQueue), self._all("resourceflavors", ResourceFlavor)
        named = {f.name for q in queues for group in q.spec.resource_groups for f in group.flavors}
        held = {found[0] for _, tree, _ in self._workloads() if (found := usage_of(tree)) is not None}
        unused = {q.metadata.uid: q.metadata for q in queues if q.metadata.name not in held}
        unused |= {f.metadata.uid: f.metadata for f in flavors if f.metadata.name not in named}
        now = self._world.clock.now()
        kept = {u: m for u, m in unused.items() if m.deletion_timestamp is not None and keys.FINALIZER in m.finalizers}
        self._unused = {uid: self._unused.get(uid, now) for uid in kept}
        for uid, since in self._unused.items():
            if now - since >= timedelta(seconds=WRITTEN_SECONDS):
                raise Broken(f"S24: {kept[uid].name} is not in use, and is not deleted")

    def _workloads(self) -> Iterator[tuple[str, dict[str, Any], Workload]]:
        for stored in self._world.store.scan(WORKLOADS):
            tree = msgspec.json.decode(stored.data)
            yield tree["metadata"]["uid"], tree, msgspec.convert(tree, Workload)

    def _check_pages(self) -> None:
        """S27."""
        for team, other in (TEAMS, TEAMS[::-1]):
            for queue in self._all("localqueues", LocalQueue):
                if queue.metadata.namespace == team:
                    answer = self._world.queue.visibility.summaries.answer(local_queue_path(queue.metadata.key), {})
                    self.checked["S27"] += 1
                    if answer is None or other.encode() in msgspec.json.encode(answer.body):
                        raise Broken(f"S27: {answer}")

    # --- S26 ---

    def _all(self, plural: str, type: type[T]) -> list[T]:
        group = "" if plural == "namespaces" else ".kueue.x-k8s.io"
        return [msgspec.json.decode(each.data, type=type) for each in self._world.store.scan(plural + group)]

    def objects(self) -> ClusterObjects:
        """Everything on which decisions depend, as stored now."""
        return ClusterObjects(
            workloads=self._all("workloads", Workload),
            local_queues=self._all("localqueues", LocalQueue),
            cluster_queues=self._all("clusterqueues", ClusterQueue),
            cohorts=self._all("cohorts", Cohort),
            flavors=self._all("resourceflavors", ResourceFlavor),
            namespaces=self._all("namespaces", Namespace),
        )

    def _check_reasons(self) -> None:
        objects, now = self.objects(), self._world.clock.now()
        waiting = list(filter(waits, objects.workloads))
        if waiting:
            self.states.append(State(objects, self._settings, now))
        stops = any(reserves_quota(w) and w.is_true(condition_types.EVICTED) for w in objects.workloads)
        revision, self._judged_revision = self._judged_revision, self._world.store.revision
        is_quiet = revision == self._judged_revision and not stops
        for uid in self._given.keys() - {w.metadata.uid for w in waiting}:
            del self._given[uid], self._messages[uid]
        for w in waiting:
            found, said = ClusterState(objects, self._settings, now).judge(w), published(w)
            if is_quiet and found.head is None:
                self.checked["L1 quiet"] += 1
                if found.reason in DECIDED:
                    raise Broken(f"L1: {w.metadata.name} waits, and nothing stops it: {found.reason} {found.message}")
            self._check_numbers(w, ANY if stops or found.head or found.twin else found.message)
            given = self._given.setdefault(w.metadata.uid, deque())
            given.append((now, ANY if stops or found.head or found.twin else found.reason, said))
            while given[0][0] < now - timedelta(seconds=REASON_SECONDS):
                given.popleft()
            known, stood = ({each[part] for each in given} for part in (1, 2))
            if now - given[0][0] >= timedelta(seconds=WRITTEN_SECONDS) and ANY not in known and len(stood) == 1:
                self.checked[f"S26 {said}"] += 1
                if said not in known:
                    raise Broken(f"S26: {w.metadata.name} says {said}, and the store gave {known}")

    def _check_numbers(self, w: Workload, message: str) -> None:
        now = self._world.clock.now()
        known, since = self._messages.setdefault(w.metadata.uid, (message, now))
        if message != known:
            self._messages[w.metadata.uid] = message, now
        elif message not in ("", ANY) and now - since >= timedelta(seconds=self._numbers_seconds):
            self.checked["S26 numbers"] += 1
            reserved = w.condition(condition_types.QUOTA_RESERVED)
            if reserved is None or reserved.message != message:
                raise Broken(f"S26: {w.metadata.name} says {reserved}, and the store has given {message} since {since}")

    # --- the end ---

    def check_rest(self) -> None:
        """At rest: S2 and S4 without anything under way, and every Job has run, or says truly that it never can."""
        self._check_memory()
        if self._world.queue.quota_cache._assumed:
            raise Broken("S4: an admission is under way at rest")
        objects, now = self.objects(), self._world.clock.now()
        for _, tree, w in self._workloads():
            self.checked["L1"] += 1
            if is_true(tree, "Finished"):
                continue
            self.checked["L6"] += 1
            if not waits(w):
                raise Broken(f"L1: {w.metadata.name} neither waits nor has run: {tree['status']}")
            found = ClusterState(objects, self._settings, now).judge(w)
            if found.head is None and found.reason not in NEVER_REASONS:
                raise Broken(f"L1: {w.metadata.name} has not run: {found.reason} {found.message}")
            if found.head is None and published(w) != found.reason:
                raise Broken(f"L6: {w.metadata.name} says {published(w)}, and it is {found.reason}")
        for stored in self._world.store.scan("pods"):
            pod = msgspec.json.decode(stored.data)
            self.checked["L3"] += 1
            if phase(pod) not in ("Succeeded", "Failed"):
                raise Broken(f"L3: pod {pod['metadata']['name']} is left over")


DECIDED = ("", reasons.WAITING_FOR_PREEMPTED)  # the scheduler would admit it, or stop others for it
ANY = "*"  # not judged: victims stop, or the head of a StrictFIFO queue waits, or an equal one was tried


def published(w: Workload) -> str:
    """The reason in its status."""
    reserved = w.condition(condition_types.QUOTA_RESERVED)
    return reserved.reason if reserved is not None else reasons.PENDING_EVALUATION
