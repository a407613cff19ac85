"""The rules about what only controllers write: the status of Jobs, what pods are counted by, and admissions.

A namespace user with the roles `edit` or `admin` of Kubernetes may patch pods, and so could change what the Job
controller counts; the other two fields are out of reach for these roles, and a policy holds for all roles.
"""

from __future__ import annotations

from collections.abc import Iterable

from job_controller.api_rules.field_errors import forbidden
from job_controller.labels import COMPLETION_INDEX, OWN_TRACKING_FINALIZER, TRACKING_FINALIZERS
from job_controller.managed_by import BUILT_IN_MANAGER, OWN_MANAGER
from queue_manager.api import condition_types, keys
from queue_manager.api.api_resources import JOBS, PODS, WORKLOADS
from queue_manager.installation import cel_texts
from queue_manager.installation.job_policies import managed
from queue_manager.installation.policy_settings import BUILT_IN_JOB_CONTROLLERS, PolicySettings
from queue_manager.installation.policy_types import Target, Validating, Validation

FINALIZERS = tuple(sorted(TRACKING_FINALIZERS))


def job_status(settings: PolicySettings) -> Validating:
    """Return the policy by which only Job controllers write the status of a Job, if it is managed by one of the two."""
    manager = f"object.spec.?managedBy.orValue({cel_texts.text(BUILT_IN_MANAGER)})"
    conditions = {
        "is-managed": managed("object", settings),
        "is-of-known-manager": f"{manager} in {cel_texts.texts((BUILT_IN_MANAGER, OWN_MANAGER))}",
    }
    message = cel_texts.message(forbidden("status", "only the Job controller writes the status of a Job"))
    return Validating(
        Target(JOBS, ("UPDATE",), "status"), conditions, (Validation(_is_job_controller(settings), message),)
    )


def pod_tracking(settings: PolicySettings) -> Validating:
    """Return the policy by which only Job controllers change the finalizers, labels and annotations by which pods are
    counted.
    """
    had = f"f in {cel_texts.finalizers('oldObject')}"
    podset = f'{cel_texts.label("oldObject", keys.PODSET)} != ""'
    own = f"{cel_texts.text(OWN_TRACKING_FINALIZER)} in {cel_texts.finalizers('oldObject')}"
    conditions = {
        "is-tracked": _some_finalizer(had),
        "is-of-managed-job": f"{podset} || {own}",
        "is-not-of-job-controller": f"!({_is_job_controller(settings)})",
    }
    removed = _some_finalizer(f"{had} && !(f in {cel_texts.finalizers('object')})")
    validations = (
        Validation(
            f"!{removed}",
            _forbidden_on_pods("metadata.finalizers", "removes the finalizer that keeps a pod until it is counted"),
        ),
        *(
            Validation(
                f"{read('object', key)} == {read('oldObject', key)}",
                _forbidden_on_pods(f"metadata.{field}[{key}]", "changes it"),
            )
            for read, field, key in (
                (cel_texts.annotation, "annotations", COMPLETION_INDEX),
                (cel_texts.label, "labels", COMPLETION_INDEX),
                (cel_texts.label, "labels", keys.PODSET),
            )
        ),
    )
    return Validating(Target(PODS, ("UPDATE",)), conditions, validations)


def workload_admission(settings: PolicySettings) -> Validating:
    """Return the policy by which only the queue's controllers write the admission of a Workload; anyone may write the
    states of admission checks.
    """
    changes = ["object.?status.?admission != oldObject.?status.?admission"]
    changes += [_differs(condition) for condition in (condition_types.QUOTA_RESERVED, condition_types.ADMITTED)]
    conditions = {"changes-admission": " || ".join(changes)}
    detail = f"only {', '.join(settings.queue_accounts)} writes admission and the conditions QuotaReserved and Admitted"
    rule = f"{cel_texts.USER} in {cel_texts.texts(settings.queue_accounts)}"
    validation = Validation(rule, cel_texts.message(forbidden("status", detail)))
    return Validating(Target(WORKLOADS, ("UPDATE",), "status"), conditions, (validation,))


def _differs(condition: str) -> str:
    return f"{cel_texts.condition_status('object', condition)} != {cel_texts.condition_status('oldObject', condition)}"


def _is_job_controller(settings: PolicySettings) -> str:
    return f"{cel_texts.USER} in {cel_texts.texts(_distinct((*settings.job_controllers, *BUILT_IN_JOB_CONTROLLERS)))}"


def _some_finalizer(condition: str) -> str:
    """Return the CEL expression whether the condition is true for one of the tracking finalizers (`f` in it)."""
    return f"{cel_texts.texts(FINALIZERS)}.exists(f, {condition})"


def _forbidden_on_pods(path: str, what: str) -> str:
    return cel_texts.message(forbidden(path, f"only the Job controller {what}"))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
