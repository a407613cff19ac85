"""A small cluster in memory: an API store with the rules that matter to the Job controller, a cache that lags behind
other writers, a node, and a controller that can stop before or after any of its writes.

After every write the ledger checks the invariants on the store, not on the cache.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from job_controller.api_rules.status_validation import validate_status_update
from job_controller.controller import JobController
from job_controller.labels import CONTROLLER_UID
from job_controller.model import Job, Key, Object, Pod
from job_controller.options import JobControllerOptions
from job_controller.orphan_finalizers import Orphans, OrphanSweeper
from job_controller.switched_off_features import ALL_ON, Switches
from tests.unit.job_controller.build import T0, wire
from tests.unit.job_controller.ledger import Ledger, Tree, is_active

JOB = Key("ns", "j")
RUNNER = asyncio.Runner()  # one loop for all examples: making one costs more than a sync


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Died(BaseException):
    """The controller process ends here."""


class FirstComeQueue:
    """Keys with the times when they are due; keys added during a sync follow it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.due: dict[Any, datetime] = {}

    def add(self, key: Any, *, new: bool = False, urgent: bool = False) -> None:
        self.due[key] = min(self.due.get(key, self._world.time), self._world.time)

    def add_after(self, key: Any, seconds: float) -> None:
        when = self._world.time + timedelta(seconds=max(0.0, seconds))
        self.due[key] = min(self.due.get(key, when), when)

    def pop(self) -> Any | None:
        ready = [key for key, when in self.due.items() if when <= self._world.time]
        if not ready:
            return None
        del self.due[ready[0]]
        return ready[0]


class World:
    """Implements the ports Cluster, Clock, Events and Metrics."""

    def __init__(self, spec: Tree) -> None:
        self.time = T0
        self.strict = True  # a rejected status fails the test
        self.revision = 1
        self.names = 0
        self.store: dict[Key, Tree] = {}  # pods
        self.job_tree: Tree | None = None
        self.seen: dict[Key, Tree] = {}  # the cache of pods
        self.seen_job: Tree | None = None
        self.deaths: list[tuple[int, Literal["before", "after"]]] = []  # writes until death
        self.refusals: set[int] = set()  # numbers of writes that the API server fails with 500
        self.writes = 0
        self.events: list[tuple[str, str]] = []
        self.ledger = Ledger()
        self.switches = ALL_ON
        self._create_job(spec)
        self._new_controller()

    # --- ports: reads ---

    def now(self) -> datetime:
        return self.time

    def job(self, key: Key) -> Job | None:
        return _job(self.seen_job) if key == JOB else None

    def jobs(self, namespace: str) -> Iterable[Job]:
        job = self.job(JOB)
        return [job] if job is not None else []

    def pod(self, key: Key) -> Pod | None:
        tree = self.seen.get(key)
        return _pod(tree) if tree is not None else None

    def pods_of(self, job_uid: str) -> Iterable[Pod]:
        return [_pod(tree) for tree in self.seen.values() if _owner(tree) == job_uid]

    def orphans(self, namespace: str) -> Iterable[Pod]:
        return [_pod(tree) for tree in self.seen.values() if not _owner(tree)]

    async def read_job(self, key: Key) -> Job | None:
        self.deliver_job()
        return _job(self.job_tree)

    # --- ports: writes ---

    async def create_pod(self, namespace: str, manifest: Mapping[str, Any]) -> Pod:
        self._begin()
        tree = copy.deepcopy(dict(manifest))
        self.names += 1
        meta = tree["metadata"]
        meta["name"] = meta["uid"] = f"{meta['generateName']}{self.names:05}"
        meta["creationTimestamp"] = wire(self.time.replace(microsecond=0))
        tree["status"] = {"phase": "Pending"}
        self.ledger.creating(self, tree)
        self._store_pod(tree, own=True)
        self._end()
        return _pod(tree)

    async def patch_pod(self, key: Key, patch: Mapping[str, Any]) -> Pod:
        self._begin()
        tree = copy.deepcopy(self._existing(key, patch["metadata"]))
        meta = tree["metadata"]
        for name, value in patch["metadata"].items():
            match name:
                case "$deleteFromPrimitiveList/finalizers":
                    meta["finalizers"] = [f for f in meta.get("finalizers", []) if f not in value]
                case "finalizers":
                    meta["finalizers"] = list(dict.fromkeys([*meta.get("finalizers", []), *value]))
                case "annotations":
                    merged = meta.get("annotations", {}) | value
                    meta["annotations"] = {k: v for k, v in merged.items() if v is not None}
                case "ownerReferences":
                    gone = {owner["uid"] for owner in value}
                    kept = [owner for owner in meta.get("ownerReferences", []) if owner["uid"] not in gone]
                    meta["ownerReferences"] = kept + [owner for owner in value if "$patch" not in owner]
                case "uid" | "resourceVersion":
                    pass
                case _:
                    raise AssertionError(name)
        self._store_pod(tree, own=True)
        self._end()
        return _pod(tree)

    async def delete_pod(self, key: Key, uid: str, resource_version: str = "") -> None:
        self._begin()
        wanted = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        tree = self._existing(key, wanted)
        if is_active(tree):
            self.ledger.dropped.add(uid)
        self.mark_deleted(tree, own=True)
        self._end()

    async def update_job_status(self, job: Job, status: Mapping[str, Any]) -> Job:
        self._begin()
        old = self.job_tree
        if old is None or old["metadata"]["uid"] != job.metadata.uid:
            raise Refused(404, "no such job")
        if old["metadata"]["resourceVersion"] != job.metadata.resource_version:
            raise Refused(409, "the object has been modified")
        new = copy.deepcopy(old)
        new["status"] = merge(old.get("status", {}), status)
        assert new["status"] != old.get("status", {}), "a write that changes nothing"
        errors = validate_status_update(new, old)
        assert not errors, (errors, old, new)
        self.ledger.status_written(self, old, new)
        self._store_job(new, own=True)
        self._end()
        return _job_of(new)

    async def delete_job(self, key: Key, uid: str) -> None:
        raise AssertionError("nothing here deletes Jobs")

    def event(self, regarding: Object, type: str, reason: str, message: str) -> None:
        self.events.append((reason, message))
        assert reason != "StatusUpdateRefused" or not self.strict, message

    def inc(self, name: str, labels: Mapping[str, str], by: float = 1) -> None: ...

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None: ...

    # --- faults ---

    def _begin(self) -> None:
        self.writes += 1
        if self.deaths and self.deaths[0] == (self.writes, "before"):
            raise Died
        if self.writes in self.refusals:
            raise Refused(500, "internal error")

    def _end(self) -> None:
        if self.deaths and self.deaths[0] == (self.writes, "after"):
            raise Died

    def restart(self) -> None:
        """A new process: complete caches, no memory."""
        if self.deaths:
            self.deaths.pop(0)
        self.seen = copy.deepcopy(self.store)
        self.seen_job = copy.deepcopy(self.job_tree)
        self._new_controller()

    def switch(self, **switches: bool) -> None:
        """Restart with another configuration."""
        self.switches = Switches(**switches)
        self.ledger.switched = True
        self.restart()

    def _new_controller(self) -> None:
        options = JobControllerOptions(
            sync_batch_period=0.0, writes_in_flight=1, max_uncounted=4, max_creates=5, switches=self.switches
        )
        self.queue, self.orphan_queue = FirstComeQueue(self), FirstComeQueue(self)
        self.controller = JobController(self, self.queue, self, self, self, options)
        self.sweeper = OrphanSweeper(self, self.orphan_queue, options)
        self._notify_of_job(None, self.seen_job)
        for tree in self.seen.values():
            self._notify_of_pod(None, tree)

    def work(self, rounds: int = 50) -> None:
        """Sync until nothing is due. A process that dies is restarted."""
        for _ in range(rounds):
            if (key := self.queue.pop()) is not None:
                self._attempt(self.controller.sync(key), self.queue, key)
            elif isinstance(key := self.orphan_queue.pop(), Orphans):
                self._attempt(self.sweeper.sync(key), self.orphan_queue, key)
            else:
                return
        raise AssertionError("the controller does not come to rest")

    def _attempt(self, sync: Any, queue: FirstComeQueue, key: Any) -> None:
        try:
            RUNNER.run(sync)
        except Refused:
            queue.add_after(key, 1)
        except BaseException as error:
            if not _is_death(error):
                raise
            self.restart()

    # --- the store ---

    def _existing(self, key: Key, wanted: Mapping[str, Any]) -> Tree:
        tree = self.store.get(key)
        if tree is None:
            self.seen.pop(key, None)
            raise Refused(404, "no such pod")
        for name in ("uid", "resourceVersion"):
            if name in wanted and wanted[name] != tree["metadata"][name]:
                raise Refused(409, "the object has been modified")
        return tree

    def _store_pod(self, tree: Tree, *, own: bool) -> None:
        meta = tree["metadata"]
        key = Key(meta["namespace"], meta["name"])
        self.revision += 1
        meta["resourceVersion"] = str(self.revision)
        if "deletionTimestamp" in meta and not meta.get("finalizers") and self._ended(tree):
            self.store.pop(key, None)
        else:
            self.store[key] = tree
        self.ledger.pod_stored(self, tree)
        if own:
            self.deliver_pod(key)

    @staticmethod
    def _ended(tree: Tree) -> bool:
        return not tree["spec"].get("nodeName") or tree["status"]["phase"] in ("Succeeded", "Failed")

    def _store_job(self, tree: Tree, *, own: bool) -> None:
        self.revision += 1
        tree["metadata"]["resourceVersion"] = str(self.revision)
        self.job_tree = tree
        if own:
            self.deliver_job()

    def deliver_pod(self, key: Key) -> None:
        """The cache receives the latest state of this pod."""
        old, new = self.seen.get(key), self.store.get(key)
        if new is None:
            self.seen.pop(key, None)
        else:
            self.seen[key] = copy.deepcopy(new)
        if old != new:
            self._notify_of_pod(old, new)

    def deliver_job(self) -> None:
        old, self.seen_job = self.seen_job, copy.deepcopy(self.job_tree)
        if old != self.seen_job:
            self._notify_of_job(old, self.seen_job)

    def deliver_all(self) -> None:
        self.deliver_job()
        for key in list({**self.seen, **self.store}):
            self.deliver_pod(key)

    def _notify_of_pod(self, old: Tree | None, new: Tree | None) -> None:
        before, after = (_pod(tree) if tree is not None else None for tree in (old, new))
        self.controller.pod_changed(before, after)
        self.sweeper.pod_changed(before, after)

    def _notify_of_job(self, old: Tree | None, new: Tree | None) -> None:
        self.controller.job_changed(_job(old), _job(new))
        self.sweeper.job_changed(_job(old), _job(new))

    # --- other people ---

    def _create_job(self, spec: Tree) -> None:
        self.job_tree = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j", "namespace": "ns", "uid": "job-uid", "generation": 1, "resourceVersion": "1"},
            "spec": {
                "selector": {"matchLabels": {CONTROLLER_UID: "job-uid"}},
                "template": {
                    "metadata": {"labels": {CONTROLLER_UID: "job-uid"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
                },
                **spec,
            },
            "status": {},
        }
        self.seen_job = copy.deepcopy(self.job_tree)

    def edit_job(self, **spec: Any) -> None:
        if self.job_tree is None:
            return
        tree = copy.deepcopy(self.job_tree)
        tree["spec"].update(spec)
        tree["metadata"]["generation"] += 1
        self._store_job(tree, own=False)

    def change_pod(self, tree: Tree, **status: Any) -> None:
        new = copy.deepcopy(tree)
        new["status"].update(status)
        self._store_pod(new, own=False)

    def bind(self, tree: Tree) -> None:
        new = copy.deepcopy(tree)
        new["spec"]["nodeName"] = "node"
        self._store_pod(new, own=False)

    def end_pod(self, tree: Tree, exit_code: int) -> None:
        finished = wire(self.time.replace(microsecond=0))
        state = {"terminated": {"exitCode": exit_code, "finishedAt": finished}}
        phase = "Failed" if exit_code else "Succeeded"
        self.change_pod(tree, phase=phase, containerStatuses=[{"name": "c", "state": state}])

    def mark_deleted(self, tree: Tree, *, own: bool = False) -> None:
        new = copy.deepcopy(tree)
        if "deletionTimestamp" not in new["metadata"]:
            grace = 30 if new["spec"].get("nodeName") else 0
            new["metadata"]["deletionTimestamp"] = wire((self.time + timedelta(seconds=grace)).replace(microsecond=0))
            new["metadata"]["deletionGracePeriodSeconds"] = grace
        self._store_pod(new, own=own)

    def pods(self, *phases: str) -> list[Tree]:
        return [tree for tree in self.store.values() if not phases or tree["status"]["phase"] in phases]


def merge(old: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(old) if isinstance(old, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def _owner(tree: Tree) -> str:
    return next((owner["uid"] for owner in tree["metadata"].get("ownerReferences", ()) if owner.get("controller")), "")


def _pod(tree: Tree) -> Pod:
    return msgspec.convert(tree, Pod)


def _job_of(tree: Tree) -> Job:
    return msgspec.convert(tree, Job)


def _job(tree: Tree | None) -> Job | None:
    return _job_of(tree) if tree is not None else None


def _is_death(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_death(inner) for inner in error.exceptions)
    return isinstance(error, Died)
