"""A clock that was set back: every wait of a Job then takes its own length."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_controller.model import Job, Pod
from job_controller.sync_steps import Decision, JobMemory
from tests.unit.job_controller.build import condition_texts, created, final, indexed, job, pod, run

MINUTE, DAY, MONTH = 60.0, 86400.0, 31 * 86400.0
SKEW = 5.0
BACK = st.sampled_from([1.0, SKEW, 6.0, MINUTE, 3600.0, DAY, MONTH])


def failed(name: str, ended: float, index: int | None = None, failures: int = 0) -> Pod:
    notes = {"batch.kubernetes.io/job-index-failure-count": str(failures)} if index is not None else {}
    return pod(name, "Failed", index, ended=ended, annotations=notes)


def seconds_until(
    happens: Callable[[Decision], bool], job_: Job, *pods: Pod, now: float, memory: JobMemory | None
) -> float:
    """How long the controller waits, syncing only when it asked to, until a decision meets the predicate."""
    began = now
    for _ in range(10):
        decision = run(job_, *pods, now=now, memory=memory)
        if happens(decision):
            return now - began
        assert decision.requeue_after is not None
        now, memory = now + decision.requeue_after, decision.memory
    raise AssertionError("it waits on and on")


def creates(decision: Decision) -> bool:
    return bool(created(decision))


@given(back=BACK, failures=st.integers(1, 8), known=st.booleans())
def test_the_backoff_of_a_job_takes_no_longer_than_its_delay(back: float, failures: int, known: bool) -> None:
    """`known`: the controller had seen the pods before the clock was set back; otherwise it has just started."""
    pods = [failed(f"p{i}", MONTH + i) for i in range(failures)]
    before = run(job(backoff_limit=99), *pods, now=MONTH + failures).memory if known else None
    waited = seconds_until(creates, job(backoff_limit=99), *pods, now=MONTH + failures - back, memory=before)
    delay = min(10 * 2 ** (failures - 1), 600)
    assert delay - 1 <= waited <= delay + SKEW


@given(back=BACK, failures=st.integers(0, 7), known=st.booleans())
def test_the_backoff_of_an_index_takes_no_longer_than_its_delay(back: float, failures: int, known: bool) -> None:
    one = indexed(1, backoff_limit_per_index=99)
    last = failed("p", MONTH, 0, failures)
    before = run(one, last, now=MONTH).memory if known else None
    waited = seconds_until(creates, one, last, now=MONTH - back, memory=before)
    delay = min(10 * 2**failures, 600)
    assert delay <= waited <= delay + SKEW


@given(back=BACK, known=st.booleans())
def test_an_active_deadline_takes_no_longer_than_its_seconds(back: float, known: bool) -> None:
    one, running = job(started=MONTH, active_deadline_seconds=100), pod("a")
    before = run(one, running, now=MONTH).memory if known else None

    def fails(decision: Decision) -> bool:
        return any("DeadlineExceeded" in text for text in condition_texts(final(decision)))

    waited = seconds_until(fails, one, running, now=MONTH - back, memory=before)
    assert 100 <= waited <= 100 + SKEW


def test_a_success_before_the_set_back_still_ends_the_row_of_failures() -> None:
    ended = [failed("a", DAY), failed("b", DAY + 1), pod("s", "Succeeded", ended=DAY + 2)]
    before = run(job(completions=9, backoff_limit=99), *ended, now=DAY + 3).memory
    now = 100.0
    after = run(job(completions=9, backoff_limit=99), *ended, now=now, memory=before)
    assert after.memory.history.number == 0
    later = run(job(completions=9, backoff_limit=99), failed("c", now + 9), now=now + 10, memory=after.memory)
    assert later.memory.history.number == 1
    assert later.requeue_after == 9


@pytest.mark.parametrize("ahead", [1.0, SKEW])
def test_a_node_whose_clock_is_a_little_ahead_is_believed(ahead: float) -> None:
    decision = run(job(backoff_limit=99), failed("p", 50 + ahead), now=50)
    assert decision.requeue_after == 10 + ahead
