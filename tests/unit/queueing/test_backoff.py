import pytest

from queue_manager.queueing.backoff import backoff_seconds


@pytest.mark.parametrize(
    ("base", "maximum", "waits"),
    [
        (60, 3600, [60, 120, 240, 480, 960, 1920, 3600, 3600]),
        (1, 2, [1, 2, 2, 2]),
        (0, 3600, [0, 0, 0]),
        (10, 3, [10, 3, 3]),
        (7, 0, [7, 14, 28]),
    ],
)
def test_waits_double_up_to_the_maximum_and_the_first_is_never_capped(base, maximum, waits):
    assert [backoff_seconds(n, base, maximum) for n in range(1, len(waits) + 1)] == waits


def test_a_great_count_is_computed_at_once():
    assert backoff_seconds(10**9, 60, 3600) == 3600


def test_jitter_only_lengthens_and_by_at_most_a_ten_thousandth():
    assert 60 <= backoff_seconds(1, 60, 3600, jitter=0.999) < 60 * 1.0001
