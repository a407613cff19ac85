"""What a pod asks for."""

import pytest

from queue_manager.scheduling.pod_requests import over_limits, pod_requests


def container(requests=None, limits=None, **more):
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"containers": [container({"cpu": "500m"}), container({"cpu": 1, "memory": "1Gi"})]},
            {"cpu": 1500, "memory": 1 << 30},
            id="containers add up",
        ),
        pytest.param({"containers": [container(limits={"cpu": "2"})]}, {"cpu": 2000}, id="a limit counts as request"),
        pytest.param(
            {"containers": [container({"cpu": "1"}, {"cpu": "3"})]}, {"cpu": 1000}, id="a request wins over the limit"
        ),
        pytest.param(
            {"initContainers": [container({"cpu": "4"})], "containers": [container({"cpu": "1"})]},
            {"cpu": 4000},
            id="the hungriest init container counts if it asks for more",
        ),
        pytest.param(
            {
                "initContainers": [container({"cpu": "1"}, restartPolicy="Always"), container({"cpu": "4"})],
                "containers": [container({"cpu": "2"})],
            },
            {"cpu": 5000},
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "overhead": {"cpu": "100m"}}, {"cpu": 1100}, id="overhead"
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "resources": {"requests": {"cpu": "3"}}},
            {"cpu": 3000},
            id="requests of the pod replace those of its containers",
        ),
        pytest.param({"containers": [container({"example.com/gpu": "2"})]}, {"example.com/gpu": 2}, id="any resource"),
        pytest.param({"containers": [{"name": "c"}]}, {}, id="nothing"),
    ],
)
def test_a_pod_asks_for_what_the_scheduler_of_kubernetes_counts(spec, expected):
    assert pod_requests(spec) == expected


def test_a_request_above_its_limit_is_named():
    spec = {"containers": [container({"cpu": "2"}, {"cpu": "1"})]}
    assert over_limits(spec, "spec.podSets[0].template.spec") == (
        'spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: requests must not exceed its limits'
    )
