"""Partial admission finds the most pods that fit."""

import pytest

from queue_manager.scheduling.partial_admission import largest_fit
from tests.unit.queueing.builders import pending


def fits(most, tried):
    def attempt(info):
        [pod_set] = info.pod_sets
        tried.append(pod_set.count)
        return pod_set.count if pod_set.count <= most else None

    return attempt


def wants(count, minimum):
    more = {} if minimum is None else {"minCount": minimum}
    pod_sets = [{"name": "main", "count": count, "template": {"spec": {"containers": []}}, **more}]
    return pending(spec={"podSets": pod_sets})


@pytest.mark.parametrize("minimum", [1, 2, 5, 9])
def test_it_is_the_largest_number_below_all_and_not_below_the_least(minimum):
    for most in range(12):
        found = largest_fit(wants(10, minimum), fits(most, []))
        expected = min(most, 9) if most >= minimum else None
        assert found == expected


def test_it_tries_few_numbers_and_none_that_was_not_asked_for():
    tried = []
    largest_fit(wants(1000, 10), fits(700, tried))
    assert len(tried) <= 10
    assert all(10 <= count < 1000 for count in tried)


@pytest.mark.parametrize(("count", "minimum"), [(10, None), (1, 1), (10, 10)])
def test_where_only_all_pods_will_do_nothing_is_tried(count, minimum):
    tried = []
    assert largest_fit(wants(count, minimum), fits(99, tried)) is None
    assert tried == []
