"""Records for the tests of the history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from queue_manager.accounting.record_types import JobRecord, PodRecord, StepKind, StepRecord

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def job(uid: str = "j1", seconds: float = 0, **fields: Any) -> JobRecord:
    known = {"namespace": "team-a", "name": f"job-{uid}", "user": "anna", "queue": "lq", "submitted_at": at(seconds)}
    return JobRecord(uid=uid, **(known | fields))


def step(kind: StepKind, seconds: float, attempt: int = 1, *, of: str = "j1", **fields: Any) -> StepRecord:
    uid = of if attempt == 0 else f"w-{of}"
    return StepRecord(job_uid=of, uid=uid, attempt=attempt, kind=kind, at=at(seconds), **fields)


def admitted(seconds: float, attempt: int = 1, *, of: str = "j1", cpu_milli: int = 2000) -> StepRecord:
    where = {"cluster_queue": "cq", "flavor": "default", "pods": 1, "memory_bytes": 1 << 20}
    return step(StepKind.ADMITTED, seconds, attempt, of=of, cpu_milli=cpu_milli, **where)


def finished(seconds: float, reason: str = "Succeeded", *, of: str = "j1") -> StepRecord:
    return step(StepKind.FINISHED, seconds, 0, of=of, reason=reason)


def pod(uid: str = "p1", *, of: str = "j1", seconds: float = 60, **fields: Any) -> PodRecord:
    known = {"namespace": "team-a", "name": uid, "node": "n1", "phase": "Succeeded", "exit_code": 0}
    return PodRecord(uid=uid, job_uid=of, ended_at=at(seconds), **(known | fields))
