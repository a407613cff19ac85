"""A Job and its Workload: given both, the next write. Pure.

Theory. The Workload is the Job's request for quota: the Job runs while the Workload is admitted, and is suspended
otherwise. All state is in the two objects. Each call reads both and returns one action; the controller performs it
and asks again, so a crash between two writes loses nothing. A pair is in one of these states:

    no Workload                  Job suspended, no pods: create it     Job runs: suspend the Job first
    Workload does not match      Workload pending: update it           with quota: stop the Job, delete it, create anew
    Workload is being deleted    stop the Job, then remove the Workload's finalizer
    Workload is evicted          stop the Job, then give the quota back
    Workload is admitted         start the Job
    Workload is not admitted     stop the Job
    Job has ended                finish the Workload

Rules are evaluated in order, and the first that applies decides. A rule reads only the situation, so each may rely on
what the rules above it have left. "Stop" is two patches with a wait between them (see `start_stop`); quota is given
back only after the second, when no pod of the Job is left, not even a terminating one. lifecycle/LIFECYCLE.md shows
these rules at work together with those of `lifecycle.rules`.
"""

from __future__ import annotations

from collections.abc import Sequence

from job_controller.model import Job
from queue_manager.api.types import Workload
from queue_manager.jobs import following_rules, import_rules, pairing_rules, running_rules
from queue_manager.jobs.job_situation import JobContext, JobSituation, Rule
from queue_manager.jobs.planned_writes import Nothing, PlannedWrite

RULES: tuple[Rule, ...] = (
    pairing_rules.deleted_job_is_ignored,
    pairing_rules.lost_owner_reference_is_restored,
    import_rules.job_outside_its_queue_runs_on,
    import_rules.imported_job_awaits_its_admission,
    # Jobs that the queue does not manage, or manages through a Job above them
    pairing_rules.child_leaves_its_queue,
    pairing_rules.too_deep_child_is_reported,
    pairing_rules.child_of_pending_parent_is_suspended,
    pairing_rules.unmanaged_job_leaves_queue,
    # the end
    pairing_rules.workload_of_ended_job_is_finished,
    # one Workload for the Job: the prebuilt one that it names, or a new one
    pairing_rules.job_naming_another_workload_leaves_the_one_before,
    pairing_rules.job_without_its_prebuilt_workload_is_suspended,
    pairing_rules.prebuilt_workload_of_another_job_is_reported,
    pairing_rules.prebuilt_workload_is_adopted,
    pairing_rules.running_job_without_workload_is_suspended,
    pairing_rules.stop_without_workload_is_ended,
    pairing_rules.pods_of_earlier_run_are_awaited,
    pairing_rules.new_job_of_unknown_priority_class_is_reported,
    pairing_rules.workload_is_created,
    pairing_rules.surplus_workload_is_deleted,
    # that Workload is on its way out, or does not fit the Job
    pairing_rules.job_of_deleted_workload_is_stopped,
    pairing_rules.deleted_workload_is_released,
    pairing_rules.job_of_finished_workload_is_stopped,
    pairing_rules.edited_job_is_stopped,
    pairing_rules.prebuilt_workload_of_edited_job_is_finished,
    pairing_rules.workload_with_quota_of_edited_job_is_deleted,
    pairing_rules.reclaimable_pods_of_edited_job_are_lowered,
    pairing_rules.pending_workload_follows_edited_job,
    # Job and Workload match
    following_rules.pods_are_reported,
    running_rules.job_of_evicted_workload_is_stopped,
    running_rules.quota_of_stopped_job_is_released,
    running_rules.admitted_job_is_started,
    running_rules.job_that_is_not_admitted_is_stopped,
    following_rules.workload_follows_queue_name,
    following_rules.workload_follows_priority_class,
    following_rules.workload_follows_admission_gates,
    following_rules.workload_follows_overrides,
    following_rules.pods_are_expected,
    # nothing to write
    running_rules.missing_flavor_or_queue_is_reported,
    running_rules.pending_admission_checks_are_reported,
    following_rules.unknown_priority_class_is_reported,
)


def decide(job: Job, owned: Sequence[Workload], context: JobContext) -> PlannedWrite:
    """The next action for a Job. `owned`: the Workloads that it controls, and those that only carry its UID label."""
    situation = JobSituation(job, owned, context)
    for rule in RULES:
        action = rule(situation)
        if action is not None:
            return action
    return Nothing()
