"""Events about Jobs that this controller cannot handle as written, or whose fields contradict each other.

Each message names the field. An Event is recorded once for each Job and message, and again after a restart.

    InvalidJob, UnknownCompletionMode   the Job is not synced. An API server rejects such Jobs, but a newer or different
                                        one may store them
    InvalidAnnotation                   an annotation of Sluice is malformed and counts as absent
    IndexNeverFails                     backoffLimitPerIndex with restartPolicy OnFailure: the kubelet restarts the
                                        container, so the limit of the index is not reached

See BEHAVIOUR.md#b40-invalid-jobs.
"""

from __future__ import annotations

from job_controller import event_reasons, messages
from job_controller.annotations import MAX_DIGITS, whole_number
from job_controller.go_text import NOT_NEGATIVE
from job_controller.labels import BACKOFF_SECONDS, FAILED_PODS_LIMIT
from job_controller.model import Job
from job_controller.pod_facts import INT32_MAX
from job_controller.sync_steps import JobEvent

_DEFAULTS = {
    BACKOFF_SECONDS: "the configured backoff applies",
    FAILED_PODS_LIMIT: "all failed pods are kept",
}


def invalid_job(job: Job) -> JobEvent | None:
    """The Event about a Job that must not be synced; None for all others.

    An invalid Job that is being deleted is synced nevertheless, so that the finalizers of its pods are removed.
    """
    spec = job.spec
    if spec.completion_mode not in ("NonIndexed", "Indexed"):
        return JobEvent("Warning", event_reasons.UNKNOWN_COMPLETION_MODE, messages.UNKNOWN_COMPLETION_MODE_MESSAGE)
    if job.metadata.deletion_timestamp is not None:
        return None
    problem = ""
    if spec.selector is None:
        problem = "spec.selector: Required value"
    elif spec.completion_mode == "Indexed" and spec.completions is None:
        problem = "spec.completions: Required value: when completion mode is Indexed"
    else:
        counts = {"parallelism": spec.parallelism, "completions": spec.completions, "backoffLimit": spec.backoff_limit}
        for field, number in counts.items():
            if number is not None and number < 0:
                problem = f"spec.{field}: Invalid value: {number}: {NOT_NEGATIVE}"
                break
    return JobEvent("Warning", event_reasons.INVALID_JOB, f"{problem}; the Job is not synced") if problem else None


def warnings(job: Job) -> tuple[JobEvent, ...]:
    """The Events about a Job that is synced nevertheless. `job` lacks the fields that are switched off."""
    spec = job.spec
    restart_policy = (spec.template.get("spec") or {}).get("restartPolicy", "")
    endless = endless_indexes(spec.backoff_limit_per_index, spec.backoff_limit, restart_policy)
    events = _annotation_warnings(job)
    return (*events, JobEvent("Warning", event_reasons.INDEX_NEVER_FAILS, endless)) if endless else events


def endless_indexes(limit_per_index: int | None, limit: int | None, restart_policy: str) -> str:
    """The warning about a Job whose containers are restarted in place, so that backoffLimitPerIndex is not reached.

    `limit_per_index` and `limit` are backoffLimitPerIndex and backoffLimit. Returns "" for Jobs without this conflict.
    """
    if limit_per_index is None or restart_policy != "OnFailure":
        return ""
    until = "forever" if limit in (None, INT32_MAX) else f"until spec.backoffLimit ({limit}) ends the Job"
    return (
        "spec.backoffLimitPerIndex: has no effect with restartPolicy OnFailure: a container that fails is restarted "
        f'in its pod {until}, and the index does not fail; use restartPolicy "Never"'
    )


def _annotation_warnings(job: Job) -> tuple[JobEvent, ...]:
    """One Event for each annotation of Sluice that is malformed."""
    found = []
    for annotation, default in _DEFAULTS.items():
        text = job.metadata.annotations.get(annotation)
        if text is not None and whole_number(job, annotation) is None:
            field = f"metadata.annotations[{annotation}]"
            message = (
                f'{field}: Invalid value: "{text}": must be a whole number of at most {MAX_DIGITS} digits; {default}'
            )
            found.append(JobEvent("Warning", event_reasons.INVALID_ANNOTATION, message))
    return tuple(found)
