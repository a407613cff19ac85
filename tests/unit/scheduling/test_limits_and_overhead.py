"""What LimitRanges of a namespace and a runtime class add to the requests of a pod
(queue_manager/BEHAVIOUR.md#q15-counted-requests).
"""

import msgspec
import pytest

from queue_manager.api.types import LimitRange
from queue_manager.scheduling.limits_and_overhead import PodSurroundings
from queue_manager.scheduling.workload_info import RequestReader, info
from tests.unit.queueing.builders import workload

PATH = "spec.podSets[0].template.spec"


def around(*items, overheads=None):
    ranges = tuple(msgspec.convert({"spec": {"limits": [item]}}, LimitRange) for item in items)
    return PodSurroundings(ranges, overheads or {})


def reader_of(*items):
    return RequestReader(surroundings=around(*items))


@pytest.mark.parametrize("spec", [{}, {"limits": None}])
def test_a_limit_range_without_limits_is_read_and_says_nothing(spec):
    """API servers write the list as null where there is none."""
    empty = PodSurroundings((msgspec.convert({"spec": spec}, LimitRange),), {})
    assert empty.complete({"containers": [{"name": "c"}]}) == around().complete({"containers": [{"name": "c"}]})
    assert empty.refusal({"containers": [container({"cpu": "1"})]}, PATH) == ""


def container(requests=None, limits=None):
    resources = {"requests": requests, "limits": limits}
    return {"name": "c", "resources": {key: value for key, value in resources.items() if value is not None}}


DEFAULTS = {"type": "Container", "default": {"cpu": "4"}, "defaultRequest": {"cpu": "2"}}


@pytest.mark.parametrize(
    ("own", "requests", "limits"),
    [
        (container(), {"cpu": "2"}, {"cpu": "4"}),
        (container({"cpu": "1"}), {"cpu": "1"}, {"cpu": "4"}),
        (container(limits={"cpu": "3"}), {"cpu": "3"}, {"cpu": "3"}),  # its own limit is its request first
        (container({"cpu": "1"}, {"cpu": "3"}), {"cpu": "1"}, {"cpu": "3"}),
        (container({"memory": "1Gi"}), {"memory": "1Gi", "cpu": "2"}, {"cpu": "4"}),
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_containers_get_the_defaults_they_leave_open(kind, own, requests, limits):
    completed = around(DEFAULTS).complete({kind: [own]})
    assert completed == {kind: [{"name": "c", "resources": {"requests": requests, "limits": limits}}]}


def test_what_a_container_has_is_left_as_it_was():
    spec = {"containers": [container({"cpu": "1"})]}
    around(DEFAULTS).complete(spec)
    assert spec == {"containers": [container({"cpu": "1"})]}
    pods_only = around({"type": "Pod", "max": {"cpu": "9"}, "default": {"cpu": "4"}})
    assert pods_only.complete(spec) is spec


@pytest.mark.parametrize(
    ("spec", "overhead"),
    [
        ({"runtimeClassName": "vm"}, {"cpu": "250m"}),
        ({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}, {"cpu": "1"}),
        ({"runtimeClassName": "plain"}, None),
        ({}, None),
    ],
)
def test_a_runtime_class_adds_its_overhead_unless_the_pod_names_one(spec, overhead):
    assert around(overheads={"vm": {"cpu": "250m"}}).complete(spec).get("overhead") == overhead


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"type": "Container", "max": {"cpu": "2"}}, ""),
        ({"type": "Container", "max": {"cpu": "1999m"}}, f'{PATH}.containers[1]: ["cpu"] above max'),
        ({"type": "Container", "min": {"cpu": "1"}}, ""),
        ({"type": "Container", "min": {"cpu": "1001m"}}, f'{PATH}.containers[0]: ["cpu"] below min'),
        ({"type": "Container", "max": {"memory": "1Mi", "cpu": "1"}}, f'{PATH}.containers[0]: ["memory"] above max'),
        ({"type": "Container", "min": {"example.com/gpu": "1"}}, ""),  # only of what is asked for
        ({"type": "Pod", "max": {"cpu": "3"}}, ""),
        ({"type": "Pod", "max": {"cpu": "2", "memory": "1Mi"}}, f'{PATH}: ["cpu", "memory"] above max'),
        ({"type": "Pod", "min": {"cpu": "4"}}, f'{PATH}: ["cpu"] below min'),
        ({"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}, ""),
    ],
)
def test_a_pod_beyond_a_bound_is_refused_by_name(item, words):
    spec = {"containers": [container({"cpu": "1", "memory": "1Gi"}), container({"cpu": "2"})]}
    expected = words
    for kind, bound in (("above", "max"), ("below", "min")):
        text = f"requests must not be {kind} the limitRange {bound}"
        if words.endswith(f"{kind} {bound}"):
            path, names = words.removesuffix(f" {kind} {bound}").split(": ")
            expected = f"{path}: Invalid value: {names}: {text}"
    assert around(item).refusal(spec, PATH) == expected


@pytest.mark.parametrize(
    ("request_", "limit", "item", "refused"),
    [
        ("1", "4", {"max": {"cpu": "2"}}, True),
        ("1", "4", {"max": {"cpu": "4"}}, False),
        ("1", "4", {"min": {"cpu": "2"}}, True),
        ("4", "1", {"max": {"cpu": "2"}}, True),  # where the limit is a default of the LimitRange
    ],
)
def test_a_limit_must_not_be_above_the_most_nor_a_request_below_the_least(request_, limit, item, refused):
    spec = {"containers": [container({"cpu": request_}, {"cpu": limit})]}
    assert bool(around({"type": "Container", **item}).refusal(spec, PATH)) == refused


def test_init_containers_are_bound_too_and_looked_at_first():
    spec = {"initContainers": [container({"cpu": "9"})], "containers": [container({"cpu": "9"})]}
    reported = around({"type": "Container", "max": {"cpu": "1"}}).refusal(spec, PATH)
    assert reported.startswith(f"{PATH}.initContainers[0]: ")


def with_pod(resources):
    return workload(pod={"containers": [{"name": "c", "resources": resources}]})


@pytest.mark.parametrize(
    ("resources", "items", "error"),
    [
        ({"requests": {"cpu": "1"}}, (), ""),
        ({"requests": {"cpu": "x"}}, (), "resources validation failed: "),
        ({"requests": {"cpu": "-1"}}, (), "resources validation failed: negative request for cpu"),
        (
            {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}},
            (),
            f"resources validation failed: {PATH}.containers[0]: ",
        ),
        ({"requests": {"cpu": "3"}}, ({"type": "Pod", "max": {"cpu": "2"}},), "resources didn't satisfy LimitRange "),
        ({"requests": {"cpu": "5"}}, (DEFAULTS,), f"resources validation failed: {PATH}.containers[0]: "),
        ({}, (DEFAULTS, {"type": "Pod", "max": {"cpu": "1"}}), "resources didn't satisfy LimitRange constraints: "),
    ],
)
def test_what_can_never_run_is_the_error_of_its_workload(resources, items, error):
    reported = info(with_pod(resources), reader=reader_of(*items)).error
    assert reported.startswith(error)
    assert bool(reported) is bool(error)


def test_what_is_added_counts_against_quota():
    read = info(with_pod({}), reader=reader_of(DEFAULTS))
    assert read.pod_sets[0].single == {"cpu": 2000}
