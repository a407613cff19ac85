"""When the messages of refused Workloads are brought up to date."""

from queue_manager.queueing.refresh_turns import AHEAD, TURNS, StaleMessages, phase_of, turn_of

PERIOD = 64.0  # a turn takes a second


def test_every_workload_has_one_turn_in_the_period_after_the_last_change():
    stale, now = StaleMessages(PERIOD), 1000.5
    stale.add(["cq"], now)
    seen = []
    while stale:
        now += stale.turn_seconds
        queues, turns = stale.take(now)
        assert queues == ["cq"]
        seen += turns
    assert set(seen) == set(range(TURNS))
    assert now - 1000.5 <= PERIOD + 3
    assert stale.take(now + 1)[0] == []


def test_a_change_meanwhile_prolongs_it_for_its_cluster_queue_only():
    stale = StaleMessages(PERIOD)
    stale.add(["a", "b"], 0.0)
    stale.add(["b"], 30.0)
    assert stale.take(67.0)[0] == ["a", "b"]
    assert stale.take(68.0)[0] == ["b"]


def test_turns_are_not_left_out_when_a_timer_is_late():
    stale = StaleMessages(PERIOD)
    stale.add(["cq"], 0.5)
    assert stale.take(1.5)[1] == [AHEAD, AHEAD + 1]
    assert stale.take(5.5)[1] == [AHEAD + 2 + n for n in range(4)]
    assert len(stale.take(500.0)[1]) == TURNS


def test_a_workload_is_tried_shortly_before_its_message_is_written():
    for uid in ("a", "b", "c"):
        stale = StaleMessages(PERIOD)
        written = 1000 * PERIOD + phase_of(uid) * PERIOD
        now = 999 * PERIOD
        stale.add(["cq"], now)
        while turn_of(uid) not in stale.take(now)[1]:
            now += 0.25
        assert 0 < (written - now) % PERIOD <= AHEAD + 1
