"""The nodes that a pod may run on, and the message if there is none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_controller.model import Key
from queue_manager.local.placement.node_choice import NodeRoom, PlacementPod, Unschedulable, place
from queue_manager.scheduling.amounts import Amounts
from queue_manager.scheduling.pod_requests import pod_requests

GI = 2**30


def a_pod(cpu: str = "1", memory: str = "1Gi", **spec: Any) -> PlacementPod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory, **spec.pop("extra", {})}}}
    full = {"containers": [container], **spec}
    return PlacementPod(Key("default", "a"), "uid-a", full, pod_requests(full))


def a_node(name: str = "node-1", cpu: int = 4000, pods: int = 10, **more: Any) -> NodeRoom:
    labels = {"kubernetes.io/hostname": name} | more.pop("labels", {})
    allocatable = {"cpu": cpu, "memory": 8 * GI, "pods": pods} | more.pop("extra", {})
    return NodeRoom(name, labels, allocatable, **more)


def required(*expressions: dict[str, Any], fields: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
ZONE_A = a_node(labels={"zone": "a", "size": "12", "sum": "1_0", "huge": "9223372036854775808"})


@pytest.mark.parametrize(
    ("pod", "node", "reason"),
    [
        (a_pod(cpu="5"), a_node(), "1 Insufficient cpu"),
        (a_pod(memory="9Gi"), a_node(), "1 Insufficient memory"),
        (a_pod(cpu="5", memory="9Gi"), a_node(), "1 Insufficient cpu, 1 Insufficient memory"),
        (a_pod(extra={"example.com/gpu": "1"}), a_node(), "1 Insufficient example.com/gpu"),
        (a_pod(), a_node(pods=0), "1 Too many pods"),
        (a_pod(nodeSelector={"zone": "b"}), ZONE_A, "1 node(s) didn't match Pod's node affinity/selector"),
        (a_pod(), a_node(taints=[TAINT]), "1 node(s) had untolerated taint {gpu: yes}"),
        (a_pod(), a_node(unschedulable=True), "1 node(s) were unschedulable"),
    ],
)
def test_a_refusal_names_its_reasons(pod: PlacementPod, node: NodeRoom, reason: str) -> None:
    assert place(pod, [node], {}) == Unschedulable(f"0/1 nodes are available: {reason}.")


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        (a_pod(cpu="0", memory="0"), False),
        (a_pod(cpu="1m", memory="0"), True),
        (a_pod(cpu="0", memory="0", tolerations=[{"operator": "Exists"}]), True),
    ],
    ids=["asks for nothing", "asks for something", "tolerates it"],
)
def test_a_node_under_memory_pressure_gets_no_best_effort_pod(pod: PlacementPod, fits: bool) -> None:
    message = "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/memory-pressure: }."
    assert place(pod, [a_node(pressed=True)], {}) == ("node-1" if fits else Unschedulable(message))


def test_reasons_are_counted_over_nodes() -> None:
    nodes = [a_node("a", cpu=500), a_node("b", cpu=500), a_node("c", taints=[TAINT])]
    message = "0/3 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, 2 Insufficient cpu."
    assert place(a_pod(), nodes, {}) == Unschedulable(message)


def test_the_message_without_nodes() -> None:
    assert place(a_pod(), [], {}) == Unschedulable("no nodes available to schedule pods")


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(tolerations=[{"key": "gpu", "operator": "Exists"}]),
        a_pod(tolerations=[{"operator": "Exists"}]),
        a_pod(tolerations=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]),
        a_pod(tolerations=[{"key": "gpu", "value": "yes"}]),
    ],
)
def test_a_pod_with_a_toleration_may_run_on_a_tainted_node(pod: PlacementPod) -> None:
    assert place(pod, [a_node(taints=[TAINT])], {}) == "node-1"


@pytest.mark.parametrize(
    "toleration",
    [{"key": "gpu", "value": "no"}, {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, {"value": "yes"}],
)
def test_another_toleration_does_not_match(toleration: dict[str, str]) -> None:
    assert isinstance(place(a_pod(tolerations=[toleration]), [a_node(taints=[TAINT])], {}), Unschedulable)


def test_preferring_no_schedule_does_not_keep_a_pod_out() -> None:
    assert place(a_pod(), [a_node(taints=[TAINT | {"effect": "PreferNoSchedule"}])], {}) == "node-1"


@pytest.mark.parametrize(
    ("affinity", "fits"),
    [
        (required({"key": "zone", "operator": "In", "values": ["a", "b"]}), True),
        (required({"key": "zone", "operator": "NotIn", "values": ["a"]}), False),
        (required({"key": "rack", "operator": "NotIn", "values": ["a"]}), True),
        (required({"key": "zone", "operator": "Exists"}), True),
        (required({"key": "zone", "operator": "DoesNotExist"}), False),
        (required({"key": "size", "operator": "Gt", "values": ["11"]}), True),
        (required({"key": "size", "operator": "Lt", "values": ["12"]}), False),
        (required({"key": "size", "operator": "Gt", "values": ["12"]}), False),
        (required({"key": "size", "operator": "Lt", "values": ["+013"]}), True),
        (required({"key": "zone", "operator": "Gt", "values": ["1"]}), False),
        (required({"key": "rack", "operator": "Lt", "values": ["1"]}), False),
        (required({"key": "sum", "operator": "Gt", "values": ["1"]}), False),
        (required({"key": "huge", "operator": "Gt", "values": ["1"]}), False),
        (required(fields=({"key": "metadata.name", "operator": "In", "values": ["node-1"]},)), True),
        (required(), False),
        ({"podAffinity": {}}, True),
    ],
)
def test_required_node_affinity(affinity: dict[str, Any], fits: bool) -> None:
    assert (place(a_pod(affinity=affinity), [ZONE_A], {}) == "node-1") is fits


def test_terms_are_alternatives() -> None:
    selector = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("x", "a")]
    affinity = {"nodeAffinity": {selector: {"nodeSelectorTerms": terms}}}
    assert place(a_pod(affinity=affinity), [ZONE_A], {}) == "node-1"


def test_the_emptier_node_is_chosen_and_the_first_name_when_equal() -> None:
    nodes = [a_node("b"), a_node("a")]
    assert place(a_pod(), nodes, {}) == "a"
    assert place(a_pod(), nodes, {"a": {"cpu": 1000, "pods": 1}}) == "b"


@pytest.mark.parametrize(
    "used",
    [{"cpu": 1000}, {"memory": GI}, {"pods": 1}, {"cpu": 1000, "memory": GI}],
    ids=" and ".join,
)
def test_the_emptier_node_is_the_one_whose_scarcest_resource_is_less_in_use(used: Amounts) -> None:
    nodes = [a_node("a", cpu=8000, pods=8), a_node("b", cpu=8000, pods=8)]
    assert place(a_pod(), nodes, {"a": used}) == "b"
    assert place(a_pod(), nodes, {"a": used, "b": {"cpu": 3000}}) == "a"


def test_an_unschedulable_node_is_not_scored() -> None:
    assert isinstance(place(a_pod(cpu="0", memory="0"), [a_node(pods=0)], {}), Unschedulable)


def test_a_pod_without_requests_fits_on_a_full_node() -> None:
    pod = PlacementPod(Key("default", "a"), "uid-a", {"containers": [{"name": "main"}]}, {})
    assert place(pod, [a_node()], {"node-1": {"cpu": 4000, "memory": 8 * GI, "pods": 3}}) == "node-1"


amounts = st.fixed_dictionaries(
    {"cpu": st.integers(0, 3000), "memory": st.integers(0, 4 * GI), "gpu": st.integers(0, 2)}
)


@given(st.lists(amounts, max_size=30), st.lists(st.integers(0, 8000), min_size=1, max_size=4))
def test_no_node_is_ever_over_its_capacity(requests: list[Amounts], cpus: list[int]) -> None:
    nodes = [a_node(f"node-{i}", cpu=cpu, pods=5, extra={"gpu": i}) for i, cpu in enumerate(cpus)]
    usage: dict[str, Amounts] = {node.name: {} for node in nodes}
    for i, request in enumerate(requests):
        chosen = place(PlacementPod(Key("default", str(i)), str(i), {"containers": []}, request), nodes, usage)
        if isinstance(chosen, str):
            used = usage[chosen]
            for resource, value in (request | {"pods": 1}).items():
                used[resource] = used.get(resource, 0) + value
        else:
            assert all(
                any(request[r] > node.allocatable[r] - usage[node.name].get(r, 0) for r in request if request[r])
                or usage[node.name].get("pods", 0) >= 5
                for node in nodes
            )
    for node in nodes:
        assert all(value <= node.allocatable[resource] for resource, value in usage[node.name].items())
