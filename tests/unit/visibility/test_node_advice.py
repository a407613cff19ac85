"""What `sluice explain` advises for a Job whose pods fit no node."""

from __future__ import annotations

import pytest

from queue_manager.visibility.node_advice import FITS, node_changes, request_less
from queue_manager.visibility.requested_resources import demand
from tests.unit.visibility.build import job

BIGGER = "one node has {} free: other pods end, if a node is that big, or a bigger node is added"
REQUEST_LESS = request_less("sluice submit --replace -f FILE")
UNCORDON = "a cordoned node takes pods again (kubectl get nodes; kubectl uncordon NODE)"


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("0/2 nodes are available: 2 Insufficient cpu.", [BIGGER.format("3 cpu"), REQUEST_LESS]),
        (
            "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient memory.",
            [BIGGER.format("3 cpu and 64Mi memory"), REQUEST_LESS],
        ),
        ("0/2 nodes: node(s) were unschedulable", [UNCORDON]),
        (
            "0/2 nodes: 1 Insufficient cpu, 1 node(s) were unschedulable",
            [BIGGER.format("3 cpu"), REQUEST_LESS, UNCORDON],
        ),
        (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            ["a node has the labels that the pods' node selector and affinity require"],
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: true}.",
            ["a node's taint is removed, or the pods tolerate it"],
        ),
        ("no nodes available to schedule pods", ["a node is added"]),
        ("0/1 nodes are available: 1 something else.", [FITS]),
    ],
)
def test_the_advice_follows_from_what_excludes_the_nodes(message: str, changes: list[str]) -> None:
    rows = demand(job(requests={"cpu": "3", "memory": "64Mi"}), None)
    assert list(node_changes(message, rows)) == changes
