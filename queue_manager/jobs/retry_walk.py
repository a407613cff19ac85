"""The life of a Job whose pods do not become ready: timeout, retry, deactivation, and success once it is reactivated.

Pure. `walk` plays the real rules of both sides, `jobs.decide` and `lifecycle.rules`, on one Job and its Workload until
neither has a step left. What the user, the scheduler, the Job controller and the clock do in between is scripted.
`lifecycle_page` prints the steps, so lifecycle/LIFECYCLE.md shows what the rules do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import msgspec
from msgspec import structs

from job_controller import conditions
from job_controller.condition_types import COMPLETE, SUSPENDED
from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.api import keys
from queue_manager.api.types import ResourceFlavor, Workload
from queue_manager.jobs import planned_writes
from queue_manager.jobs.decide import RULES
from queue_manager.jobs.job_situation import JobContext, JobSituation
from queue_manager.jobs.workload_match import is_injected
from queue_manager.lifecycle import state_space
from queue_manager.lifecycle.diagram import deciding_rule, place
from queue_manager.lifecycle.state_space import LifeState, phase
from queue_manager.lifecycle.steps import RemoveFinalizer, Wait
from queue_manager.scheduling.flavor_assignment import Assignment, PodSetResult

MAX_STEPS = 20  # of the rules between two scripted moves
USER, SCHEDULER, JOB, WORKLOAD, JOB_CONTROLLER = "User", "Scheduler", "Job", "Workload", "JobController"
FLAVORS = {"default": ResourceFlavor()}


class WalkStep(NamedTuple):
    """One write. `place`: the file and rule that makes it; "" for a wait, with no `target`."""

    source: str
    target: str
    place: str
    change: str
    phase: str  # of the Workload after the write


def walk() -> list[WalkStep]:
    """Return all writes from the submission of the Job to its end."""
    scenario = _Scenario()
    scenario.rules()
    for _ in ("retried", "deactivated, since the limit is one retry"):
        scenario.scheduler_admits()
        scenario.pods_start()
        scenario.time_passes()
        scenario.pods_end()
        scenario.time_passes()
    scenario.user_reactivates()
    scenario.scheduler_admits()
    scenario.pods_start()
    scenario.pods_become_ready()
    scenario.job_completes()
    return scenario.steps


class _Scenario:
    """One Job and its Workload; each method is a scripted move, followed by the steps of the rules."""

    def __init__(self) -> None:
        self.steps: list[WalkStep] = []
        self.job = _submitted_job()
        self.workload: Workload | None = None
        self.base = state_space.new_life()
        self.steps.append(WalkStep(USER, JOB, "sluice submit", "spec.suspend=true", ""))

    # --- scripted moves ---

    def scheduler_admits(self) -> None:
        pod_set = PodSetResult("main", 1, {}, {"cpu": "default"})
        admitted = state_space.admit(self._life(), Assignment([pod_set], {}))
        assert admitted is not None, "the Workload cannot be admitted"
        self._write_workload(SCHEDULER, "scheduler/admission_loop.py", admitted.workload)
        self.rules()

    def pods_start(self) -> None:
        self._job_status("active=1", active=1, suspended=False)

    def pods_become_ready(self) -> None:
        self._job_status("ready=1", active=1, ready=1, suspended=False)

    def pods_end(self) -> None:
        self._job_status("active=0, Suspended=True", suspended=True)

    def job_completes(self) -> None:
        self._job_status("Complete=True", succeeded=1, suspended=False, complete=True)

    def user_reactivates(self) -> None:
        life = state_space.reactivate(self._life())
        assert life is not None, "the Workload is active"
        self._write_workload(USER, "sluice reactivate", life.workload)
        self.rules()

    def time_passes(self) -> None:
        """Move the clock to the time for which the lifecycle rules wait, if they wait."""
        step = state_space.next_step(self._life())
        if isinstance(step, Wait):
            seconds = (step.until - self.base.now).total_seconds()
            self.base = replace(self.base, now=step.until)
            self.steps.append(WalkStep(WORKLOAD, "", "", f"{seconds:.0f} s later", self._phase()))
            self.rules()

    # --- the rules ---

    def rules(self) -> None:
        """Apply the rules of the Job and of the Workload until neither has a step left."""
        for _ in range(MAX_STEPS):
            if not self._job_rules_act() and not self._lifecycle_rules_act():
                return
        raise AssertionError("the rules come to no end")

    def _job_rules_act(self) -> bool:
        owned = [self.workload] if self.workload is not None else []
        situation = JobSituation(self.job, owned, JobContext(flavors=FLAVORS, uses_nodes=self.job.status.active > 0))
        answers = ((rule, rule(situation)) for rule in RULES)
        rule, action = next(((rule, action) for rule, action in answers if action is not None), (RULES[0], None))
        match action:
            case None | planned_writes.Nothing():
                return False
            case planned_writes.CreateWorkload(manifest):
                self._write_workload(JOB, place(rule), msgspec.convert(manifest, Workload))
            case planned_writes.WriteWorkloadStatus(_, transition, _):
                self._write_workload(JOB, place(rule), self._life().after(transition).workload)
            case planned_writes.PatchJob(patch):
                self._write_job(WORKLOAD, place(rule), _merged(msgspec.to_builtins(self.job), patch))
            case _:
                raise AssertionError(f"{place(rule)} must not act between timeout and reactivation")
        return True

    def _lifecycle_rules_act(self) -> bool:
        if self.workload is None or state_space.settled(self._life()):
            return False
        life, where = self._life(), place(deciding_rule(self._life()))
        if isinstance(state_space.next_step(life), RemoveFinalizer):
            meta = structs.replace(self.workload.metadata, finalizers=())
            self._write_workload(WORKLOAD, where, structs.replace(self.workload, metadata=meta))
            return True
        after = state_space.step(life)
        assert after is not None, "a due step changes the Workload"
        self._write_workload(WORKLOAD, where, after.workload)
        return True

    # --- writes ---

    def _life(self) -> LifeState:
        assert self.workload is not None, "the Workload does not exist yet"
        return replace(self.base, workload=self.workload)

    def _phase(self) -> str:
        return phase(self.workload) if self.workload is not None else ""

    def _write_workload(self, source: str, where: str, after: Workload) -> None:
        change = workload_change(self.workload, after)
        self.workload = after
        self.steps.append(WalkStep(source, WORKLOAD, where, change, self._phase()))

    def _write_job(self, source: str, where: str, tree: Json) -> None:
        before, self.job = self.job, msgspec.convert(tree, Job)
        self.steps.append(WalkStep(source, JOB, where, job_change(before, self.job), self._phase()))

    def _job_status(
        self,
        change: str,
        *,
        suspended: bool,
        active: int = 0,
        ready: int = 0,
        succeeded: int = 0,
        complete: bool = False,
    ) -> None:
        now = self.base.now
        listed = conditions.put(self.job.status.conditions, SUSPENDED, str(suspended), "", "", now)
        if complete:
            listed = conditions.put(listed, COMPLETE, "True", "CompletionsReached", "", now)
        status = structs.replace(self.job.status, conditions=listed, active=active, ready=ready, succeeded=succeeded)
        self.job = structs.replace(self.job, status=status)
        self.steps.append(WalkStep(JOB_CONTROLLER, JOB, "job_controller/sync.py", change, self._phase()))
        self.rules()


def workload_change(before: Workload | None, after: Workload) -> str:
    """What a write changes: conditions, spec.active, requeueState, finalizers."""
    if before is None:
        return "create"
    changes = []
    if before.spec.active != after.spec.active:
        changes.append(f"spec.active={str(after.spec.active).lower()}")
    for new in after.status.conditions:
        old = before.condition(new.type)
        if old is None or (old.status, old.reason) != (new.status, new.reason):
            changes.append(f"{new.type}={new.status} {new.reason}")
    changes += [f"{old.type} removed" for old in before.status.conditions if after.condition(old.type) is None]
    changes += _requeue_change(before, after)
    if before.metadata.finalizers and not after.metadata.finalizers:
        changes.append("finalizer removed")
    return ", ".join(changes)


def _requeue_change(before: Workload, after: Workload) -> list[str]:
    old, new = before.status.requeue_state, after.status.requeue_state
    if old == new:
        return []
    if new is None:
        return ["requeueState removed"]
    at = ", requeueAt set" if new.requeue_at is not None else ", requeueAt removed"
    return [f"requeueState.count={new.count}{at}"]


def job_change(before: Job, after: Job) -> str:
    """What a patch changes: suspension, the stop mark, the template."""
    changes = []
    if before.spec.suspend != after.spec.suspend:
        changes.append(f"spec.suspend={str(after.spec.suspend).lower()}")
    marks: tuple[tuple[str, str, Callable[[Job], bool]], ...] = (
        ("marked as stopping", "mark removed", lambda job: keys.STOPPING in job.metadata.annotations),
        ("template injected", "template restored", is_injected),
    )
    for added, removed, is_set in marks:
        if is_set(before) != is_set(after):
            changes.append(added if is_set(after) else removed)
    return ", ".join(changes)


def _submitted_job() -> Job:
    container = {"name": "main", "image": "example.com/main"}
    tree = {
        "metadata": {"name": "sample", "namespace": "ns", "uid": "uid", "labels": {keys.QUEUE_NAME: "lq"}},
        "spec": {
            "suspend": True,
            "parallelism": 1,
            "completions": 1,
            "template": {"spec": {"containers": [container]}},
        },
    }
    return msgspec.convert(tree, Job)


def _merged(tree: Json, patch: Json) -> Json:
    """The tree after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(tree) if isinstance(tree, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
