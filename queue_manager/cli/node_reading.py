"""Reads the nodes of the cluster, as far as the user may list them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from job_controller.model import Object, Record
from queue_manager.api.api_resources import NODES
from queue_manager.api.keys import LOCAL_NODE
from queue_manager.cli.permitted_lists import list_permitted
from queue_manager.engine.rest_client import RestClient
from queue_manager.visibility.node_fit import NodeFacts, short_resources


class _NodeSpec(Record):
    unschedulable: bool = False


class _NodeStatus(Record):
    allocatable: dict[str, str] = msgspec.field(default_factory=dict)


class Node(Object):
    """The fields of a node that rules read."""

    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


def node_facts(node: Node) -> NodeFacts:
    """What the rules read of a node."""
    return NodeFacts(node.metadata.name, node.metadata.labels, node.status.allocatable, node.spec.unschedulable)


async def nodes_for(client: RestClient, messages: Iterable[str]) -> list[NodeFacts] | None:
    """Return the nodes that matter to Jobs that do not run; None if the user may not list nodes.

    These are all nodes if a message of the scheduler, or a record of one, says that nodes have too little; else only
    those of `sluice up`. Other clusters have none of these, so that the response is short.
    """
    if not any(short_resources(message) for message in messages):
        return await fixed_nodes(client)
    nodes = await list_permitted(client, NODES, Node)
    return None if nodes is None else [node_facts(node) for node in nodes]


async def fixed_nodes(client: RestClient) -> list[NodeFacts] | None:
    """Return the nodes of `sluice up`, which change only when it starts; None if the user may not list nodes."""
    nodes = await list_permitted(client, NODES, Node, label_selector=f"{LOCAL_NODE}=true")
    return None if nodes is None else [node_facts(node) for node in nodes]
