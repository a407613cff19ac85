"""The order of what happened within one second."""

from __future__ import annotations

from itertools import permutations

from queue_manager.accounting.record_types import PodRecord, StepKind, StepRecord
from queue_manager.accounting.step_order import in_order, shown_attempts, timeline
from tests.unit.accounting.history_samples import admitted, finished, pod, step


def kinds(*entries: StepRecord | PodRecord) -> set[tuple[str, ...]]:
    """The orders that come out of all orders in which a store may return the entries."""
    found = set()
    for given in permutations(entries):
        steps = [entry for entry in given if isinstance(entry, StepRecord)]
        pods = [entry for entry in given if isinstance(entry, PodRecord)]
        found.add(tuple(e.kind if isinstance(e, StepRecord) else f"Pod{e.phase}" for e in timeline(steps, pods)))
    return found


def test_a_failed_pod_comes_before_the_end_of_its_job() -> None:
    failed = pod(seconds=5, phase="Failed")
    assert kinds(admitted(5), failed, finished(5, "BackoffLimitExceeded")) == {("Admitted", "PodFailed", "Finished")}


def test_a_deleted_pod_comes_between_the_eviction_and_the_next_attempt() -> None:
    entries = (step(StepKind.EVICTED, 5), step(StepKind.RELEASED, 5), admitted(5, 2), pod(seconds=5, phase="Deleted"))
    assert kinds(*entries) == {("Evicted", "PodDeleted", "Released", "Admitted")}


def test_a_pod_that_failed_after_an_admission_is_of_that_attempt() -> None:
    entries = (step(StepKind.EVICTED, 5), step(StepKind.RELEASED, 5), admitted(5, 2), pod(seconds=5, phase="Failed"))
    assert kinds(*entries) == {("Evicted", "Released", "Admitted", "PodFailed")}


def test_a_failed_container_comes_before_the_eviction_and_the_end_of_its_pod() -> None:
    failed = step(StepKind.CONTAINER_FAILED, 5, 0, occurrence=1)
    entries = (admitted(5), failed, step(StepKind.EVICTED, 5), pod(seconds=5, phase="Deleted"))
    assert kinds(*entries) == {("Admitted", "ContainerFailed", "Evicted", "PodDeleted")}


def test_a_hold_follows_the_eviction_that_it_caused_and_precedes_an_admission() -> None:
    held = step(StepKind.HELD, 5, occurrence=1)
    resumed = step(StepKind.RESUMED, 5, occurrence=2)
    again = step(StepKind.HELD, 5, occurrence=3)
    drained = [step(StepKind.EVICTED, 5), step(StepKind.RELEASED, 5)]
    assert in_order([held, *drained, admitted(1)])[-1] == held
    assert in_order([again, resumed, admitted(5), held]) == [held, resumed, again, admitted(5)]


def test_a_hold_follows_the_reactivation_or_requeue_that_led_to_it() -> None:
    off, on = step(StepKind.DEACTIVATED, 3), step(StepKind.REACTIVATED, 5, occurrence=2)
    held, earlier = step(StepKind.HELD, 5, occurrence=3), step(StepKind.HELD, 5, occurrence=1)
    assert in_order([held, on, off]) == [off, on, held]
    assert in_order([on, earlier, off]) == [off, earlier, on]
    evicted, back = step(StepKind.EVICTED, 4), step(StepKind.REQUEUED, 5)
    assert in_order([held, back, evicted]) == [evicted, back, held]


def test_a_hold_precedes_the_deactivation_that_ends_it_in_the_same_second() -> None:
    held, off = step(StepKind.HELD, 5, occurrence=1), step(StepKind.DEACTIVATED, 5)
    on, again = step(StepKind.REACTIVATED, 5, occurrence=2), step(StepKind.HELD, 5, occurrence=3)
    assert in_order([off, held]) == in_order([held, off]) == [held, off]
    assert in_order([again, off, on, held]) == in_order([held, on, off, again]) == [held, off, on, again]


def test_a_step_between_attempts_has_the_number_of_the_one_before() -> None:
    """A Job is deactivated before its first attempt, which counts as an eviction, and held between the two."""
    never = [step(StepKind.HELD, 1), step(StepKind.DEACTIVATED, 2), step(StepKind.REACTIVATED, 3, occurrence=1)]
    resumed = step(StepKind.RESUMED, 4, 2, occurrence=2)
    first = [admitted(5, 2), pod(seconds=6), step(StepKind.EVICTED, 7, 2), step(StepKind.RELEASED, 8, 2)]
    between = [step(StepKind.HELD, 9, 2, occurrence=3), step(StepKind.RESUMED, 10, 3, occurrence=4)]
    assert shown_attempts([*never, resumed]) == [0, 0, 0, 0]
    entries = [*never, resumed, *first, *between, admitted(11, 3), finished(12)]
    assert shown_attempts(entries) == [0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 2, 0]
