"""What a Job may look like when it is submitted to a queue, and how it may change (spec: kueue.md 7.6).

On a cluster these are Kueue's webhooks; the embedded API server calls them through its admission seam. The
rules are pure functions of the Job and the little that is around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from job_controller.annotations import integer
from job_controller.api_rules import names
from job_controller.api_rules.field_errors import IMMUTABLE, FieldError, forbidden, invalid
from job_controller.json_tree import Json
from queue_manager.api import keys
from queue_manager.api.resources import JOBS
from queue_manager.api.webhook import WebhookReview
from queue_manager.api.workload_validation import validate_admission_gates, validate_admission_gates_update
from queue_manager.lifecycle import overrides
from queue_manager.lifecycle.settings import Bounds

LABELS = "metadata.labels"
ANNOTATIONS = "metadata.annotations"
WEBHOOK = "vjob.kb.io"
FALSE_TEXTS = ("0", "f", "F", "FALSE", "false", "False")  # what strconv.ParseBool takes for false
_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch


@dataclass(frozen=True, slots=True)
class SubmissionContext:
    """What the rules need to know of a Job's namespace and of the configuration."""

    managed: bool = True  # the namespace is selected
    manage_all: bool = False  # Jobs without a queue name are managed too
    default_queue: bool = False  # LocalQueue "default" exists in the namespace
    default_class: bool = False  # WorkloadPriorityClass "default" exists
    owner_managed: bool = False  # the Job belongs to another managed Job
    bounds: Bounds | None = None  # of what its annotations may set of waitForPodsReady; None: nothing


# --- filling in --------------------------------------------------------------------------------------------


def prepare_job(job: Json, around: SubmissionContext) -> None:
    """On creation: default queue, default priority class, and suspended until it is admitted."""
    if around.owner_managed:
        return
    meta = job.setdefault("metadata", {})
    own = meta.get("labels") or {}
    if around.managed and around.default_queue and not own.get(keys.QUEUE_NAME):
        own[keys.QUEUE_NAME] = keys.DEFAULT_NAME
        meta["labels"] = own
    if around.default_class and keys.PRIORITY_CLASS not in own:
        own[keys.PRIORITY_CLASS] = keys.DEFAULT_NAME
        meta["labels"] = own
    if own.get(keys.QUEUE_NAME) or (around.managed and around.manage_all):
        job.setdefault("spec", {})["suspend"] = True


# --- refusing ----------------------------------------------------------------------------------------------


def validate_job(job: Json) -> list[FieldError]:
    """A Job on its own."""
    return _validate_alone(job, partial=True)


def _validate_alone(job: Json, *, partial: bool) -> list[FieldError]:
    own, notes, spec = _labels(job), _annotations(job), job.get("spec") or {}
    errors: list[FieldError] = []
    for label in (keys.QUEUE_NAME, keys.PREBUILT_WORKLOAD):
        if own.get(label):
            errors += [invalid(f"{LABELS}[{label}]", own[label], text) for text in names.dns_subdomain(own[label])]
    errors += _validate_max_exec_time(own)
    if partial:
        errors += _validate_partial_admission(notes, spec)
    errors += _validate_synchronous_completions(notes, spec)
    return errors + validate_admission_gates(notes)


def _validate_max_exec_time(own: Json) -> list[FieldError]:
    path = f"{LABELS}[{keys.MAX_EXEC_TIME}]"
    return _positive(own, keys.MAX_EXEC_TIME, path, lambda n: n > 0, "should be greater than 0")


def _validate_partial_admission(notes: Json, spec: Json) -> list[FieldError]:
    path = f"{ANNOTATIONS}[{keys.MIN_PARALLELISM}]"
    if keys.MIN_PARALLELISM in notes and _elastic(notes):
        detail = "partial admission and elastic job cannot be used together"
        return [invalid(path, notes[keys.MIN_PARALLELISM], detail)]
    parallelism = _parallelism(spec)
    detail = f"should be between 0 and {parallelism - 1}"
    return _positive(notes, keys.MIN_PARALLELISM, path, lambda n: 0 < n < parallelism, detail)


def _positive(values: Json, key: str, path: str, allowed: Callable[[int], bool], detail: str) -> list[FieldError]:
    if key not in values:
        return []
    text = values[key]
    number = integer(text, bits=64)
    if number is None:
        why = "value out of range" if _NUMBER(text) else "invalid syntax"
        return [invalid(path, text, f'strconv.Atoi: parsing "{text}": {why}')]
    return [] if allowed(number) else [invalid(path, number, detail)]


def _validate_synchronous_completions(notes: Json, spec: Json) -> list[FieldError]:
    text = notes.get(keys.COMPLETIONS_EQUAL_PARALLELISM)
    if text not in keys.TRUE_TEXTS:
        return _validate_truth(notes)
    path = f"{ANNOTATIONS}[{keys.COMPLETIONS_EQUAL_PARALLELISM}]"
    if spec.get("completionMode", "NonIndexed") == "NonIndexed":
        return [invalid(path, text, "should not be enabled for NonIndexed jobs")]
    completions = spec.get("completions")
    if completions != _parallelism(spec):
        detail = f"should be equal to parallelism when {keys.COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        return [invalid("spec.completions", completions, detail)]
    return []


def _validate_truth(notes: Json) -> list[FieldError]:
    text = notes.get(keys.COMPLETIONS_EQUAL_PARALLELISM)
    if text is None or text in keys.TRUE_TEXTS + FALSE_TEXTS:
        return []
    path = f"{ANNOTATIONS}[{keys.COMPLETIONS_EQUAL_PARALLELISM}]"
    return [invalid(path, text, f'strconv.ParseBool: parsing "{text}": invalid syntax')]


def without_effect(own: Json, notes: Json) -> list[FieldError]:
    """Labels and annotations of a Job that no webhook saw, as far as nobody can read them: they count as absent."""
    path = f"{ANNOTATIONS}[{keys.MIN_PARALLELISM}]"
    errors = _validate_max_exec_time(own)
    errors += _positive(notes, keys.MIN_PARALLELISM, path, lambda n: n > 0, "should be greater than 0")
    return errors + _validate_truth(notes)


def validate_job_update(new: Json, old: Json, around: SubmissionContext) -> list[FieldError]:
    """A Job, and its change.

    What was wrong with it before, as nobody looked then or the namespace was not managed, is no fault of the change: a
    Job that can no more be changed can neither be started nor stopped.
    """
    resized = _validate_parallelism_change(new, old)
    partial = not resized and _chooses_size(new, old)
    known = _validate_alone(old, partial=partial)
    errors = [error for error in _validate_alone(new, partial=partial) if error not in known]
    now, was = _labels(new), _labels(old)
    suspended = _suspended(new) and _suspended(old)
    errors += _validate_queue_change(new, now, was, around)
    errors += _validate_class_change(new, now, was)
    if not _suspended(new) and now.get(keys.PREBUILT_WORKLOAD) != was.get(keys.PREBUILT_WORKLOAD):
        errors.append(_immutable(keys.PREBUILT_WORKLOAD, now))
    if not suspended and now.get(keys.MAX_EXEC_TIME) != was.get(keys.MAX_EXEC_TIME):
        errors.append(_immutable(keys.MAX_EXEC_TIME, now))
    errors += _validate_elastic_change(_annotations(new), _annotations(old))
    errors += resized + validate_admission_gates_update(_annotations(new), _annotations(old))
    return errors + _validate_override_change(_annotations(new), _annotations(old), around)


def _validate_elastic_change(now: Json, was: Json) -> list[FieldError]:
    """A Job is elastic from its creation or never. As in Kueue, the message prints whether it would be, and names the
    annotation as if it were a label."""
    if _elastic(now) == _elastic(was):
        return []
    return [invalid(f"{LABELS}[{keys.ELASTIC_JOB}]", _elastic(now), IMMUTABLE)]


def _validate_override_change(now: Json, was: Json, around: SubmissionContext) -> list[FieldError]:
    """Only what is changed must be within bounds: those may have been others when the Job was created."""
    changed = {key: now[key] for key in overrides.KEYS if key in now and now[key] != was.get(key)}
    return overrides.errors(changed, around.bounds)


def _validate_queue_change(new: Json, now: Json, was: Json, around: SubmissionContext) -> list[FieldError]:
    queue, before = now.get(keys.QUEUE_NAME, ""), was.get(keys.QUEUE_NAME, "")
    errors = []
    if not _suspended(new) and queue != before:
        errors.append(_immutable(keys.QUEUE_NAME, now))
    if before and not queue and around.default_queue:
        detail = "queue-name must not be empty in namespace with default queue"
        errors.append(invalid(f"{LABELS}[{keys.QUEUE_NAME}]", queue, detail))
    return errors


def _validate_class_change(new: Json, now: Json, was: Json) -> list[FieldError]:
    path = f"{LABELS}[{keys.PRIORITY_CLASS}]"
    name, before = now.get(keys.PRIORITY_CLASS, ""), was.get(keys.PRIORITY_CLASS, "")
    if not now.get(keys.QUEUE_NAME) or name == before:
        return []
    if not before and not _suspended(new):
        return [invalid(path, name, "WorkloadPriorityClass cannot be added to a non-suspended workload")]
    if not name:
        return [invalid(path, name, "WorkloadPriorityClass cannot be removed from a workload")]
    return []


def _chooses_size(new: Json, old: Json) -> bool:
    """The user says how many pods it may be. One that is admitted with the least of them has no room below it."""
    key = keys.MIN_PARALLELISM
    if _annotations(new).get(key) != _annotations(old).get(key):
        return True
    resized = _parallelism(new.get("spec") or {}) != _parallelism(old.get("spec") or {})
    return resized and _suspended(new) and _suspended(old)


def _validate_parallelism_change(new: Json, old: Json) -> list[FieldError]:
    notes, before = _annotations(new), _annotations(old)
    errors = []
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    running = not _suspended(new) and not _suspended(old)
    if running and keys.MIN_PARALLELISM in notes and _parallelism(spec) != _parallelism(old_spec):
        detail = "cannot change when partial admission is enabled and the job is not suspended"
        errors.append(forbidden("spec.parallelism", detail))
    key = keys.COMPLETIONS_EQUAL_PARALLELISM
    if not _suspended(old) and notes.get(key) != before.get(key):
        detail = "field is immutable while the job is not suspended"
        errors.append(forbidden(f"{ANNOTATIONS}[{key}]", detail))
    return errors


def _immutable(label: str, now: Json) -> FieldError:
    return invalid(f"{LABELS}[{label}]", now.get(label, ""), IMMUTABLE)


def _elastic(notes: Json) -> bool:
    return bool(notes.get(keys.ELASTIC_JOB) == "true")


def _labels(job: Json) -> Json:
    return (job.get("metadata") or {}).get("labels") or {}


def _annotations(job: Json) -> Json:
    return (job.get("metadata") or {}).get("annotations") or {}


def _suspended(job: Json) -> bool:
    return bool((job.get("spec") or {}).get("suspend"))


def _parallelism(spec: Json) -> int:
    value = spec.get("parallelism")
    return 1 if value is None else int(value)


# --- the seam ----------------------------------------------------------------------------------------------


class JobAdmission:
    """Applies the rules to Jobs; `surroundings` looks up what is around one."""

    def __init__(self, surroundings: Callable[[Json], SubmissionContext]) -> None:
        self._surroundings = surroundings

    def mutate(self, review: WebhookReview) -> list[FieldError] | None:
        if _concerns_jobs(review) and review.operation == "CREATE":
            prepare_job(review.object, self._surroundings(review.object))
        return None

    def validate(self, review: WebhookReview) -> list[FieldError]:
        if not _concerns_jobs(review):
            return []
        around = self._surroundings(review.object)
        if not around.managed:
            return []
        if review.operation == "CREATE":
            return validate_job(review.object) + overrides.errors(_annotations(review.object), around.bounds)
        if review.operation == "UPDATE" and review.old is not None:
            return validate_job_update(review.object, review.old, around)
        return []

    def webhook(self, review: WebhookReview) -> str:
        return WEBHOOK


def _concerns_jobs(review: WebhookReview) -> bool:
    return review.resource == JOBS and not review.subresource
