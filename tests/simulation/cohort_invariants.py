"""The invariants of a history with several ClusterQueues in cohorts, at every write, beyond those of one ClusterQueue.

Everything is read from the objects as the store had them. What may lag is what the manager had under way: a decision is
judged by the quotas and queues as they were at any time in the last LAG before its write.

    S1   who gets quota fits into it: ClusterQueue, cohorts above, limits; recounted from the specs (`recount`); there
         is none below a cycle of Cohorts
    S3   what an admission counts is the request, by value
    S5   no quota for a Workload that is gated, or of a namespace that the ClusterQueue does not select
    S6   a StrictFIFO ClusterQueue admits nobody before an earlier one that could be admitted, unless that one was
         admitted in the same instant and preempted before this was written
    S7   a preemption makes its preemptor fit, needs each victim, and keeps policies and minimum runtimes; the quota
         that is released for it is not given to another one, unless that has a higher priority, or takes its own quota
    S8   no victim has a higher priority in the same ClusterQueue; fair sharing takes from the larger share only
    S9   nothing is preempted more than twice while users and admins do nothing and no Workload is evicted otherwise,
         over kills of the manager as well
    S12  quota in use is not lost with its Workload
    S13  a Job that runs again has a startTime that is not before its resume
    S24  a ClusterQueue is not deleted while its quota is in use, nor a flavor while a ClusterQueue names it
    S25  finalizers, annotations and conditions of other programs stay
    S27  nothing in a namespace names an object of the other
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

import msgspec

from queue_manager import durations
from queue_manager.api import keys
from queue_manager.api.types import ClusterQueue, Cohort
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.visibility.scheduler_judgement import ClusterObjects
from tests.local.queue.invariants import (
    Broken,
    History,
    Tree,
    condition,
    is_true,
    owner,
    phase,
    preemptor_of,
    priority,
    requeue_state,
)
from tests.simulation.cohort_lives import MAX_MIN_RUNTIME, TEAMS
from tests.simulation.recount import Recount
from tests.simulation.workload_trees import CPU, order, request, usage_of, waits

LAG = timedelta(seconds=0.5)
INPUT, KILLED = b"INPUT", b"KILLED"  # an action of a user or admin; a crash of the manager
MOST_EVICTIONS = 2  # of one Workload for one reason without an input (K of S9)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OTHERS = "example.com/"


class Write(NamedTuple):
    """A line of the history with its time; INPUT and KILLED in its place are no writes."""

    at: datetime
    line: bytes


class Specs(NamedTuple):
    """Queues, cohorts and flavors until a change of one of them."""

    until: datetime | None  # None: now
    objects: ClusterObjects


class Overtaken(NamedTuple):
    """Someone who must have been admitted soon, since one behind it in a StrictFIFO queue was.

    `fitted`: beside the quota that was held before this instant. So it may have been admitted, and preempted before
    its admission was written.
    """

    due: datetime
    uid: str
    by: str  # name
    fitted: bool


@dataclass
class CohortHistory(History):
    """Checks a history write by write."""

    in_flight: int = 60
    sharing: bool = False  # fair sharing
    now: datetime = EPOCH
    trees: dict[tuple[str, str, str], Tree] = field(default_factory=dict)  # by resource, namespace, name
    versions: list[Specs] = field(default_factory=list)
    usages: dict[str, tuple[str, Counter[FlavorResource]]] = field(default_factory=dict)  # by uid: who holds what where
    changed: dict[str, datetime] = field(default_factory=dict)  # by uid: since when it waits as it is
    reprioritized: dict[str, datetime] = field(default_factory=dict)  # by uid: when its priority was changed
    stopped_at: dict[str, datetime] = field(default_factory=dict)  # by queue: when it was stopped last
    edited: datetime = EPOCH  # when a queue, cohort or flavor was changed
    killed: datetime = EPOCH
    released: datetime = EPOCH  # when quota was released last
    overtaken: list[Overtaken] = field(default_factory=list)
    batches: dict[str, set[str]] = field(default_factory=dict)  # by uid of the preemptor: victims that it takes now
    admissions: list[tuple[datetime, Tree]] = field(default_factory=list)  # the last ones
    owners: set[str] = field(default_factory=set)  # by uid: who got nothing but nominal quota of its ClusterQueue
    evictions: Counter[str] = field(default_factory=Counter)  # by uid: preemptions since the last input
    below_cycle: set[str] = field(default_factory=set)  # ClusterQueues
    guarded: set[str] = field(default_factory=set)  # by uid: what has had the finalizer of the manager
    resumed: dict[str, datetime] = field(default_factory=dict)  # by uid of a Job: when, if it was suspended before

    def play(self, writes: Iterable[Write]) -> None:
        for write in writes:
            self._time_passes(write.at)
            if write.line in (INPUT, KILLED):
                if write.line == KILLED:
                    self.killed = write.at
                else:
                    self.evictions.clear()
            else:
                self._other_namespace(write.line)
                self.check([write.line])
        self._time_passes(self.now + 2 * LAG)

    def _time_passes(self, now: datetime) -> None:
        if now > self.now:
            self._check_batches()
        self.now = now
        due = [each for each in self.overtaken if each.due < now]
        self.overtaken = [each for each in self.overtaken if each.due >= now]
        for each in due:
            self._check_overtaken(each)

    def _write(self, what: bytes, resource: bytes, tree: Tree) -> None:
        kind, meta = resource.decode(), tree["metadata"]
        place = kind, meta.get("namespace", ""), meta["name"]
        old = self.trees.get(place)
        if what == b"DELETED":
            self.trees.pop(place, None)
            self._unused(kind, tree)
        else:
            if old is not None and old["metadata"]["uid"] == meta["uid"] and not self._users(tree):
                self._others_stay(old, tree)
            self.trees[place] = tree
            if kind in (QUEUES, FLAVORS) and self._in_use(tree):
                self.checked[f"S24 {tree['kind']} in use"] += 1
            if keys.FINALIZER in meta.get("finalizers", ()):
                self.guarded.add(meta["uid"])
        if kind in SPECS and (old is None or what == b"DELETED" or old["spec"] != tree["spec"]):
            self._remember_specs()
        super()._write(what, resource, tree)

    def _queue(self, tree: Tree) -> None:
        name, before = f"{tree['kind']}/{tree['metadata']['name']}", set(self.stopped)
        super()._queue(tree)
        if name in self.stopped - before:
            self.stopped_at[name] = self.now

    def _is_stopped(self, queue: str) -> bool:
        return queue in self.stopped and self.stopped_at[queue] < self.now - LAG

    # --- S24, S25, S27 ---

    def _others_stay(self, old: Tree, new: Tree) -> None:
        """S25."""
        for what, before, after in (
            ("finalizer", old["metadata"].get("finalizers") or (), new["metadata"].get("finalizers") or ()),
            ("annotation", old["metadata"].get("annotations") or (), new["metadata"].get("annotations") or ()),
            ("condition", _condition_types(old), _condition_types(new)),
        ):
            others = {each for each in before if each.startswith(OTHERS)}
            self.checked[f"S25 {what}"] += bool(others)
            lost = others.difference(after)
            if lost:
                raise Broken(
                    f"S25: {new['kind']} {new['metadata']['name']} lost {what} {sorted(lost)} of another program"
                )

    def _unused(self, kind: str, tree: Tree) -> None:
        """S24: what is in use is not deleted, once the manager has seen it."""
        name = tree["metadata"]["name"]
        if kind not in (QUEUES, FLAVORS) or tree["metadata"]["uid"] not in self.guarded:
            return
        self.checked[f"S24 {tree['kind']}"] += 1
        for queue, usage in self.usages.values():
            used = {fr.flavor for fr, n in usage.items() if n}
            if (kind == QUEUES and name == queue) or (kind == FLAVORS and name in used):
                raise Broken(f"S24: {kind} {name} was deleted while its quota is in use")
        if kind == FLAVORS and all(name in _flavors_named(each) for each in self._objects()):
            raise Broken(f"S24: {kind} {name} was deleted while a ClusterQueue names it")

    def _in_use(self, tree: Tree) -> bool:
        """Whether the object is being deleted while its quota is in use."""
        name = tree["metadata"]["name"]
        return "deletionTimestamp" in tree["metadata"] and any(
            name == queue or name in {fr.flavor for fr in usage} for queue, usage in self.usages.values()
        )

    def _other_namespace(self, line: bytes) -> None:
        """S27."""
        if any(f'"namespace":"{team}"'.encode() in line for team in TEAMS):
            self.checked["S27"] += 1
            if all(team.encode() in line for team in TEAMS):
                raise Broken(f"S27: an object of one namespace names something of the other: {line.decode()}")

    # --- quota ---

    def _remember_specs(self) -> None:
        if self.versions:
            self.versions[-1] = self.versions[-1]._replace(until=self.now)
        self.versions = [each for each in self.versions if each.until is None or each.until >= self.now - LAG]
        queues = [msgspec.convert(t, ClusterQueue) for (kind, _, _), t in self.trees.items() if kind == QUEUES]
        cohorts = [msgspec.convert(t, Cohort) for (kind, _, _), t in self.trees.items() if kind == COHORTS]
        objects = ClusterObjects(cluster_queues=queues, cohorts=cohorts)
        self.versions.append(Specs(None, objects))
        counted = Recount(objects, {})
        self.below_cycle = {q.metadata.name for q in queues if counted.is_below_cycle(("cq", q.metadata.name))}
        self.edited = self.now

    def _objects(self) -> list[ClusterObjects]:
        """The specs that the manager may have decided by."""
        recent = [each for each in self.versions if each.until is None or each.until >= self.now - LAG]
        return [each.objects for each in recent]

    def _total(self, without: Iterable[str] = (), more: tuple[str, Counter[FlavorResource]] | None = None) -> Tree:
        left_out, total = set(without), dict[str, Counter[FlavorResource]]()
        held = [usage for uid, usage in self.usages.items() if uid not in left_out]
        for queue, usage in [*held, more] if more is not None else held:
            total.setdefault(queue, Counter()).update(usage)
        return total

    def _evicting(self) -> set[str]:
        """Who holds quota and is being stopped."""
        held = ((uid, self.workloads[uid]) for uid in self.usages)
        return {uid for uid, w in held if is_true(w, "Evicted") or "deletionTimestamp" in w["metadata"]}

    def _fits(self, objects: ClusterObjects, total: Tree, w: Tree, flavor: str = "") -> bool:
        """Whether a pending Workload fits beside this usage, in this flavor or in any."""
        queue, need = self._queue_of(w), request(w)
        spec = next((q.spec for q in objects.cluster_queues if q.metadata.name == queue), None)
        flavors = [f.name for g in spec.resource_groups for f in g.flavors] if spec is not None else []
        counted = Recount(objects, total)
        if counted.is_below_cycle(("cq", queue)):
            return False
        fitting = (counted.available(("cq", queue), FlavorResource(each, CPU)) >= need for each in flavors)
        return any(ok for each, ok in zip(flavors, fitting, strict=True) if not flavor or each == flavor)

    def _queue_of(self, w: Tree) -> str:
        return self.members.get(f"LocalQueue/{w['spec'].get('queueName', '')}", "/").split("/")[1]

    def _spec(self, queue: str) -> Tree:
        return self.trees.get((QUEUES, "", queue), {"spec": {}})["spec"]

    def _within_quota(self) -> None:
        """Done by `_workload`, which knows what has changed."""

    # --- S13 ---

    def _job(self, what: bytes, new: Tree) -> None:
        uid, old = new["metadata"]["uid"], self.jobs.get(new["metadata"]["uid"])
        super()._job(what, new)
        if what == b"DELETED" or new["spec"].get("suspend"):
            self.resumed.pop(uid, None)
        elif old is not None and old["spec"].get("suspend"):
            self.resumed[uid] = self.now.replace(microsecond=0)
        started = (new.get("status") or {}).get("startTime")
        if uid in self.resumed and started and not is_true(new, "Suspended"):
            self.checked["S13"] += 1
            if datetime.fromisoformat(started) < self.resumed[uid]:
                raise Broken(f"S13: {new['metadata']['name']} was resumed and has the startTime {started}")

    # --- Workloads ---

    def _workload(self, what: bytes, new: Tree) -> None:
        uid, name = new["metadata"]["uid"], new["metadata"]["name"]
        old = self.workloads.get(uid)
        if old is None or waits(old) != waits(new) or old["spec"] != new["spec"]:
            self.changed[uid] = self.now
        if old is not None and priority(old) != priority(new):
            self.reprioritized[uid] = self.now
        before = self.usages.pop(uid, None)
        if what == b"DELETED":
            self.checked["S12 deleted"] += before is not None
            if before is not None and self._uses_nodes(new):
                raise Broken(f"S12: {name} was deleted with its quota while its pods use nodes")
            super()._workload(what, new)
            return
        after = usage_of(new)
        if after is not None:
            self.usages[uid] = after
        if after is not None and before is None:
            self.admissions = [each for each in self.admissions if each[0] == self.now] + [(self.now, new)]
            self.owners = self.owners | {uid} if self._stays_within_own(uid) else self.owners - {uid}
        if before is not None and (after is None or before[1] - after[1]):
            self.released = self.now
        was_evicted = old is not None and is_true(old, "Evicted")
        if is_true(new, "Evicted") and not was_evicted and condition(new, "Evicted")["reason"] != "Preempted":
            self.evictions.clear()
        super()._workload(what, new)
        self.checked["S1 below a cycle"] += waits(new) and self._queue_of(new) in self.below_cycle
        if after is not None and (before is None or after[0] != before[0] or after[1] - before[1]):
            self._check_quota(name, *after)
        if after is not None and before is None:
            self._check_admission(name, new, after[1])

    def _uses_nodes(self, w: Tree) -> bool:
        return any(owner(p) == owner(w) and phase(p) not in ("Succeeded", "Failed") for p in self.pods.values())

    def _check_quota(self, name: str, queue: str, usage: Counter[FlavorResource]) -> None:
        self.checked["S1"] += 1
        recounts = [Recount(objects, self._total()) for objects in self._objects()]
        if all(r.is_below_cycle(("cq", queue)) for r in recounts):
            raise Broken(f"S1: {name} got quota in {queue}, which is below a cycle of Cohorts")
        recounts = [r for r in recounts if not r.is_below_cycle(("cq", queue))]
        if not any(all(r.available(("cq", queue), fr) >= 0 for fr in usage if usage[fr]) for r in recounts):
            raise Broken(f"S1: {name} got {dict(usage)} in {queue}, beyond the quota: {recounts[-1].usage}")

    def _check_admission(self, name: str, w: Tree, usage: Counter[FlavorResource]) -> None:
        self.checked["S3"] += 1
        if sum(usage.values()) != request(w):
            raise Broken(f"S3: {name} requests {request(w)}, and its admission counts {dict(usage)}")
        if (
            w["metadata"].get("annotations", {}).get(keys.ADMISSION_GATED_BY)
            and self.changed[w["metadata"]["uid"]] < self.now - LAG
        ):
            raise Broken(f"S5: {name} got quota and is gated")
        queue = w["status"]["admission"]["clusterQueue"]
        selector = self._spec(queue).get("namespaceSelector") or {}
        if selector.get("matchLabels", {}).get("team", w["metadata"]["namespace"]) != w["metadata"]["namespace"]:
            raise Broken(f"S5: {name} got quota in {queue}, which does not select its namespace")
        if self._spec(queue).get("queueingStrategy") == "StrictFIFO":
            self._check_order(name, w, queue)

    # --- S6 ---

    def _check_order(self, name: str, w: Tree, queue: str) -> None:
        self.checked["S6"] += 1
        newest = {each["metadata"]["uid"] for _, each in self.admissions}
        for uid, other in self.workloads.items():
            before = self._queue_of(other) == queue and self._could_be_admitted(uid, other)
            if before and order(other) < order(w) and self.changed[uid] < self.now - LAG:
                fits = self._fits(self._objects()[-1], self._total(newest), other)
                self.overtaken.append(Overtaken(self.now + LAG, uid, name, fits))

    def _could_be_admitted(self, uid: str, w: Tree) -> bool:
        """Whether nothing but quota keeps a pending Workload out, and has not for LAG."""
        local = f"LocalQueue/{w['spec'].get('queueName', '')}"
        if not waits(w) or local in self.stopped or self.members.get(local, "") in self.stopped:
            return False
        if condition(w, "Requeued").get("status") == "False" or requeue_state(w).get("requeueAt"):
            return False
        if self.edited > self.now - LAG or self.killed > self.now - LAG:
            return False
        selector = self._spec(self._queue_of(w)).get("namespaceSelector") or {}
        return bool(
            selector.get("matchLabels", {}).get("team", w["metadata"]["namespace"]) == w["metadata"]["namespace"]
        )

    def _check_overtaken(self, found: Overtaken) -> None:
        w = self.workloads.get(found.uid)
        if w is None or not self._could_be_admitted(found.uid, w) or self.changed[found.uid] >= self.now - 2 * LAG:
            return
        if not found.fitted or self._fits(self._objects()[-1], self._total(), w):
            raise Broken(f"S6: {found.by} was admitted before {w['metadata']['name']}, which is before it")

    # --- preemption: S7, S8, S9 ---

    def _preempted(self, name: str, victim: Tree) -> None:
        uid = preemptor_of(victim)
        preemptor = self.workloads.get(uid)
        own = victim["metadata"]["uid"]
        self.evictions[own] += 1
        self.checked["S9"] += 1
        if self.evictions[own] > MOST_EVICTIONS:
            raise Broken(f"S9: {name} was preempted {self.evictions[own]} times without an input")
        if preemptor is None:
            return  # deleted meanwhile
        self._check_policy(name, victim, preemptor)
        claimed = self.claims.setdefault(uid, set())
        if own in claimed:
            raise Broken(f"S7: {name} was preempted twice for one attempt")
        claimed.add(own)
        self.batches.setdefault(uid, set()).add(own)

    def _check_policy(self, name: str, victim: Tree, preemptor: Tree) -> None:
        rule, queue = condition(victim, "Preempted")["reason"], self._queue_of(preemptor)
        theirs = (victim["status"].get("admission") or {}).get("clusterQueue", "")
        self.checked[rule] += 1
        if (theirs == queue) != (rule == "InClusterQueue"):
            raise Broken(f"S7: {name} of {theirs} was preempted for one of {queue} by {rule}")
        if not self._is_reprioritized(victim, preemptor):
            self._check_priorities(name, victim, preemptor)
        self.checked["S7 minimum runtime"] += self._protected_until(victim) > EPOCH
        if self._protected_until(victim) > self.now:
            raise Broken(f"S7: {name} was preempted in its minimum runtime")
        if rule == "InCohortFairSharing" and self.edited < self.now - LAG and not self._claimants():
            self._check_shares(name, victim, preemptor)

    def _is_reprioritized(self, *workloads: Tree) -> bool:
        """Whether the manager may have decided by other priorities of these."""
        return any(self.reprioritized.get(w["metadata"]["uid"], EPOCH) >= self.now - LAG for w in workloads)

    def _check_priorities(self, name: str, victim: Tree, preemptor: Tree) -> None:
        rule, queue = condition(victim, "Preempted")["reason"], self._queue_of(preemptor)
        theirs = (victim["status"].get("admission") or {}).get("clusterQueue", "")
        policy = self._spec(queue).get("preemption") or {}
        self.checked["S8"] += theirs == queue
        if theirs == queue and priority(victim) > priority(preemptor):
            raise Broken(f"S8: {name} was preempted for a lower priority")
        field = "withinClusterQueue" if theirs == queue else "reclaimWithinCohort"
        lower = priority(victim) < priority(preemptor)
        newer = priority(victim) == priority(preemptor) and order(preemptor) < order(victim)
        allowed = {"LowerPriority": lower, "LowerOrNewerEqualPriority": lower or newer, "Any": True}
        if not allowed.get(policy.get(field, "Never"), False):
            raise Broken(f"S7: {name} was preempted, which {field} does not allow")
        if rule == "InCohortReclaimWhileBorrowing":
            most = (policy.get("borrowWithinCohort") or {}).get("maxPriorityThreshold")
            if not lower or (most is not None and priority(victim) > most):
                raise Broken(f"S7: {name} was preempted, which borrowWithinCohort does not allow")

    def _protected_until(self, w: Tree) -> datetime:
        text, admitted = (w["metadata"].get("annotations") or {}).get(keys.MIN_RUNTIME), condition(w, "Admitted")
        if not text or admitted.get("status") != "True":
            return EPOCH
        shortest = min(durations.parse(text), timedelta(seconds=MAX_MIN_RUNTIME))
        return datetime.fromisoformat(admitted["lastTransitionTime"]) + shortest

    def _check_shares(self, name: str, victim: Tree, preemptor: Tree) -> None:
        """S8: the preemptor's share with it is below the victim's, where their branches of the tree meet.

        The admissions of this instant may have been decided after the preemption, and are written before it.
        """
        self.checked["S8 shares"] += 1
        newest = {w["metadata"]["uid"] for at, w in self.admissions if at == self.now}
        if not any(self._is_share_smaller(victim, preemptor, each) for each in (set(), newest)):
            raise Broken(f"S8: {name} was preempted by fair sharing for one with no smaller share")

    def _is_share_smaller(self, victim: Tree, preemptor: Tree, without: set[str]) -> bool:
        """Whether the preemptor's share is smaller, not counting these Workloads."""
        objects = self._objects()[-1]
        before = Recount(objects, self._total(without))
        mine, theirs = before.branches(self._queue_of(preemptor), victim["status"]["admission"]["clusterQueue"])
        flavors = {fr.flavor for fr in self.usages[victim["metadata"]["uid"]][1]}
        victims = self.claims.get(preemptor["metadata"]["uid"], set()) | {victim["metadata"]["uid"]} | without

        def share(flavor: str) -> Fraction | float:
            more = self._queue_of(preemptor), Counter({FlavorResource(flavor, CPU): request(preemptor)})
            return Recount(objects, self._total(victims, more)).share(mine, CPU)

        return before.share(theirs, CPU) > min(map(share, flavors))

    def _check_batches(self) -> None:
        """S7: with its victims gone a preemptor fits, and without each of the last ones it would not.

        What was preempted for it earlier, and still stops, was needed then.
        """
        done, self.batches, at = self.batches, {}, self.now
        for uid, last in done.items():
            w = self.workloads.get(uid)
            quiet = max(self.edited, self.killed) < at - LAG
            if w is None or not waits(w) or not quiet or not self._could_be_admitted(uid, w):
                continue
            if self._is_overtaken(w):
                continue
            self.checked["S7"] += 1
            objects, evicting = self._objects()[-1], self._evicting()
            victims = self.claims.get(uid, set()) & evicting
            if not self._fits(objects, self._total(evicting), w):
                raise Broken(f"S7: {w['metadata']['name']} does not fit although its victims are gone")
            others = [each for each in self._claimants() if each != uid]
            flavors = {fr.flavor for v in victims for fr in self.usages[v][1]}
            # Those of its own ClusterQueue may be needed so that it need not borrow, and may reclaim from others.
            is_simple = len(flavors) == len({self.usages[v][0] for v in victims}) == 1
            if others or not is_simple or self.released == at or self.killed > at - timedelta(seconds=60):
                continue
            claimed = self._counted_on(victims, evicting, w)
            for v in victims & last:
                self.checked["S7 minimal"] += 1
                if self._fits(objects, self._total(claimed - {v}), w, *flavors):
                    spared = self.workloads[v]["metadata"]["name"]
                    raise Broken(f"S7: {w['metadata']['name']} fits without the preemption of {spared}")

    def _counted_on(self, victims: set[str], evicting: set[str], w: Tree) -> set[str]:
        """The victims of a preemptor, and what else of its ClusterQueue is being stopped that it could have chosen.

        What others release that are deactivated, have timed out, or were preempted for one that is held since, is for
        whom it fits then.
        """
        return victims | {each for each in evicting if self._may_preempt(w, self.workloads[each])}

    def _possibly_counted_on(self, victims: set[str], evicting: set[str], w: Tree) -> set[str]:
        """Its victims, and what else is being stopped that it could have chosen: from others, if it does not borrow."""
        counted = self._counted_on(victims, evicting, w)
        return counted | {each for each in evicting if self._may_reclaim(w, self.workloads[each])}

    def _may_preempt(self, w: Tree, stopping: Tree) -> bool:
        queue = self._queue_of(w)
        policy = (self._spec(queue).get("preemption") or {}).get("withinClusterQueue", "Never")
        own = stopping["status"]["admission"]["clusterQueue"] == queue
        return own and policy != "Never" and priority(stopping) < priority(w)

    def _may_reclaim(self, w: Tree, stopping: Tree) -> bool:
        policies = self._spec(self._queue_of(w)).get("preemption") or {}
        allowed = {"Any": True, "LowerPriority": priority(stopping) < priority(w)}
        own = stopping["status"]["admission"]["clusterQueue"] == self._queue_of(w)
        return not own and allowed.get(policies.get("reclaimWithinCohort"), False)

    def _may_take(self, other: Tree, w: Tree) -> bool:
        """Whether what is released for `w` may go to another one: of a higher priority, or before it in its queue."""
        first = self._queue_of(other) == self._queue_of(w) and order(other) < order(w)
        higher = priority(other) > priority(w)
        return first or higher or self._is_reprioritized(other, w) or self._takes_own(other, w)

    def _is_overtaken(self, w: Tree) -> bool:
        """Whether someone got quota in this instant that may take what is released for `w`."""
        return any(at >= self.now and self._may_take(other, w) for at, other in self.admissions)

    def _takes_own(self, other: Tree, w: Tree) -> bool:
        """Whether a Workload stays within the nominal quota of its ClusterQueue, which could reclaim that from `w`."""
        queue = self._queue_of(other)
        reclaims = (self._spec(queue).get("preemption") or {}).get("reclaimWithinCohort") == "Any"
        return reclaims and other["metadata"]["uid"] in self.owners and queue != self._queue_of(w)

    def _stays_within_own(self, uid: str) -> bool:
        """Whether the usage of a Workload's ClusterQueue is within its nominal quota, where the Workload has a part."""
        queue, usage = self.usages[uid]
        recount, node = Recount(self._objects()[-1], self._total()), ("cq", queue)
        return all(recount.used(node, fr) <= recount.quota(node, fr)[0] for fr in usage if usage[fr])

    def _claimants(self) -> list[str]:
        """Preemptors that wait for victims, their own or those of others, as their status says."""
        reserved = ((uid, condition(w, "QuotaReserved")) for uid, w in self.workloads.items() if waits(w))
        return [uid for uid, each in reserved if each.get("reason") == "WaitingForPreemptedWorkloads"]

    def _claimed(self, name: str, new: Tree) -> None:
        """S7: who gets quota leaves what is kept for a preemptor, unless its priority is higher: when its own victims
        have stopped, and when all have that are being stopped.
        """
        uid = new["metadata"]["uid"]
        self.claims.pop(uid, None)
        for victims in self.claims.values():
            victims.discard(uid)
        evicting = self._evicting()
        for each in self._claimants():
            waiting = self.workloads[each]
            alive = self.claims.get(each, set()) & evicting
            if not alive or not self._is_first(each, waiting) or self._is_overtaken(waiting):
                continue
            if max(self.changed[each], self.edited, self.killed) > self.now - LAG:
                continue
            self.checked["S7 kept"] += 1
            objects = self._objects()[-1]
            if any(
                self._fits(objects, self._total(gone | {uid}), waiting)
                and not self._fits(objects, self._total(gone), waiting)
                for gone in (self._possibly_counted_on(alive, evicting, waiting), evicting)
            ):
                raise Broken(f"S7: {name} took the quota that was released for {waiting['metadata']['name']}")

    def _is_first(self, uid: str, w: Tree) -> bool:
        """Whether a preemptor can be admitted, and in a StrictFIFO queue nobody is before it."""
        queue = self._queue_of(w)
        if not self._could_be_admitted(uid, w) or self._spec(queue).get("queueingStrategy") != "StrictFIFO":
            return self._could_be_admitted(uid, w)
        others = (o for u, o in self.workloads.items() if u != uid and waits(o) and self._queue_of(o) == queue)
        return all(order(w) < order(other) for other in others)


QUEUES, COHORTS, FLAVORS = (f"{each}.kueue.x-k8s.io" for each in ("clusterqueues", "cohorts", "resourceflavors"))
SPECS = (QUEUES, COHORTS, FLAVORS)


def _flavors_named(objects: ClusterObjects) -> set[str]:
    """By ClusterQueues."""
    return {f.name for q in objects.cluster_queues for g in q.spec.resource_groups for f in g.flavors}


def _condition_types(tree: Tree) -> Iterator[str]:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return (c["type"] for c in conditions)
