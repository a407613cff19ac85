"""Defaults and validation of Jobs in a queue: Kueue's webhook for Jobs (pkg/controller/jobs/job `JobWebhook`).

The rules are pure functions of the Job and its SubmissionContext. The embedded API server and the webhooks of
`sluice manager` call them through `JobAdmission`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from job_controller.annotations import integer
from job_controller.api_rules import names
from job_controller.api_rules.field_errors import IMMUTABLE, FieldError, forbidden, invalid
from job_controller.json_tree import Json
from queue_manager.api import keys, messages
from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.api_resources import JOBS
from queue_manager.api.workload_validation import validate_admission_gates, validate_admission_gates_update
from queue_manager.jobs.managed_jobs import is_queued
from queue_manager.lifecycle import overrides
from queue_manager.lifecycle.workload_settings import Bounds

LABELS = "metadata.labels"
ANNOTATIONS = "metadata.annotations"
WEBHOOK = "vjob.kb.io"
FALSE_TEXTS = ("0", "f", "F", "FALSE", "false", "False")  # the texts that Go's strconv.ParseBool reads as false
_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch


@dataclass(frozen=True, slots=True)
class SubmissionContext:
    """The facts about a Job's namespace, owner and configuration that the rules read."""

    managed: bool = True  # managedJobsNamespaceSelector selects the namespace
    manage_all: bool = False  # Jobs without a queue name are managed too
    default_queue: bool = False  # LocalQueue "default" exists in the namespace
    default_class: bool = False  # WorkloadPriorityClass "default" exists
    owner_managed: bool = False  # the Job belongs to a managed Job
    imported_to: str = ""  # the queue of the admitted Workload that `sluice import` made for the Job
    bounds: Bounds = field(default_factory=Bounds)  # of the override annotations


# --- defaults ----------------------------------------------------------------------------------------------


def prepare_job(job: Json, context: SubmissionContext) -> None:
    """Set defaults on creation: the default queue, the default priority class, and spec.suspend."""
    if context.owner_managed:
        return
    meta = job.setdefault("metadata", {})
    own = meta.get("labels") or {}
    if context.managed and context.default_queue and not own.get(keys.QUEUE_NAME):
        own[keys.QUEUE_NAME] = keys.DEFAULT_NAME
        meta["labels"] = own
    if context.default_class and keys.PRIORITY_CLASS not in own:
        own[keys.PRIORITY_CLASS] = keys.DEFAULT_NAME
        meta["labels"] = own
    if is_queued(own.get(keys.QUEUE_NAME, ""), manage_all=context.managed and context.manage_all):
        job.setdefault("spec", {})["suspend"] = True


# --- validation --------------------------------------------------------------------------------------------


def validate_job(job: Json) -> list[FieldError]:
    """What is wrong with a new Job."""
    return _validate_fields(job, partial=True)


def _validate_fields(job: Json, *, partial: bool) -> list[FieldError]:
    own, annotations, spec = _labels(job), _annotations(job), job.get("spec") or {}
    errors: list[FieldError] = []
    for label in (keys.QUEUE_NAME, keys.PREBUILT_WORKLOAD):
        if own.get(label):
            errors += [invalid(f"{LABELS}[{label}]", own[label], text) for text in names.dns_subdomain(own[label])]
    errors += _validate_max_exec_time(own)
    if partial:
        errors += _validate_partial_admission(annotations, spec)
    errors += _validate_synchronous_completions(annotations, spec)
    return errors + validate_admission_gates(annotations)


def _validate_max_exec_time(own: Json) -> list[FieldError]:
    path = f"{LABELS}[{keys.MAX_EXEC_TIME}]"
    return _positive(own, keys.MAX_EXEC_TIME, path, lambda n: n > 0, "should be greater than 0")


def _validate_partial_admission(annotations: Json, spec: Json) -> list[FieldError]:
    path = f"{ANNOTATIONS}[{keys.MIN_PARALLELISM}]"
    if keys.MIN_PARALLELISM in annotations and _is_elastic(annotations):
        detail = "partial admission and elastic job cannot be used together"
        return [invalid(path, annotations[keys.MIN_PARALLELISM], detail)]
    parallelism = _parallelism(spec)
    detail = f"should be between 0 and {parallelism - 1}"
    return _positive(annotations, keys.MIN_PARALLELISM, path, lambda n: 0 < n < parallelism, detail)


def _positive(values: Json, key: str, path: str, allowed: Callable[[int], bool], detail: str) -> list[FieldError]:
    if key not in values:
        return []
    text = values[key]
    number = integer(text, bits=64)
    if number is None:
        why = "value out of range" if _NUMBER(text) else "invalid syntax"
        return [invalid(path, text, f'strconv.Atoi: parsing "{text}": {why}')]
    return [] if allowed(number) else [invalid(path, number, detail)]


def _validate_synchronous_completions(annotations: Json, spec: Json) -> list[FieldError]:
    text = annotations.get(keys.COMPLETIONS_EQUAL_PARALLELISM)
    if text not in keys.TRUE_TEXTS:
        return _validate_boolean(annotations)
    path = f"{ANNOTATIONS}[{keys.COMPLETIONS_EQUAL_PARALLELISM}]"
    if spec.get("completionMode", "NonIndexed") == "NonIndexed":
        return [invalid(path, text, "should not be enabled for NonIndexed jobs")]
    completions = spec.get("completions")
    if completions != _parallelism(spec):
        detail = f"should be equal to parallelism when {keys.COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        return [invalid("spec.completions", completions, detail)]
    return []


def _validate_boolean(annotations: Json) -> list[FieldError]:
    text = annotations.get(keys.COMPLETIONS_EQUAL_PARALLELISM)
    if text is None or text in keys.TRUE_TEXTS + FALSE_TEXTS:
        return []
    path = f"{ANNOTATIONS}[{keys.COMPLETIONS_EQUAL_PARALLELISM}]"
    return [invalid(path, text, f'strconv.ParseBool: parsing "{text}": invalid syntax')]


def malformed_metadata(own: Json, annotations: Json) -> list[FieldError]:
    """Errors of the labels and annotations of a Job that no webhook validated; the rules treat these as absent."""
    path = f"{ANNOTATIONS}[{keys.MIN_PARALLELISM}]"
    errors = _validate_max_exec_time(own)
    errors += _positive(annotations, keys.MIN_PARALLELISM, path, lambda n: n > 0, "should be greater than 0")
    return errors + _validate_boolean(annotations)


def validate_job_update(new: Json, old: Json, context: SubmissionContext) -> list[FieldError]:
    """What is wrong with a changed Job, and with the change.

    Errors that the old Job had too are not reported, as its namespace may not have been managed then: a Job whose
    updates are all rejected could neither be started nor stopped.
    """
    resized = _validate_parallelism_change(new, old)
    partial = not resized and _may_choose_size(new, old)
    known = _validate_fields(old, partial=partial)
    errors = [error for error in _validate_fields(new, partial=partial) if error not in known]
    now, was = _labels(new), _labels(old)
    suspended = _is_suspended(new) and _is_suspended(old)
    errors += _validate_queue_change(new, now, was, context)
    errors += _validate_class_change(new, now, was)
    if not _is_suspended(new) and now.get(keys.PREBUILT_WORKLOAD) != was.get(keys.PREBUILT_WORKLOAD):
        errors.append(_immutable(keys.PREBUILT_WORKLOAD, now))
    if not suspended and now.get(keys.MAX_EXEC_TIME) != was.get(keys.MAX_EXEC_TIME):
        errors.append(_immutable(keys.MAX_EXEC_TIME, now))
    errors += _validate_elastic_change(_annotations(new), _annotations(old))
    errors += resized + validate_admission_gates_update(_annotations(new), _annotations(old))
    return errors + _validate_override_change(_annotations(new), _annotations(old), context)


def _validate_elastic_change(now: Json, was: Json) -> list[FieldError]:
    """The error of a Job that becomes elastic or stops being so.

    As in Kueue, the message prints the new value as a boolean, and names the annotation as if it were a label.
    """
    if _is_elastic(now) == _is_elastic(was):
        return []
    return [invalid(f"{LABELS}[{keys.ELASTIC_JOB}]", _is_elastic(now), IMMUTABLE)]


def _validate_override_change(now: Json, was: Json, context: SubmissionContext) -> list[FieldError]:
    """The errors of changed overrides. Unchanged ones are not checked: the bounds may have changed since then."""
    changed = {key: now[key] for key in overrides.KEYS if key in now and now[key] != was.get(key)}
    return overrides.errors(changed, context.bounds)


def _validate_queue_change(new: Json, now: Json, was: Json, context: SubmissionContext) -> list[FieldError]:
    queue, before = now.get(keys.QUEUE_NAME, ""), was.get(keys.QUEUE_NAME, "")
    errors = []
    joins = not before and queue == context.imported_to
    if not _is_suspended(new) and queue != before and not joins:
        errors.append(_immutable(keys.QUEUE_NAME, now))
    if before and not queue and context.default_queue:
        detail = "queue-name must not be empty in namespace with default queue"
        errors.append(invalid(f"{LABELS}[{keys.QUEUE_NAME}]", queue, detail))
    return errors


def joins_queue_while_running(review: AdmissionReview) -> bool:
    """Whether a running Job gets the label of a queue, which only an import may give it."""
    if not _is_about_jobs(review) or review.operation != "UPDATE" or review.old is None:
        return False
    labelled = _labels(review.object).get(keys.QUEUE_NAME) and not _labels(review.old).get(keys.QUEUE_NAME)
    return bool(labelled) and not _is_suspended(review.object)


def _validate_class_change(new: Json, now: Json, was: Json) -> list[FieldError]:
    path = f"{LABELS}[{keys.PRIORITY_CLASS}]"
    name, before = now.get(keys.PRIORITY_CLASS, ""), was.get(keys.PRIORITY_CLASS, "")
    if not now.get(keys.QUEUE_NAME) or name == before:
        return []
    if not before and not _is_suspended(new):
        return [invalid(path, name, messages.CLASS_ADDED_TO_RUNNING)]
    if not name:
        return [invalid(path, name, messages.CLASS_REMOVED)]
    return []


def _may_choose_size(new: Json, old: Json) -> bool:
    """Whether a user changes the number of pods, or the lowest number that the Job accepts.

    If not, partial admission is not validated: a Job that runs with its lowest number of pods would fail.
    """
    key = keys.MIN_PARALLELISM
    if _annotations(new).get(key) != _annotations(old).get(key):
        return True
    resized = _parallelism(new.get("spec") or {}) != _parallelism(old.get("spec") or {})
    return resized and _is_suspended(new) and _is_suspended(old)


def _validate_parallelism_change(new: Json, old: Json) -> list[FieldError]:
    annotations, before = _annotations(new), _annotations(old)
    errors = []
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    running = not _is_suspended(new) and not _is_suspended(old)
    if running and keys.MIN_PARALLELISM in annotations and _parallelism(spec) != _parallelism(old_spec):
        detail = "cannot change when partial admission is enabled and the job is not suspended"
        errors.append(forbidden("spec.parallelism", detail))
    key = keys.COMPLETIONS_EQUAL_PARALLELISM
    if not _is_suspended(old) and annotations.get(key) != before.get(key):
        detail = "field is immutable while the job is not suspended"
        errors.append(forbidden(f"{ANNOTATIONS}[{key}]", detail))
    return errors


def _immutable(label: str, now: Json) -> FieldError:
    return invalid(f"{LABELS}[{label}]", now.get(label, ""), IMMUTABLE)


def _is_elastic(annotations: Json) -> bool:
    return bool(annotations.get(keys.ELASTIC_JOB) == "true")


def _labels(job: Json) -> Json:
    return (job.get("metadata") or {}).get("labels") or {}


def _annotations(job: Json) -> Json:
    return (job.get("metadata") or {}).get("annotations") or {}


def _is_suspended(job: Json) -> bool:
    return bool((job.get("spec") or {}).get("suspend"))


def _parallelism(spec: Json) -> int:
    value = spec.get("parallelism")
    return 1 if value is None else int(value)


# --- admission ---------------------------------------------------------------------------------------------


class JobAdmission:
    """Applies the rules to requests about Jobs; `contexts` returns the SubmissionContext of a Job."""

    def __init__(self, contexts: Callable[[Json], SubmissionContext]) -> None:
        self._context_of = contexts

    def mutate(self, review: AdmissionReview) -> None:
        """Set defaults on a Job that is created."""
        if _is_about_jobs(review) and review.operation == "CREATE":
            prepare_job(review.object, self._context_of(review.object))

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """The errors for which a create or update of a Job is rejected."""
        if not _is_about_jobs(review):
            return []
        context = self._context_of(review.object)
        if not context.managed:
            return []
        if review.operation == "CREATE":
            return validate_job(review.object) + overrides.errors(_annotations(review.object), context.bounds)
        if review.operation == "UPDATE" and review.old is not None:
            return validate_job_update(review.object, review.old, context)
        return []

    def webhook(self, review: AdmissionReview) -> str:
        """The webhook's name, as error messages print it."""
        return WEBHOOK


def _is_about_jobs(review: AdmissionReview) -> bool:
    return review.resource == JOBS and not review.subresource
