import pytest

from queue_manager.queueing.requeue_backoff import backoff_seconds


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


def test_the_original_design_grows_by_a_fixed_factor_without_base_or_cap():
    waits = [backoff_seconds(n, 60, 3600, formula="KEP1282") for n in range(1, 31)]
    assert waits[:3] == pytest.approx([1, 1.41284738, 1.99613772])
    assert waits[-1] == pytest.approx(22530, abs=1)
    assert sum(waits) == pytest.approx(86400 - 31 * 300, abs=1)


def test_a_great_count_of_the_original_design_stays_a_date():
    assert backoff_seconds(10**9, 0, 0, jitter=0.5, formula="KEP1282") < 200 * 365 * 86400


def test_without_a_maximum_a_wait_stays_within_what_a_date_can_say() -> None:
    """As with Kueue, for which 0 is 146 years. Counts are in the status, where anybody may write them."""
    assert backoff_seconds(10**9, 10, 0, jitter=0.5) < 200 * 365 * 86400
