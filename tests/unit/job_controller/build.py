"""Short constructors of Jobs and pods for tests of decisions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from job_controller.labels import COMPLETION_INDEX, CONTROLLER_UID, TRACKING_FINALIZER
from job_controller.model import Job, JobStatus, Pod
from job_controller.options import JobControllerOptions
from job_controller.sync import decide
from job_controller.sync_steps import CreatePods, Decision, DeletePods, JobMemory, ReleasePods, WriteStatus

T0 = datetime(2026, 1, 1, tzinfo=UTC)
UID = "job-uid"


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def wire(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def job(
    *,
    status: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    deleted: bool = False,
    started: float | None = 0,
    restart_policy: str = "Never",
    template: dict[str, Any] | None = None,
    name: str = "j",
    **spec: Any,
) -> Job:
    """A Job that started at T0 + started (None: not started); spec fields in snake case as in the model."""
    full = {"parallelism": 1, "completions": 1, "backoff_limit": 6, **spec}
    if full.get("completion_mode", "NonIndexed") == "Indexed" and "backoff_limit_per_index" in full:
        full["backoff_limit"] = spec.get("backoff_limit", 2**31 - 1)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": UID,
        "annotations": annotations or {},
        "resourceVersion": "1",
    }
    if deleted:
        metadata["deletionTimestamp"] = wire(T0)
    stored: dict[str, Any] = {} if started is None else {"startTime": wire(at(started))}
    tree = {
        "metadata": metadata,
        "spec": {
            "selector": {"matchLabels": {CONTROLLER_UID: UID}},
            "template": template
            or {
                "metadata": {"labels": {CONTROLLER_UID: UID}},
                "spec": {"restartPolicy": restart_policy, "containers": [{"name": "c", "image": "i"}]},
            },
            **{msgspec_name(key): value for key, value in full.items() if value is not None},
        },
        "status": {**stored, **(status or {})},
    }
    return msgspec.convert(tree, Job)


def msgspec_name(snake: str) -> str:
    first, *rest = snake.split("_")
    return first + "".join(part.capitalize() for part in rest)


def indexed(completions: int, parallelism: int | None = None, **spec: Any) -> Job:
    return job(
        completion_mode="Indexed",
        completions=completions,
        parallelism=completions if parallelism is None else parallelism,
        **spec,
    )


def pod(
    name: str,
    phase: str = "Running",
    index: int | str | None = None,
    *,
    tracked: bool = True,
    deleted: float | None = None,
    grace: int = 0,
    ready: bool = False,
    ended: float | None = None,
    exit_code: int | None = None,
    restarts: int = 0,
    conditions: Iterable[tuple[str, str]] = (),
    annotations: dict[str, str] | None = None,
    created: float = 0,
    node: str = "node",
    labels: dict[str, str] | None = None,
    owner: str | None = UID,
) -> Pod:
    """A pod of the Job; its UID is its name. `ended`: seconds after T0 when its only container finished."""
    notes = dict(annotations or {})
    if index is not None:
        notes[COMPLETION_INDEX] = str(index)
    if phase in ("Failed", "Succeeded"):
        exit_code = exit_code if exit_code is not None else int(phase == "Failed")
        ended = 0 if ended is None else ended
    state = {} if exit_code is None else {"terminated": {"exitCode": exit_code, "finishedAt": wire(at(ended or 0))}}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "resourceVersion": "1",
        "creationTimestamp": wire(at(created)),
        "labels": labels if labels is not None else {CONTROLLER_UID: UID},
        "annotations": notes,
        "finalizers": [TRACKING_FINALIZER] if tracked else [],
        "ownerReferences": [{"kind": "Job", "name": "j", "uid": owner, "controller": True}] if owner else [],
    }
    if deleted is not None:
        metadata["deletionTimestamp"] = wire(at(deleted + grace))
        metadata["deletionGracePeriodSeconds"] = grace
    found: list[dict[str, Any]] = [{"type": kind, "status": value} for kind, value in conditions]
    if ready:
        found.append({"type": "Ready", "status": "True", "lastTransitionTime": wire(at(created))})
    tree = {
        "metadata": metadata,
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "conditions": found,
            "containerStatuses": [{"name": "c", "restartCount": restarts, "state": state}],
        },
    }
    return msgspec.convert(tree, Pod)


def run(job: Job, *pods: Pod, now: float = 0, memory: JobMemory | None = None, **options: Any) -> Decision:
    asked = {name: options.pop(name) for name in ("pods_done", "permitted") if name in options}
    return decide(job, pods, memory, at(now), JobControllerOptions(**options), **asked)


def created(decision: Decision) -> list[int | None]:
    """Indexes of the pods to create (None for each of a NonIndexed Job)."""
    return [plan.index for step in decision.steps if isinstance(step, CreatePods) for plan in step.plans]


def deleted(decision: Decision) -> list[str]:
    return [p.metadata.name for step in decision.steps if isinstance(step, DeletePods) for p in step.pods]


def released(decision: Decision) -> list[str]:
    return [p.metadata.name for step in decision.steps if isinstance(step, ReleasePods) for p in step.pods]


def statuses(decision: Decision) -> list[JobStatus]:
    return [step.status for step in decision.steps if isinstance(step, WriteStatus)]


def final(decision: Decision) -> JobStatus:
    return statuses(decision)[-1]


def condition_texts(status: JobStatus) -> list[str]:
    """Each condition as `Type=Status/Reason message`."""
    return [f"{c.type}={c.status}/{c.reason} {c.message}" for c in status.conditions]


def events(decision: Decision) -> list[str]:
    found = list(decision.events)
    for step in decision.steps:
        if isinstance(step, WriteStatus):
            found += step.events
    return [f"{e.type} {e.reason} {e.message}" for e in found]


def kinds(decision: Decision) -> list[str]:
    return [type(step).__name__ for step in decision.steps]
