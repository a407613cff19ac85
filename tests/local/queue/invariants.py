"""Invariants that hold at every write of the API's history, and some at its end, by number.

Everything is read from the objects as the store had them, in the order of their writes. The state of a controller's
memory does not count, except in `at_rest`. Several ClusterQueues are judged by simulation/cohort_invariants.py and
simulation/cohort_samples.py, which check S3, S6, S13, S24, S25 and S27 as well.

    S1   reserved quota stays within the nominal quota
    S2   the quota cache holds what the store says
    S3   what an admission counts is the request, by value
    S4   each Workload without an end is in exactly one place: pending, in flight, backing off, held, reserved
    S5   no quota for a Workload that backs off, is inactive, finished or deleted, or whose queue is stopped
    S6   a StrictFIFO ClusterQueue admits nobody before an earlier one that could be admitted
    S7   the quota that victims release goes to their preemptor, unless a higher priority takes it
    S8   no Workload is preempted for one of lower priority in its ClusterQueue
    S9   a Workload is not preempted again and again
    S10  a Job is unsuspended, and gets pods, only while its Workload is admitted
    S11  a stopped Job has its user's template again; a partially admitted one runs with all pods that fit
    S12  quota is given back when no pod of the Job uses a node any more
    S13  a resumed Job has the startTime of its resume
    S21  requeueState.count grows by one per PodsReady eviction and stays within the limit
    S22  one deactivation per announcement; a reactivation is not undone and starts a new budget
    S23  a backoff is as long as the settings say
    S24  what is in use is not deleted                  S25  what other programs write stays
    S26  the reason of a pending Workload is that of the scheduler, within pendingReasonPeriod
    S27  nothing in a namespace names an object of another
    L1   a Workload that can be admitted is admitted    L2  an admitted Job runs    L3  nothing is left of what ended
    L6   a pending Workload has a reason                L8  nothing is written at rest
    L10  what was taken out of the queue can come back
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from queue_manager.queueing.requeue_backoff import JITTER
from queue_manager.scheduling.cycle import run_cycle
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.simulation.world import World
from tests.local.queue.facts import template_facts

Tree = dict[str, Any]


BY_SCHEDULER = ("WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor", "WaitingForPreemptedWorkloads")
MAX_PREEMPTIONS = 2  # of one Workload, in a scenario with few arrivals
IN_FLIGHT = 12  # writes that may be on their way when something changes


class Broken(AssertionError):
    """An invariant, by its number, and what broke it."""


@dataclass
class History:
    """Checks each write against all writes before it.

    Writes of users are not judged: `by_user` has their resourceVersions, and what they changed in the pod template of a
    Job (a merge patch), which belongs to its original template from then on.
    """

    quota: int  # cpu of the one ClusterQueue
    base: int = 1  # backoff, seconds
    maximum: int = 3600
    limit: int | None = None
    in_flight: int = IN_FLIGHT
    by_user: Mapping[str, Tree] | None = None  # None: not recorded
    inactive: dict[str, int] = field(default_factory=dict)  # by uid: since which line
    reactivated: set[str] = field(default_factory=set)  # uids: and their budget is not new yet
    lines: int = 0
    suspended: dict[str, int] = field(default_factory=dict)  # by uid of the Job: since which line
    unsuspended: set[str] = field(default_factory=set)  # uids of Jobs that their users started
    stopped: set[str] = field(default_factory=set)  # queues
    members: dict[str, str] = field(default_factory=dict)  # LocalQueue -> ClusterQueue
    claims: dict[str, set[str]] = field(default_factory=dict)  # by uid of a preemptor that waits: uids of its victims
    jobs: dict[str, Tree] = field(default_factory=dict)
    workloads: dict[str, Tree] = field(default_factory=dict)
    pods: dict[str, Tree] = field(default_factory=dict)
    originals: dict[str, Tree] = field(default_factory=dict)
    checked: Counter[str] = field(default_factory=Counter)  # how often each invariant was put to the test

    def check(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.lines += 1
            what, resource, data = line.split(b" ", 2)
            self._write(what, resource, msgspec.json.decode(data))

    def _write(self, what: bytes, resource: bytes, tree: Tree) -> None:
        match resource:
            case b"jobs.batch":
                self._job(what, tree)
            case b"workloads.kueue.x-k8s.io":
                self._workload(what, tree)
            case b"pods":
                self._pod(what, tree)
            case b"clusterqueues.kueue.x-k8s.io" | b"localqueues.kueue.x-k8s.io":
                self._queue(tree)

    def _users(self, tree: Tree) -> bool:
        return self.by_user is not None and tree["metadata"]["resourceVersion"] in self.by_user

    def _queue(self, tree: Tree) -> None:
        name = f"{tree['kind']}/{tree['metadata']['name']}"
        stops = tree["spec"].get("stopPolicy", "None") != "None" or "deletionTimestamp" in tree["metadata"]
        (self.stopped.add if stops else self.stopped.discard)(name)
        if tree["kind"] == "LocalQueue":
            self.members[name] = f"ClusterQueue/{tree['spec']['clusterQueue']}"

    def _is_stopped(self, queue: str) -> bool:
        """Whether the manager has observed that this queue is stopped."""
        return queue in self.stopped

    # --- Jobs and pods ---

    def _job(self, what: bytes, new: Tree) -> None:
        uid = new["metadata"]["uid"]
        old = self.jobs.get(uid)
        if what == b"DELETED":
            self.jobs.pop(uid, None)
            self.suspended.setdefault(uid, self.lines)
            return
        self.jobs[uid] = new
        self.originals.setdefault(uid, new["spec"]["template"])
        if self._users(new) and self.by_user is not None:
            self.originals[uid] = merged(self.originals[uid], self.by_user[new["metadata"]["resourceVersion"]])
        started = old is not None and old["spec"].get("suspend") and not new["spec"].get("suspend")
        workload = self._workload_of(uid)
        if not new["spec"].get("suspend") and self._users(new):
            self.unsuspended.add(uid)
        elif new["spec"].get("suspend"):
            self.unsuspended.discard(uid)
            self.suspended.setdefault(uid, self.lines)
        if not new["spec"].get("suspend"):
            self.suspended.pop(uid, None)
        self.checked["S10"] += bool(started)
        if started and not self._users(new) and not (workload is not None and is_true(workload, "Admitted")):
            raise Broken(f"S10: {new['metadata']['name']} was started and is not admitted")

    def _pod(self, what: bytes, pod: Tree) -> None:
        uid = pod["metadata"]["uid"]
        if what == b"DELETED":
            self.pods.pop(uid, None)
            return
        if uid not in self.pods:
            job = self.jobs.get(owner(pod))
            stopped = self.suspended.get(owner(pod), -self.in_flight if job is None else self.lines)
            if self.lines - stopped > self.in_flight:
                raise Broken(f"S10: pod {pod['metadata']['name']} was created for a Job that is suspended or gone")
        self.pods[uid] = pod

    def _workload_of(self, job_uid: str) -> Tree | None:
        return next((w for w in self.workloads.values() if owner(w) == job_uid), None)

    # --- Workloads ---

    def _workload(self, what: bytes, new: Tree) -> None:
        uid = new["metadata"]["uid"]
        old = self.workloads.get(uid, {"metadata": new["metadata"], "spec": {}, "status": {}})
        if what == b"DELETED":
            self.workloads.pop(uid, None)
            return
        self.workloads[uid] = new
        name = new["metadata"]["name"]
        if is_true(new, "Preempted") and not is_true(old, "Preempted"):
            self._preempted(name, new)
        if is_true(new, "QuotaReserved") and not is_true(old, "QuotaReserved"):
            self._reserved(name, new)
            self._claimed(name, new)
        if is_true(old, "QuotaReserved") and not is_true(new, "QuotaReserved"):
            self._released(name, new)
        if new["spec"].get("active") is False:
            self.inactive.setdefault(uid, self.lines)
        elif self.lines - self.inactive.pop(uid, self.lines) > self.in_flight:  # else too short to be observed
            self._reactivated(name, new)
        if uid in self.reactivated:
            self._renewed(name, old, new)
        self._counted(name, old, new)
        self._within_quota()

    def _reactivated(self, name: str, w: Tree) -> None:
        self.checked["S22"] += 1
        if is_true(w, "DeactivationTarget"):
            self.reactivated.add(w["metadata"]["uid"])  # sooner than anybody could tidy up
        elif requeue_state(w):
            raise Broken(f"S22: {name} was reactivated and keeps {requeue_state(w)}")
        if self.by_user is not None and not self._users(w):
            raise Broken(f"S22: {name} was reactivated and no user did it")

    def _renewed(self, name: str, old: Tree, w: Tree) -> None:
        if old["spec"].get("active") and w["spec"].get("active") is False and not self._users(w):
            raise Broken(f"S22: the reactivation of {name} was undone")
        if not is_true(w, "DeactivationTarget"):
            self.reactivated.discard(w["metadata"]["uid"])
            if requeue_state(w):
                raise Broken(f"S22: {name} was reactivated and keeps {requeue_state(w)}")

    def _reserved(self, name: str, w: Tree) -> None:
        self.checked["S5"] += 1
        if is_true(w, "DeactivationTarget"):
            raise Broken(f"S21: {name} got quota and is about to be deactivated")
        local = f"LocalQueue/{w['spec'].get('queueName', '')}"
        for queue in (local, self.members.get(local, "")):
            if self._is_stopped(queue):
                raise Broken(f"S5: {name} got quota and {queue} is stopped")
        written = datetime.fromisoformat(condition(w, "QuotaReserved")["lastTransitionTime"])
        requeued, at = condition(w, "Requeued"), requeue_state(w).get("requeueAt")
        if w["spec"].get("active") is False or is_true(w, "Finished") or "deletionTimestamp" in w["metadata"]:
            raise Broken(f"S5: {name} got quota and is inactive, finished or deleted")
        if requeued.get("status") == "False" or (at and datetime.fromisoformat(at) > written):
            raise Broken(f"S5: {name} got quota before its backoff was over")

    def _preempted(self, name: str, victim: Tree) -> None:
        """S7 and S8: for a Workload that waits, at most once for each of its attempts, and not for a lower one."""
        uid = preemptor_of(victim)
        preemptor, condition_of = self.workloads.get(uid), condition(victim, "Preempted")
        if preemptor is None:
            return  # deleted meanwhile
        same_queue = condition_of["reason"] == "InClusterQueue"
        if same_queue and priority(victim) > priority(preemptor):
            raise Broken(f"S8: {name} was preempted for a lower priority")
        if victim["metadata"]["uid"] in self.claims.setdefault(uid, set()):
            raise Broken(f"S7: {name} was preempted twice for one attempt")
        self.claims[uid].add(victim["metadata"]["uid"])
        times = sum(
            e["count"]
            for e in (victim["status"].get("schedulingStats") or {}).get("evictions", ())
            if e["reason"] == "Preempted"
        )
        if times > MAX_PREEMPTIONS:
            raise Broken(f"S9: {name} was preempted {times} times")

    def _claimed(self, name: str, new: Tree) -> None:
        """S7: the quota that victims have released is not given to another Workload of no higher priority."""
        self.claims.pop(new["metadata"]["uid"], None)
        used = sum(cpus_reserved(w) for w in self.workloads.values())
        for uid, victims in self.claims.items():
            waiting = self.workloads.get(uid)
            if waiting is None or condition(waiting, "QuotaReserved").get("reason") != "WaitingForPreemptedWorkloads":
                continue
            held = sum(cpus_reserved(self.workloads[v]) for v in victims if v in self.workloads)
            if priority(new) <= priority(waiting) and used - held + cpus_wanted(waiting) > self.quota:
                raise Broken(f"S7: {name} took the quota that was released for {waiting['metadata']['name']}")

    def _released(self, name: str, w: Tree) -> None:
        job = self.jobs.get(owner(w))
        if is_true(w, "Finished") or job is None or "deletionTimestamp" in job["metadata"]:
            return
        if owner(w) in self.unsuspended:
            return
        self.checked.update(("S11", "S12"))
        alive = [p for p in self.pods.values() if owner(p) == owner(w) and phase(p) not in ("Succeeded", "Failed")]
        if alive:
            raise Broken(f"S12: {name} gave its quota back while {len(alive)} of its pods use nodes")
        if not job["spec"].get("suspend"):
            raise Broken(f"L3: {name} has no quota and its Job is not suspended")
        if template_facts(job["spec"]["template"]) != template_facts(self.originals[owner(w)]):
            raise Broken(f"S11: the template of {name} is not restored")
        wanted = w["spec"]["podSets"][0]["count"]
        if "minCount" in w["spec"]["podSets"][0] and job["spec"].get("parallelism", 1) < wanted:
            raise Broken(f"S11: {name} runs fewer pods than its user wanted")

    def _counted(self, name: str, old: Tree, new: Tree) -> None:
        before, after = requeue_state(old).get("count", 0), requeue_state(new).get("count", 0)
        evicted, was = condition(new, "Evicted"), condition(old, "Evicted")
        fresh = evicted.get("status") == "True" and (was.get("status") != "True")
        timed_out = fresh and evicted["reason"] == "PodsReadyTimeout"
        if timed_out and after != before + 1:
            raise Broken(f"S21: {name} was evicted and its count went from {before} to {after}")
        if not timed_out and after > before:
            raise Broken(f"S21: {name} was not evicted and its count went from {before} to {after}")
        if self.limit is not None and after > self.limit:
            raise Broken(f"S21: {name} is retried {after} times and the limit is {self.limit}")
        if timed_out:
            self.checked.update(("S21", "S23"))
            wait = datetime.fromisoformat(requeue_state(new)["requeueAt"]) - datetime.fromisoformat(
                evicted["lastTransitionTime"]
            )
            least = self.base if after == 1 else min(self.base * 2 ** (after - 1), self.maximum)
            if not timedelta(seconds=least) <= wait <= timedelta(seconds=least * (1 + JITTER) + 1):
                raise Broken(f"S23: wait {after} of {name} is {wait}")

    def _within_quota(self) -> None:
        used = sum(cpus_reserved(w) for w in self.workloads.values())
        if used > self.quota:
            raise Broken(f"S1: {used} of {self.quota} cpu are reserved")


def at_rest(world: World) -> None:
    """S2, S4 and L6, when nothing happens any more."""
    state, queues = world.queue.quota_cache.state, world.queue.quota_cache.queues
    for stored in world.store.scan("workloads.kueue.x-k8s.io"):
        w = msgspec.json.decode(stored.data)
        meta = w["metadata"]
        key = next((k for k in queues._queue_of if k == (meta["namespace"], meta["name"])), None)
        places = {
            "in line": key is not None,
            "reserved": meta["uid"] in state.holdings,
            "finished": is_true(w, "Finished"),
            "deactivated": w["spec"].get("active") is False and not is_true(w, "Finished"),
        }
        if sum(places.values()) != 1:
            raise Broken(f"S4: {meta['name']} is {[place for place, there in places.items() if there]}")
        if places["reserved"] != (is_true(w, "QuotaReserved") and not is_true(w, "Finished")):
            raise Broken(f"S2: {meta['name']} holds quota in memory or in the store only")
        said = condition(w, "QuotaReserved").get("reason") or (key is not None and queues.bypassed(key))
        if places["in line"] and not said:
            raise Broken(f"L6: {meta['name']} waits without a reason")
    recount_memory(state)
    _recounted(world)
    _reasoned(world)


def recount_memory(state: SchedulerState) -> None:
    """S2: the usage of each ClusterQueue is that of its holdings, and that of each cohort follows from its children."""
    for name, queue in state.queues.items():
        held: Counter[FlavorResource] = Counter()
        for holding in queue.holdings.values():
            held.update(holding.usage)
        if +held != +Counter(queue.node.usage):
            raise Broken(f"S2: ClusterQueue {name} counts {queue.node.usage}, and its Workloads hold {dict(held)}")
    for name, cohort in state.forest.cohorts.items():
        beyond: Counter[FlavorResource] = Counter()
        for child in cohort.children:
            beyond.update({fr: max(0, used - child.local_quota(fr)) for fr, used in child.usage.items()})
        if +beyond != +Counter(cohort.usage):
            raise Broken(f"S2: cohort {name} counts {cohort.usage}, and its children use {dict(beyond)}")


def _recounted(world: World) -> None:
    """S2: the usage of each ClusterQueue in memory is what its Workloads in the store hold."""
    held: dict[str, int] = {}
    for stored in world.store.scan("workloads.kueue.x-k8s.io"):
        w = msgspec.json.decode(stored.data)
        queue = ((w.get("status") or {}).get("admission") or {}).get("clusterQueue", "")
        held[queue] = held.get(queue, 0) + cpus_reserved(w)
    for name, queue in world.queue.quota_cache.state.queues.items():
        used = sum(amount for fr, amount in queue.node.usage.items() if fr.resource == "cpu")
        if used != 1000 * held.get(name, 0):
            raise Broken(f"S2: {name} counts {used} m cpu, and its Workloads hold {held.get(name, 0)}")


def _reasoned(world: World) -> None:
    """S26: judged anew, a Workload that the scheduler refused is refused for the reason that is published."""
    cache, now = world.queue.quota_cache, world.clock.now()
    for name, pending in cache.queues.cluster_queues.items():
        for info in pending.in_order() if cache.is_active(name) else ():
            w = msgspec.json.decode(world.store.get("workloads.kueue.x-k8s.io", *info.key).data)
            said = condition(w, "QuotaReserved").get("reason")
            if said not in BY_SCHEDULER or info.in_backoff(now) or cache.queues.is_stopped(info.queue):
                continue
            (outcome,) = run_cycle(cache.state, [(name, info)], now)
            reason = getattr(outcome, "reason", "admitted")
            if reason != said:
                raise Broken(f"S26: {info.key.name} says {said}, and it is {reason}")


# --- reading -----------------------------------------------------------------------------------------------


def condition(tree: Tree, kind: str) -> Tree:
    found = (c for c in (tree.get("status") or {}).get("conditions") or () if c["type"] == kind)
    return next(found, {})


def is_true(tree: Tree, kind: str) -> bool:
    return bool(condition(tree, kind).get("status") == "True")


def priority(workload: Tree) -> int:
    return int(workload["spec"].get("priority") or 0)


def cpus_reserved(workload: Tree) -> int:
    if not is_true(workload, "QuotaReserved") or is_true(workload, "Finished"):
        return 0
    assigned = (workload["status"].get("admission") or {}).get("podSetAssignments", ())
    return sum(int(row["resourceUsage"].get("cpu", 0)) for row in assigned)


def cpus_wanted(workload: Tree) -> int:
    rows = (workload["status"].get("resourceRequests") or ()) if workload.get("status") else ()
    return sum(int(row["resources"].get("cpu", 0)) for row in rows)


def preemptor_of(victim: Tree) -> str:
    """The uid of the Workload for which this one was preempted, from the message."""
    found = re.search(r"workload \(UID: ([^,]+),", condition(victim, "Preempted").get("message", ""))
    return found.group(1) if found else ""


def merged(tree: Any, patch: Any) -> Any:
    """A JSON merge patch applied (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    base = tree if isinstance(tree, dict) else {}
    result = {key: value for key, value in base.items() if key not in patch}
    return result | {key: merged(base.get(key), value) for key, value in patch.items() if value is not None}


def requeue_state(tree: Tree) -> Tree:
    return (tree.get("status") or {}).get("requeueState") or {}


def phase(pod: Tree) -> str:
    return str((pod.get("status") or {}).get("phase"))


def owner(tree: Tree) -> str:
    return str(next((o["uid"] for o in tree["metadata"].get("ownerReferences") or () if o.get("controller")), ""))
