"""queue_manager/lifecycle/LIFECYCLE.md is generated from the rules of both sides, and is up to date."""

import pytest

from queue_manager.jobs import lifecycle_page, retry_walk
from queue_manager.lifecycle import diagram
from queue_manager.lifecycle.state_space import MOVES


@pytest.mark.thorough
def test_the_page_is_up_to_date() -> None:
    """The page in the repository is what `make crds` generates now."""
    assert diagram.FILE.read_text(encoding="utf-8") == lifecycle_page.render()


def test_the_walk_leads_from_timeout_to_reactivation() -> None:
    """Each milestone is written by this rule, in this order."""
    milestones = iter(
        [
            ("workload_is_created", "create"),
            ("admitted_job_is_started", "spec.suspend=false"),
            ("workload_past_deadline_is_evicted", "Evicted=True PodsReadyTimeout"),
            ("job_of_evicted_workload_is_stopped", "spec.suspend=true"),
            ("quota_of_stopped_job_is_released", "QuotaReserved=False"),
            ("workload_in_backoff_is_requeued", "Requeued=True BackoffFinished"),
            ("workload_past_deadline_is_evicted", "DeactivationTarget=True RequeuingLimitExceeded"),
            ("announced_deactivation_is_written", "spec.active=false"),
            ("inactive_workload_is_evicted", "Evicted=True DeactivatedDueToRequeuingLimitExceeded"),
            ("quota_of_stopped_job_is_released", "Admitted=False"),
            ("workload_in_backoff_is_requeued", "Requeued=True Reactivated"),
            ("pods_are_reported", "PodsReady=True"),
            ("workload_of_ended_job_is_finished", "Finished=True Succeeded"),
            ("finished_workload_is_released_and_expires", "finalizer removed"),
        ]
    )
    awaited = next(milestones)
    for step in retry_walk.walk():
        rule, change = awaited
        if step.place.endswith(f" {rule}") and change in step.change:
            awaited = next(milestones, ("", ""))
    assert awaited == ("", "")


def test_each_move_of_the_diagram_names_its_function() -> None:
    assert lifecycle_page.PLACES.keys() == MOVES.keys()
