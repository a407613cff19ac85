"""What happened to the Workloads of a load, recorded from the changes that a watch delivers.

The watch delivers every version of an object, so each change is one write, and the difference of two versions shows
its cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean
from time import monotonic

from job_controller.model import Key
from queue_manager.api import condition_types
from queue_manager.api.types import Workload
from tests.benchmarks.queue_shape import Shape

BY_RUNNER = "finished, by the runner"
ADMITTED = "admitted"
EVICTED = "evicted"
FIRST_REASON = "pending reason: the first one"
REASON = "pending reason: another one"
NUMBERS = "pending reason: the same, in other words"
METADATA = ("finalizers", "spec")  # causes that are no write of the status


@dataclass
class Life:
    """Seconds of the monotonic clock; None: not yet."""

    cohort: str
    kind: str
    cpu: int
    created: float
    first_admitted: float | None = None
    last_admitted: float | None = None
    finished: float | None = None
    preemptions: int = 0
    causes: Counter[str] = field(default_factory=Counter)  # of the writes


@dataclass
class Record:
    """Everything since `start`; `changed` is called by the watch."""

    shape: Shape
    time: Callable[[], float] = monotonic
    started: float = 0.0
    lives: dict[Key, Life] = field(default_factory=dict)
    causes: Counter[str] = field(default_factory=Counter)
    preemptions: Counter[str] = field(default_factory=Counter)  # by reason
    pending: int = 0
    most_pending: int = 0
    running: int = 0
    admitted: int = 0
    finished: int = 0
    in_use: Counter[str] = field(default_factory=Counter)  # cpus by cohort
    most_in_use: int = 0
    last_change: float = 0.0
    _pending_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.last_change = self.time()
        self._cohorts = {queue.name: queue.cohort for queue in self.shape.queues}
        self._kinds = {kind.name: kind for kind in self.shape.classes}

    def changed(self, old: Workload | None, new: Workload | None) -> None:
        """Take a version of a Workload. Nobody deletes any."""
        if new is None:
            return
        now = self.time()
        self._pending_seconds += self.pending * (now - self.last_change)
        self.last_change = now
        if old is None:
            self._add(new, now)
        else:
            life, why = self.lives[new.metadata.key], cause(old, new)
            self.causes[why] += 1
            life.causes[why] += 1
            self._change(life, old, new, now)
        self.most_pending = max(self.most_pending, self.pending)

    def _add(self, new: Workload, now: float) -> None:
        kind = self._kinds[new.metadata.name.partition("-")[0]]
        self.lives[new.metadata.key] = Life(self._cohorts[new.metadata.namespace], kind.name, kind.cpu, now)
        self.pending += 1

    def _change(self, life: Life, old: Workload, new: Workload, now: float) -> None:
        runs, ran = holds_quota(new), holds_quota(old)
        self.running += runs - ran
        self.in_use[life.cohort] += life.cpu * (runs - ran)
        self.most_in_use = max(self.most_in_use, self.in_use[life.cohort])
        self.pending += _waits(new) - _waits(old)
        if became_true(old, new, condition_types.ADMITTED):
            self.admitted += life.first_admitted is None
            life.first_admitted = life.first_admitted or now
            life.last_admitted = now
        if became_true(old, new, condition_types.PREEMPTED):
            life.preemptions += 1
            preempted = new.condition(condition_types.PREEMPTED)
            self.preemptions[preempted.reason if preempted else ""] += 1
        if became_true(old, new, condition_types.FINISHED):
            self.finished += 1
            life.finished = now

    # --- figures ---

    @property
    def complete(self) -> bool:
        return self.finished == self.shape.total

    @property
    def makespan(self) -> float:
        """Seconds from the first creation to the last end."""
        ends = [life.finished for life in self.lives.values() if life.finished is not None]
        return max(ends, default=0.0) - min((life.created for life in self.lives.values()), default=0.0)

    @property
    def created_within(self) -> float:
        """Seconds from the first creation to the last one."""
        created = [life.created for life in self.lives.values()]
        return max(created, default=0.0) - min(created, default=0.0)

    @property
    def mean_pending(self) -> float:
        return self._pending_seconds / self.makespan if self.makespan > 0 else 0.0

    @property
    def status_writes(self) -> int:
        return sum(count for name, count in self.causes.items() if name not in METADATA)

    def writes_of_preempted(self) -> tuple[int, Counter[str]]:
        """How many Workloads were preempted once, and the causes of our status writes of these.

        Each needs three: it is admitted, evicted and admitted again; each further preemption adds two.
        """
        once = [life for life in self.lives.values() if life.preemptions == 1]
        causes = sum((life.causes for life in once), Counter[str]())
        return len(once), Counter({why: n for why, n in causes.items() if why not in (BY_RUNNER, *METADATA)})

    def wait(self, kind: str, *, last: bool) -> float:
        """Mean seconds from creation to the first or the last admission. Kueue's benchmark takes the last."""
        return fmean(self._waits_of(kind, last) or [0.0])

    def _waits_of(self, kind: str, last: bool) -> list[float]:
        lives: Iterable[Life] = (life for life in self.lives.values() if life.kind == kind)
        times = ((life.last_admitted if last else life.first_admitted, life.created) for life in lives)
        return [admitted - created for admitted, created in times if admitted is not None]


def holds_quota(workload: Workload) -> bool:
    return workload.is_true(condition_types.QUOTA_RESERVED) and not workload.is_true(condition_types.FINISHED)


def _waits(workload: Workload) -> bool:
    return not workload.is_true(condition_types.QUOTA_RESERVED) and not workload.is_true(condition_types.FINISHED)


def became_true(old: Workload, new: Workload, type: str) -> bool:
    return new.is_true(type) and not old.is_true(type)


def cause(old: Workload, new: Workload) -> str:
    """Why this write was made: its most important effect."""
    if became_true(old, new, condition_types.FINISHED):
        return BY_RUNNER
    if became_true(old, new, condition_types.ADMITTED):
        return ADMITTED
    if became_true(old, new, condition_types.QUOTA_RESERVED):
        return "quota reserved, not yet admitted"
    if became_true(old, new, condition_types.EVICTED):
        return EVICTED
    if old.is_true(condition_types.QUOTA_RESERVED) and not new.is_true(condition_types.QUOTA_RESERVED):
        return "quota released after an eviction"
    if old.metadata.finalizers != new.metadata.finalizers:
        return "finalizers"
    if old.spec != new.spec:
        return "spec"
    return _reason_cause(old, new)


def _reason_cause(old: Workload, new: Workload) -> str:
    before, after = old.condition(condition_types.QUOTA_RESERVED), new.condition(condition_types.QUOTA_RESERVED)
    if after is None or before == after:
        return "another field"
    if before is None:
        return FIRST_REASON
    return NUMBERS if before.reason == after.reason else REASON
