"""Which write goes next: what lets work run, then what explains, at its pace."""

from __future__ import annotations

import pytest

from job_controller.model import Key
from queue_manager.scheduler.pending_reasons import next_turn
from queue_manager.scheduler.write_queue import (
    BURST,
    BUSY_PERIODS,
    BUSY_WRITES,
    EXPLAINING_SLOTS,
    EXPLANATIONS_PER_SECOND,
    FEW,
    MOST_POSTPONED_SECONDS,
    NEVER_LEAD_SECONDS,
    SLOTS,
    WriteQueue,
)

PERIOD = 30.0


def key(number: int) -> Key:
    return Key("ns", f"w{number}")


def taken(queue: WriteQueue, now: float = 0.0) -> list[str]:
    """All that may be written now, each of it done at once."""
    names = []
    while (one := queue.take(now)) is not None:
        names.append(one.name)
        queue.done(one, now)
    return names


def test_an_admission_goes_before_explanations_that_came_earlier() -> None:
    queue = WriteQueue(PERIOD)
    for number in range(3):
        queue.add(key(number), 0.0, explains=True)
    queue.add(key(3), 0.0, explains=False)
    assert taken(queue)[0] == "w3"


def test_an_explanation_becomes_urgent_when_its_workload_is_admitted() -> None:
    queue = WriteQueue(PERIOD)
    queue.add(key(0), 0.0, explains=True)
    queue.add(key(1), 0.0, explains=True)
    queue.add(key(1), 0.0, explains=False)
    assert taken(queue, 0.5) == ["w1", "w0"]


def test_urgent_writes_keep_the_order_of_their_arrival() -> None:
    queue = WriteQueue(PERIOD)
    for number in (2, 0, 1, 2):
        queue.add(key(number), 0.0, explains=False)
    assert taken(queue) == ["w2", "w0", "w1"]


def test_a_workload_is_written_by_one_task_at_a_time_and_again_afterwards() -> None:
    queue = WriteQueue(PERIOD)
    queue.add(key(0), 0.0, explains=False)
    first = queue.take(0.0)
    queue.add(key(0), 0.0, explains=True)
    queue.add(key(0), 0.0, explains=False)
    assert (first, queue.take(0.0)) == (key(0), None)
    queue.done(key(0), 0.0)
    assert taken(queue) == ["w0"]


def test_urgent_keys_count_until_they_are_written_and_explanations_do_not() -> None:
    queue = WriteQueue(PERIOD)
    for number in range(SLOTS + 5):
        queue.add(key(number), 0.0, explains=False)
    queue.add(key(100), 0.0, explains=True)
    while queue.take(0.0) is not None:
        pass
    assert queue.urgent == SLOTS + 5
    queue.done(key(0), 0.0)
    assert queue.urgent == SLOTS + 4


def test_what_is_added_before_a_write_begins_goes_with_it() -> None:
    queue = WriteQueue(PERIOD)
    queue.add(key(0), 0.0, explains=False)
    queue.take(0.0)
    queue.add(key(0), 0.0, explains=False)
    queue.begin(key(0))
    queue.done(key(0), 0.0)
    assert taken(queue) == []


def test_a_withdrawn_explanation_is_not_written() -> None:
    queue = WriteQueue(PERIOD)
    queue.add(key(0), 0.0, explains=True)
    queue.discard(key(0))
    assert taken(queue) == []


def test_writes_use_no_more_than_the_slots_and_explanations_few_of_them() -> None:
    queue = WriteQueue(PERIOD)
    for number in range(100):
        queue.add(key(number), 100.0, explains=True)
    assert sum(queue.take(100.0) is not None for _ in range(100)) == EXPLAINING_SLOTS
    for number in range(100, 200):
        queue.add(key(number), 100.0, explains=False)
    assert sum(queue.take(100.0) is not None for _ in range(100)) == SLOTS - EXPLAINING_SLOTS


def test_without_a_period_explanations_are_as_urgent_as_all_others() -> None:
    queue = WriteQueue(0.0)
    for number in range(100):
        queue.add(key(number), 0.0, explains=number % 2 == 0)
    assert taken(queue) == [f"w{number}" for number in range(100)]


def test_explanations_have_a_pace_after_a_first_burst() -> None:
    queue = WriteQueue(PERIOD)
    for number in range(100):
        queue.add(key(number), 100.0, explains=True)
    first = len(taken(queue, 100.0))
    assert first == BURST + 1
    later = queue.wake_at(100.0)
    assert later == pytest.approx(100.0 + 1 / EXPLANATIONS_PER_SECOND)
    assert len(taken(queue, 101.0)) == pytest.approx(EXPLANATIONS_PER_SECOND, abs=1)


@pytest.mark.parametrize(("unanswered", "written"), [(BUSY_WRITES - 1, 5 * EXPLANATIONS_PER_SECOND), (BUSY_WRITES, 0)])
def test_no_explanation_is_written_while_urgent_writes_wait_for_an_answer(unanswered: int, written: float) -> None:
    queue = WriteQueue(PERIOD)
    for number in range(unanswered):
        queue.add(key(number), 0.0, explains=False)
        queue.take(0.0)
    for number in range(100, 300):
        queue.add(key(number), 0.0, explains=True)
    taken(queue, 0.0)
    assert sum(len(taken(queue, tenth / 10)) for tenth in range(1, 51)) == pytest.approx(written, abs=2)


@pytest.mark.parametrize(
    ("per_second", "seconds", "left"),
    [(0, 0.0, 1.0), (5, 0.01, 0.5), (25, 0.002, 0.5), (50, 0.002, 0.0), (100, 0.01, 0.0)],
)
def test_explanations_are_fewer_the_longer_urgent_writes_take(per_second: int, seconds: float, left: float) -> None:
    """`left`: the share of the explanations that are written without urgent writes."""
    queue = WriteQueue(1000 * PERIOD)  # so long that no explanation is overdue
    for number in range(2000):
        queue.add(key(number), 0.0, explains=True)
    taken(queue, 0.0)
    written = 0
    for tick in range(1, 10_001):  # ten seconds
        now = tick / 1000
        if per_second and tick % (1000 // per_second) == 0:
            queue.add(Key("ns", "urgent"), now, explains=False)
            queue.take(now)
            queue.done(Key("ns", "urgent"), now + seconds)
        written += len(taken(queue, now))
    assert written == pytest.approx(left * 10 * EXPLANATIONS_PER_SECOND, rel=0.1, abs=BURST)
    later = [name for tick in range(150) for name in taken(queue, 10 + MOST_POSTPONED_SECONDS + tick / 100)]
    assert later  # soon after the last urgent write


def busy() -> WriteQueue:
    """None of the urgent writes is answered."""
    queue = WriteQueue(PERIOD)
    for number in range(BUSY_WRITES):
        queue.add(Key("ns", f"urgent-{number}"), 0.0, explains=False)
        queue.take(0.0)
    return queue


def test_beside_any_urgent_writes_one_per_second_says_never() -> None:
    queue = busy()
    for number in range(20):
        queue.add(key(number), 0.0, explains=True, never=number >= 15)
    assert [name for tick in range(31) for name in taken(queue, tick / 10)] == ["w15", "w16", "w17", "w18"]
    assert queue.wake_at(3.0) == 4.0


def test_who_can_never_start_is_known_by_the_newest_explanation() -> None:
    queue = busy()
    queue.add(key(0), 0.0, explains=True, never=True)
    queue.add(key(1), 0.0, explains=True, never=True)
    queue.add(key(1), 0.0, explains=True)
    written = queue.take(1.0)
    assert written == key(0)
    queue.add(key(0), 1.0, explains=True, never=True)
    queue.done(key(0), 1.0)
    for number in range(2, FEW + 2):
        queue.add(key(number), 1.0, explains=True)
    assert [name for tick in range(10, 70) for name in taken(queue, tick / 10)] == ["w0"]


@pytest.mark.parametrize(("count", "since"), [(FEW, 1.0), (FEW + 1, BUSY_PERIODS * PERIOD)])
def test_beside_any_urgent_writes_one_is_written_if_few_wait_or_it_is_old(count: int, since: float) -> None:
    queue = busy()
    for number in range(count):
        queue.add(key(number), 0.0, explains=True)
    assert queue.wake_at(0.0) == since
    assert taken(queue, since - 0.1) == []
    assert [taken(queue, since + second) for second in range(3)] == [["w0"], ["w1"], ["w2"]]


def test_who_can_never_start_goes_before_those_that_have_not_waited_a_minute_longer() -> None:
    queue = busy()
    for number, now in enumerate((0.0, 1.0, NEVER_LEAD_SECONDS + 0.5)):
        queue.add(key(number), now, explains=True, never=number == 2)
    now = NEVER_LEAD_SECONDS + 1
    assert [taken(queue, now + second) for second in range(3)] == [["w0"], ["w2"], ["w1"]]


@pytest.mark.parametrize("count", [10, 1_000, 15_000])
def test_each_explanation_is_written_within_the_period(count: int) -> None:
    queue = WriteQueue(PERIOD)
    for number in range(count):
        queue.add(key(number), 0.0, explains=True)
    now, left, most = 0.0, count, 0
    while left and now < 10 * PERIOD:
        written = len(taken(queue, now))
        left, most, now = left - written, max(most, written if now else 0), now + 0.1
    assert (left, now <= PERIOD + 0.2) == (0, True)
    assert most <= 0.1 * max(EXPLANATIONS_PER_SECOND, count / PERIOD) + 2  # evenly, no rush at the end


def test_turns_of_refreshed_messages_are_spread_over_the_period_and_come_once_in_it() -> None:
    turns = sorted(next_turn(f"uid-{n}", PERIOD, 1000.0) for n in range(3000))
    assert turns[0] >= 1000.0
    assert turns[-1] < 1000.0 + PERIOD
    for second in range(int(PERIOD)):
        assert 50 < sum(second <= turn - 1000.0 < second + 1 for turn in turns) < 200
    first = next_turn("u", PERIOD, 1000.0)
    assert next_turn("u", PERIOD, first + 0.001) == pytest.approx(first + PERIOD)
    assert next_turn("u", 0.0, 1000.0) == 1000.0
