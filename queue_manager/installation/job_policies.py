"""The rules about Jobs and CronJobs that users write. Those that Kueue has too answer with the webhook's messages.

A Job is *managed* here if it names a LocalQueue; with manageJobsWithoutQueueName also if no Job controls it. Whether
the owner of a Job is managed, no policy can read: the controllers handle such Jobs (BEHAVIOUR.md#q1-managed-jobs).
"""

from __future__ import annotations

from job_controller.api_rules.field_errors import IMMUTABLE, forbidden, invalid
from job_controller.managed_by import BUILT_IN_MANAGER, OWN_MANAGER
from queue_manager.api import keys, messages
from queue_manager.api.api_resources import JOBS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, Resource
from queue_manager.installation import cel_texts
from queue_manager.installation.policy_settings import BUILT_IN_CRON_CONTROLLERS, PolicySettings
from queue_manager.installation.policy_types import Mutating, Target, Validating, Validation

CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
QUEUE_PATH = f"metadata.labels[{keys.QUEUE_NAME}]"
CLASS_PATH = f"metadata.labels[{keys.PRIORITY_CLASS}]"
CREATED, CHANGED = Target(JOBS, ("CREATE",)), Target(JOBS, ("UPDATE",))
QUEUE, OLD_QUEUE = cel_texts.label("object", keys.QUEUE_NAME), cel_texts.label("oldObject", keys.QUEUE_NAME)
CLASS, OLD_CLASS = cel_texts.label("object", keys.PRIORITY_CLASS), cel_texts.label("oldObject", keys.PRIORITY_CLASS)
RUNS = f"!{cel_texts.suspended('object')}"


def managed(of: str, settings: PolicySettings) -> str:
    """Return the CEL expression that is true for a managed Job, as far as a policy can read that."""
    named = f'{cel_texts.label(of, keys.QUEUE_NAME)} != ""'
    return f"{named} || !{cel_texts.is_child_of_job(of)}" if settings.manage_all else named


def suspend_on_create(settings: PolicySettings) -> Mutating:
    """Return the policy that suspends managed Jobs at their creation, as the webhook does."""
    conditions = {"is-managed": managed("object", settings), "is-not-suspended": RUNS}
    return Mutating(CREATED, conditions, "Object{spec: Object.spec{suspend: true}}")


def managed_by(settings: PolicySettings) -> Mutating:
    """Return the policy that sets spec.managedBy of a new managed Job to Sluice, if it names no Job controller."""
    conditions = {"is-managed": managed("object", settings), "has-no-manager": "!has(object.spec.managedBy)"}
    return Mutating(CREATED, conditions, f"Object{{spec: Object.spec{{managedBy: {cel_texts.text(OWN_MANAGER)}}}}}")


def known_manager(settings: PolicySettings) -> Validating:
    """Return the policy that warns if spec.managedBy of a managed Job names neither Job controller."""
    known = (BUILT_IN_MANAGER, OWN_MANAGER)
    conditions = {"is-managed": managed("object", settings), "has-manager": "has(object.spec.managedBy)"}
    detail = f"is neither {' nor '.join(known)}; the Job gets no pods unless a controller of that name runs"
    path, value = "spec.managedBy", "object.spec.managedBy"
    message = cel_texts.message(invalid(path, cel_texts.VALUE, detail), value)
    return Validating(CREATED, conditions, (Validation(f"{value} in {cel_texts.texts(known)}", message),), "Warn")


def queue_name(settings: PolicySettings) -> Validating:
    """Return the policy that refuses a changed queue of a running Job (`validate_job_update`).

    A user who may create Workloads may give a queue to a Job without one, for `sluice import`. A policy cannot read
    whether the Job's Workload is admitted; the controllers suspend the Job if it is not.
    """
    conditions = {"changes-queue": f"{QUEUE} != {OLD_QUEUE}"}
    message = cel_texts.message(invalid(QUEUE_PATH, cel_texts.VALUE, IMMUTABLE), QUEUE)
    importer = f'{OLD_QUEUE} == "" && {_may(WORKLOADS, "create")}'
    return Validating(CHANGED, conditions, (Validation(f"!({RUNS}) || ({importer})", message),), asks_authorizer=True)


def queue_name_kept(settings: PolicySettings) -> Validating:
    """Return the policy that refuses to remove a Job from its queue: it would run without quota."""
    conditions = {"leaves-queue": f'{OLD_QUEUE} != "" && {QUEUE} == ""'}
    detail = (
        f"cannot be removed from a Job in a queue; {_ask(settings, 'delete the Job and create it without the label')}"
    )
    return Validating(CHANGED, conditions, (Validation("false", cel_texts.message(forbidden(QUEUE_PATH, detail))),))


def priority_class(settings: PolicySettings) -> Validating:
    """Return the policy that refuses a new class for a running Job, and a removed class (`validate_job_update`)."""
    conditions = {"changes-class": f"{CLASS} != {OLD_CLASS}", "is-queued": f'{QUEUE} != ""'}
    added = invalid(CLASS_PATH, cel_texts.VALUE, messages.CLASS_ADDED_TO_RUNNING)
    removed = invalid(CLASS_PATH, cel_texts.VALUE, messages.CLASS_REMOVED)
    validations = (
        Validation(f'{OLD_CLASS} != "" || !({RUNS})', cel_texts.message(added, CLASS)),
        Validation(f'{CLASS} != ""', cel_texts.message(removed, CLASS)),
    )
    return Validating(CHANGED, conditions, validations)


def unsuspend(settings: PolicySettings) -> Validating:
    """Return the policy by which only the queue's controllers may unsuspend a managed Job."""
    conditions = {
        "is-unsuspended": f"{cel_texts.suspended('oldObject')} && {RUNS}",
        "was-managed": managed("oldObject", settings),
    }
    who = ", ".join(settings.queue_accounts)
    detail = f"only {who} may unsuspend a Job in a queue, once its Workload is admitted; see what it waits for"
    error = forbidden("spec.suspend", _ask(settings, f"{detail} (sluice explain {cel_texts.VALUE})"))
    message = cel_texts.message(error, 'object.metadata.namespace + "/" + object.metadata.name')
    return Validating(
        CHANGED, conditions, (Validation(f"{cel_texts.USER} in {cel_texts.texts(settings.queue_accounts)}", message),)
    )


def priority_class_use(settings: PolicySettings) -> Validating:
    """Return the policy by which a user needs the verb `use` on the WorkloadPriorityClass of created Jobs.

    A Job of a CronJob was checked when the CronJob was written.
    """
    writer = f"!({cel_texts.USER} in {cel_texts.texts(BUILT_IN_CRON_CONTROLLERS)})"
    return _use(Target(JOBS, ("CREATE", "UPDATE")), "metadata", {"is-not-of-cron-job": writer}, settings)


def priority_class_use_in_cron_jobs(settings: PolicySettings) -> Validating:
    """Return the policy by which a user needs the verb `use` on the WorkloadPriorityClass in a CronJob's template."""
    return _use(Target(CRON_JOBS, ("CREATE", "UPDATE")), "spec.jobTemplate.?metadata", {}, settings)


def _use(target: Target, meta: str, more: dict[str, str], settings: PolicySettings) -> Validating:
    name, before = (cel_texts.label(of, keys.PRIORITY_CLASS, meta) for of in ("object", "oldObject"))
    changed = f'{name} != "" && (request.operation == "CREATE" || {name} != {before})'
    conditions = {"names-class": f"{changed} && {name} != {cel_texts.text(settings.default_class)}", **more}
    classes = WORKLOAD_PRIORITY_CLASSES
    rule = _may(classes, "use", f".name({name})")
    path = f"{meta.replace('?', '')}.labels[{keys.PRIORITY_CLASS}]"
    detail = f"you may not use this WorkloadPriorityClass; you need a Role that grants the verb use on {classes}"
    message = cel_texts.message(invalid(path, cel_texts.VALUE, _ask(settings, detail)), name)
    return Validating(target, conditions, (Validation(rule, message),), asks_authorizer=True)


def _may(resource: Resource, verb: str, name: str = "") -> str:
    """Return the CEL expression whether the user may do this in the request's namespace. `name`: selects one object."""
    authorizer = f"authorizer.group({cel_texts.text(resource.group)}).resource({cel_texts.text(resource.plural)})"
    return f"{authorizer}.namespace(request.namespace){name}.check({cel_texts.text(verb)}).allowed()"


def _ask(settings: PolicySettings, instead: str) -> str:
    """Return the end of a refusal's message: what to do instead, and who is exempt."""
    group = settings.break_glass_group
    return f"{instead}, or act as the group {group} in an emergency" if group else instead
