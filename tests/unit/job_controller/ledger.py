"""What an API store has seen of a Job and its pods, and the invariants that are checked at every write."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from job_controller.index_intervals import parse_intervals
from job_controller.index_set import IndexSet
from job_controller.labels import COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT
from job_controller.model import Key

Tree = dict[str, Any]


class Watched(Protocol):
    """What the ledger reads of the world."""

    time: datetime
    seen_job: Tree | None

    @property
    def store(self) -> Mapping[Key, Tree]: ...


def listed(text: str, completions: int) -> list[int]:
    return list(IndexSet(parse_intervals(text, completions)))


def is_active(tree: Tree) -> bool:
    return "deletionTimestamp" not in tree["metadata"] and tree["status"]["phase"] not in ("Succeeded", "Failed")


def is_terminating(tree: Tree) -> bool:
    return "deletionTimestamp" in tree["metadata"] and tree["status"]["phase"] not in ("Succeeded", "Failed")


def index_of(tree: Tree) -> int:
    return int(tree["metadata"].get("annotations", {}).get(COMPLETION_INDEX, -1))


def count_of(tree: Tree) -> int:
    notes = tree["metadata"].get("annotations", {})
    return int(notes.get(INDEX_FAILURE_COUNT, 0)) + int(notes.get(INDEX_IGNORED_FAILURE_COUNT, 0))


class Ledger:
    """Called with each created pod, pod state and status before the store applies it."""

    def __init__(self) -> None:
        self.recorded: dict[str, str] = {}  # UID -> list it was recorded in
        self.ended: dict[str, str] = {}  # UID -> phase with which a tracked pod ended
        self.dropped: set[str] = set()  # UIDs of pods that the controller deleted while they ran
        self.deleted: set[str] = set()  # UIDs of deleted pods
        self.finish: dict[str, tuple[int, int, datetime]] = {}  # UID -> index, failures with it, finish time
        self.index_of: dict[str, int] = {}
        self.switched = False  # whether backoffLimitPerIndex was ever off: then its limits do not apply

    def creating(self, world: Watched, tree: Tree) -> None:
        """Checks a new pod: the Job is neither suspended nor ending, active (and with podReplacementPolicy Failed
        terminating) pods are below parallelism, the index is valid, unsettled and without an active pod, and the
        backoff is over.
        """
        job = world.seen_job
        assert job is not None
        spec, status = job["spec"], job["status"]
        assert not spec.get("suspend")
        assert not any(c["status"] == "True" for c in status.get("conditions", ()) if c["type"] != "Suspended")
        active = [pod for pod in world.store.values() if is_active(pod)]
        terminating = [pod for pod in world.store.values() if is_terminating(pod)]
        assert len(active) < spec["parallelism"]
        if spec.get("podReplacementPolicy") == "Failed":
            assert len(active) + len(terminating) < spec["parallelism"]
        index = index_of(tree)
        self.index_of[tree["metadata"]["uid"]] = index
        if index < 0:
            return
        assert index < spec["completions"]
        assert index not in [index_of(pod) for pod in active]
        assert index not in listed(status.get("completedIndexes", ""), 99)
        assert self.switched or index not in listed(status.get("failedIndexes", ""), 99)
        failures = count_of(tree)
        if failures:
            before = [when for at, n, when in self.finish.values() if at == index and n == failures]
            assert before, "a replacement without anything that it replaces"
            assert world.time >= min(before) + timedelta(seconds=min(10 * 2 ** (failures - 1), 600))

    def pod_stored(self, world: Watched, tree: Tree) -> None:
        uid, phase = tree["metadata"]["uid"], tree["status"]["phase"]
        failed = phase == "Failed" or is_terminating(tree)
        if failed and index_of(tree) >= 0 and uid not in self.finish:
            self.finish[uid] = (index_of(tree), count_of(tree) + 1, world.time.replace(microsecond=0))
        if "deletionTimestamp" in tree["metadata"] and uid not in self.ended:
            self.deleted.add(uid)
        if phase in ("Succeeded", "Failed") and tree["metadata"].get("finalizers"):
            self.ended.setdefault(uid, phase)

    def status_written(self, world: Watched, old_job: Tree, new_job: Tree) -> None:
        """Checks a status: each pod is recorded once, counted after its release, and never if the controller deleted
        it; completed and failed indexes are disjoint and in range; an index has at most backoffLimitPerIndex + 1
        counted failures; the terminal condition follows an interim one when no pod is active, terminating or tracked.
        """
        old, new, spec = old_job["status"], new_job["status"], new_job["spec"]
        for kind in ("succeeded", "failed"):
            before, after = ((status.get("uncountedTerminatedPods") or {}).get(kind, []) for status in (old, new))
            for uid in after:
                if uid not in before:
                    assert uid not in self.recorded, "recorded twice"
                    self.recorded[uid] = kind
            for uid in before:
                if uid not in after:
                    pod = world.store.get(Key("ns", uid))
                    assert pod is None or not pod["metadata"].get("finalizers"), "counted before its release"
            counted = sum(1 for found in self.recorded.values() if found == kind) - len(after)
            if kind == "failed" or spec.get("completionMode") != "Indexed":
                assert new.get(kind, 0) == counted, "the counter is not the number of pods"
        completed = listed(new.get("completedIndexes", ""), 99)
        failed = listed(new.get("failedIndexes") or "", 99)
        assert not set(completed) & set(failed)
        assert all(index < spec["completions"] for index in (*completed, *failed))
        if spec.get("completionMode") == "Indexed":
            assert new.get("succeeded", 0) == len(completed)
        limit = spec.get("backoffLimitPerIndex")
        ending = any(c["status"] == "True" for c in new.get("conditions", ()) if c["type"] != "Suspended")
        if limit is not None and not ending and not self.switched:
            for index in range(spec["completions"]):
                counted_pods = [
                    u for u, kind in self.recorded.items() if kind == "failed" and self.index_of[u] == index
                ]
                assert len(counted_pods) <= limit + 1
        if not ending:
            assert not any(self.recorded.get(uid) == "failed" for uid in self.dropped), "a dropped pod was counted"
        if any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in new.get("conditions", ())):
            interim = {c["type"] for c in old.get("conditions", ()) if c["status"] == "True"}
            assert interim & {"FailureTarget", "SuccessCriteriaMet"}
            assert not [pod for pod in world.store.values() if is_active(pod) or is_terminating(pod)]
            assert not [pod for pod in world.store.values() if pod["metadata"].get("finalizers")]
