"""The record of `sluice explain`: why a Job does not run, with the evidence. Pure: objects and time in, record out.

`dominant_reason` finds the one reason, with its sentence (for a pending Workload from `pending_sentences`), and
`explanation_rows` makes the tables that show the evidence. A reader who may not see everything on which the scheduler's
decision depends gets the explanation of a manager (`served_explanation`), or else the reason that the scheduler has
published, and a list of what is missing. Names of other namespaces' objects appear only if the reader may list them
(`Surroundings.may_name`). BEHAVIOUR.md#q51-explanations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import msgspec

from job_controller.model import Job, Key
from queue_manager.api.types import Workload
from queue_manager.scheduling.admission_evidence import Evidence
from queue_manager.visibility import reason_codes
from queue_manager.visibility.deactivated_jobs import job_name
from queue_manager.visibility.dominant_reason import dominant
from queue_manager.visibility.explained_case import Case, Surroundings, case_of, given
from queue_manager.visibility.explanation_rows import (
    NOT_NAMED,
    FlavorRow,
    HolderRow,
    PreemptionRow,
    flavor_row,
    holder_rows,
    preemption_row,
)
from queue_manager.visibility.job_states import JobState, explain_state, lost_quota_for
from queue_manager.visibility.prediction_types import Prediction
from queue_manager.visibility.preempted_for import preemptor
from queue_manager.visibility.reason_with_sentence import Finding
from queue_manager.visibility.released_quota_times import ANOTHERS_JOB, ExpectedRelease, promised_start, release_of
from queue_manager.visibility.requested_resources import demand
from queue_manager.visibility.scheduler_judgement import ClusterObjects, Judgement


class AheadRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many Workloads of a LocalQueue are before this one.

    `namespace`, `queue` "": of all LocalQueues whose names the reader may not know.
    """

    namespace: str
    queue: str
    workloads: int


class Position(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a pending Workload stands in its queues, 1 is first. `ahead`: how many are before it, by LocalQueue."""

    cluster_queue: int
    of: int | None
    local_queue: int
    ahead: list[AheadRow] | None


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a Job does not run. `code` "" if it does not wait (it runs, has ended, is being deleted); else one of
    `reason_codes.CODES`, or made of a reason that is not known. `reason`, `message`: of the API, as in `JobRow`.
    `not_seen`: what the reader may not see, so that the rest may be incomplete. `kept_for_it`: backfilling keeps
    released quota for it, and `starts_by` is when it starts at the latest, if that is known. `released_by`: when
    enough quota is released for it at the latest, which others may take; `release` says why then, or why it is not
    known, and is "" for one that does not wait for quota or has `starts_by`. `kept_for`: the Jobs that
    preempt others, for which quota is kept that it needs. `preempted_for`: who needed the quota
    that it had, as in `JobRow`; `preempted_for_job`: namespace and name of that Job, for a reader who may list all
    Workloads. `cause`: as in `JobRow`; `advice`: what to do about it; `deadlines`: what happens when, soonest
    first; `log_command`: prints the logs of failed pods, of a Job that has failed.
    """

    namespace: str
    name: str
    workload: str
    queue: str
    cluster_queue: str
    state: JobState
    code: str
    sentence: str
    reason: str
    message: str
    position: Position | None
    flavors: list[FlavorRow]
    holders: list[HolderRow]
    preemptions: list[PreemptionRow]
    changes: list[str]
    next_command: str
    kept_for_it: bool
    starts_by: datetime | None
    not_seen: list[str]
    cause: str = ""
    deadlines: list[Prediction] = []
    advice: list[str] = []
    preempted_for: str = ""
    preempted_for_job: str = ""
    log_command: str = ""
    released_by: datetime | None = None
    release: str = ""
    kept_for: list[str] = []


def explain(job: Job | None, workload: Workload | None, around: Surroundings, now: datetime) -> Explanation:
    """Explain a Job, or a Workload without a Job."""
    case = case_of(job, workload, around, now)
    return _explanation(case, dominant(case))


def _explanation(case: Case, found: Finding) -> Explanation:
    around, judgement = case.around, found.judgement
    evidence = judgement.evidence if judgement is not None else None
    objects = around.objects or ClusterObjects()
    jobs = {w.metadata.key: _job(w) for w in objects.workloads if evidence}
    priority = case.workload.spec.priority or 0 if case.workload is not None else 0
    victim = lost_quota_for(case.workload, case.state)
    rows = [flavor_row(row) for row in evidence.flavors] if evidence is not None else []
    release = release_of(judgement, jobs, case.now, around.may_name) or ExpectedRelease(None, "")
    return Explanation(
        namespace=case.key.namespace,
        name=case.key.name,
        workload=case.workload.metadata.name if case.workload is not None else "",
        queue=case.queue,
        cluster_queue=around.local.spec.cluster_queue if around.local is not None else "",
        state=case.state,
        code=reason_codes.code(found.reason) if found.reason else "",
        sentence=found.sentence,
        reason=explain_state(case.job, case.workload, case.state, case.now)[0],
        message=found.message,
        position=_position(judgement, around),
        flavors=rows or (_requested(case) if found.reason else []),
        holders=holder_rows(evidence.held, jobs, around.may_name) if evidence is not None else [],
        preemptions=[preemption_row(check, priority) for check in evidence.preemptions] if evidence is not None else [],
        changes=[change for change in found.changes if change],
        next_command=found.command,
        kept_for_it=judgement is not None and judgement.promise is not None,
        starts_by=promised_start(judgement, case.now) if judgement is not None else None,
        not_seen=list(around.not_seen) if found.reason else [],
        deadlines=_end_of_protection(judgement),
        preempted_for=victim,
        preempted_for_job=_preemptor(case, objects) if victim else "",
        released_by=release.by,
        release=release.text,
        kept_for=_kept_for(evidence, jobs, around) if evidence is not None else [],
    )


def _job(workload: Workload) -> str:
    """Namespace and name of its Job, with a mark if that is deleted: another Job may have the name now."""
    name = str(Key(workload.metadata.namespace, job_name(workload)))
    return name if workload.metadata.deletion_timestamp is None else f"{name} (deleted)"


def _kept_for(evidence: Evidence, jobs: Mapping[Key, str], around: Surroundings) -> list[str]:
    names = (jobs.get(key, str(key)) if around.may_name(key.namespace) else ANOTHERS_JOB for key in evidence.kept_for)
    return list(dict.fromkeys(names))


def _preemptor(case: Case, objects: ClusterObjects) -> str:
    """Return namespace and name of the Job for which the Workload was preempted; "" if it is not visible, or gone."""
    found = preemptor(given(case.workload), objects.workloads)
    if found is None or not case.around.may_name(found.metadata.namespace):
        return ""
    return str(Key(found.metadata.namespace, job_name(found)))


def _end_of_protection(judgement: Judgement | None) -> list[Prediction]:
    evidence = judgement.evidence if judgement is not None else None
    at = evidence.ways.protected_until if evidence is not None else None
    return (
        [Prediction(at=at, what="the first minimum runtime that keeps it from preempting ends")]
        if at is not None
        else []
    )


def _position(judgement: Judgement | None, around: Surroundings) -> Position | None:
    place = judgement.place if judgement is not None else None
    if place is None:
        return None
    counts = Counter[Key]()
    for queue, workloads in place.ahead.items():
        counts[queue if around.may_name(queue.namespace) else NOT_NAMED] += workloads
    ahead = [AheadRow(namespace=q.namespace, queue=q.name, workloads=n) for q, n in sorted(counts.items())]
    return Position(cluster_queue=place.position, of=place.of, local_queue=place.local_position, ahead=ahead)


def _requested(case: Case) -> list[FlavorRow]:
    """The Job's requests, for explanations without a table of flavors."""
    return [
        FlavorRow(
            pod_set=row.pod_set,
            flavor="",
            resource=row.resource,
            requested=row.total,
            free=None,
            borrowable=None,
            kept=None,
            limit=None,
            verdict="",
        )
        for row in demand(case.job, case.workload)
        if row.total
    ]
