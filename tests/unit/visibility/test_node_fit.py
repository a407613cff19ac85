"""When the pods of a Job fit no node, by their size or their nodeSelector."""

from __future__ import annotations

import pytest

from queue_manager.api.keys import LOCAL_NODE
from queue_manager.visibility.node_fit import NodeFacts, lacks_of_fixed_nodes, no_fixed_node_fits, no_node_fits
from tests.unit.visibility.build import job

CPU, MEMORY = "0/2 nodes: Insufficient cpu", "0/2 nodes: Insufficient memory"
BOTH = "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
TOGETHER = "no node has 6 cpu and 32Gi memory allocatable; a pod requests that"
A = NodeFacts("a", {"zone": "x"}, {"cpu": "8", "memory": "16Gi"})
B = NodeFacts("b", {"zone": "y"}, {"cpu": "4", "memory": "64Gi"})


@pytest.mark.parametrize(
    ("message", "requests", "nodes", "text"),
    [
        (CPU, {"cpu": "16"}, [A, B], "the largest node, a, has 8 cpu allocatable; a pod requests 16"),
        (CPU, {"cpu": "16"}, [B], "the only node, b, has 4 cpu allocatable; a pod requests 16"),
        (MEMORY, {"memory": "96Gi"}, [A, B], "the largest node, b, has 64Gi memory allocatable; a pod requests 96Gi"),
        (CPU, {"cpu": "6", "memory": "1Gi"}, [A, B], ""),
        (
            BOTH,
            {"cpu": "6", "memory": "32Gi"},
            [A, B],
            TOGETHER,
        ),
        ("0/2 nodes: Insufficient a.b/gpu", {"a.b/gpu": "1"}, [A, B], "no node has a.b/gpu; a pod requests 1"),
        ("0/2 nodes: node(s) were unschedulable", {"cpu": "16"}, [A, B], ""),
        (CPU, {"cpu": "16"}, None, ""),
        (CPU, {"cpu": "16"}, [], ""),
        (CPU, {"cpu": "16"}, [NodeFacts("new", {}, {})], ""),
    ],
)
def test_the_largest_node_and_what_it_has_are_named_if_it_is_too_small(
    message: str, requests: dict[str, str], nodes: list[NodeFacts] | None, text: str
) -> None:
    assert no_node_fits(message, job(requests=requests), None, nodes) == text


def test_a_node_that_the_node_selector_excludes_does_not_count() -> None:
    picky = job(requests={"cpu": "6"})
    picky.spec.template["spec"]["nodeSelector"] = {"zone": "y"}
    assert no_node_fits(CPU, picky, None, [A, B]) == "the only node, b, has 4 cpu allocatable; a pod requests 6"


LOCAL = NodeFacts("n", {LOCAL_NODE: "true"}, {"cpu": "2", "memory": "4Gi"})


def test_nodes_of_sluice_up_decide_before_the_scheduler_has_refused_a_pod() -> None:
    large = job(requests={"cpu": "16", "memory": "1Gi"})
    lacks = "the only node, n, has 2 cpu allocatable; a pod requests 16"
    assert no_fixed_node_fits(large, None, [LOCAL]) == no_node_fits("", large, None, [LOCAL]) == lacks
    assert no_node_fits("", large, None, [LOCAL], awaits_node=False) == ""
    assert no_fixed_node_fits(job(requests={"cpu": "2"}), None, [LOCAL]) == ""


def test_no_job_exceeds_nodes_that_may_be_added_until_a_pod_is_refused() -> None:
    large = job(requests={"cpu": "16"})
    assert no_fixed_node_fits(large, None, [A, B]) == no_node_fits("", large, None, [A, B]) == ""


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"disk": "ssd"}, ""),
        ({"disk": "hdd"}, "no node has the label disk=hdd of its nodeSelector"),
        ({"disk": "ssd", "gpu": "a", "arch": "b"}, "no node has the labels arch=b and gpu=a of its nodeSelector"),
        ({"disk": "ssd", "zone": "x"}, "no node has the labels disk=ssd and zone=x of its nodeSelector"),
    ],
)
def test_labels_that_no_node_has_are_named(selector: dict[str, str], text: str) -> None:
    """Both nodes are of `sluice up`; on any other cluster a node with the labels may be added."""
    ssd, zoned = ({LOCAL_NODE: "true", **labels} for labels in ({"disk": "ssd"}, {"zone": "x"}))
    picky = job(pod={"nodeSelector": selector})
    size = {"cpu": "8", "memory": "1Gi"}
    assert no_fixed_node_fits(picky, None, [NodeFacts("n", ssd, size), NodeFacts("m", zoned, size)]) == text
    assert no_fixed_node_fits(picky, None, [A, B]) == ""


def test_labels_resources_and_size_that_are_lacking_are_named_together() -> None:
    picky = job(requests={"cpu": "16", "gpu": "1"}, pod={"nodeSelector": {"disk": "ssd"}})
    lacks = lacks_of_fixed_nodes(picky, None, [LOCAL])
    assert (lacks.labels, [*lacks.absent]) == (["disk=ssd"], ["gpu"])
    assert lacks.text == (
        "no node has the label disk=ssd of its nodeSelector; no node has gpu; a pod requests 1; "
        "the only node, n, has 2 cpu allocatable; a pod requests 16"
    )
