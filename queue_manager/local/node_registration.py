"""Registration of the local nodes: Node objects that represent shares of this machine.

Nodes are written at start, and only if they differ. There is no heartbeat, because the agent runs in the same program
as the API server: if a client can read the node, the agent runs. So an idle cluster writes nothing.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Any

from job_controller.json_tree import Json
from job_controller.times import timestamp
from queue_manager.api import keys
from queue_manager.api.api_resources import NODES
from queue_manager.engine.rest_client import RestClient
from queue_manager.local.agent.environment import Host
from queue_manager.scheduling.amounts import amount, text

ADDRESS = "127.0.0.1"
PODS_PER_NODE = 1000
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The name of a node, and its capacity as quantities by resource name."""

    name: str
    capacity: dict[str, str]

    @property
    def host(self) -> Host:
        """The values of the node that the agent passes to containers."""
        return Host(self.name, ADDRESS, self.capacity)


def node_specs(
    count: int = 1, cpu: str = "", memory: str = "", extra: Iterable[tuple[str, str]] = ()
) -> list[NodeSpec]:
    """`count` equal nodes; each has `cpu` and `memory`, by default what this machine has.

    Several nodes of default size offer the machine several times over. Raises ValueError on a bad or empty quantity.
    """
    if count < 1:
        raise ValueError(f"a cluster needs at least one node, not {count}")
    capacity = {
        "cpu": cpu or str(os.cpu_count() or 1),
        "memory": memory or machine_memory(),
        "pods": str(PODS_PER_NODE),
    }
    capacity |= dict(extra)
    amounts = {name: amount(name, quantity) for name, quantity in capacity.items()}
    for name, value in amounts.items():
        if value <= 0:
            raise ValueError(f"{name}: {capacity[name]!r} is not greater than 0")
    capacity = {name: text(name, value) for name, value in amounts.items()}
    return [NodeSpec(f"node-{i + 1}", dict(capacity)) for i in range(count)]


def machine_memory() -> str:
    """The memory of this machine as a quantity, in whole Mi."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{max(1, pages * size >> 20)}Mi"


def node_object(spec: NodeSpec, now: datetime) -> Json:
    """The Node as a kubelet registers it."""
    system, machine = platform.system().lower(), platform.machine()
    architecture = _ARCHITECTURES.get(machine, machine)
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": system,
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": system,
        "beta.kubernetes.io/arch": architecture,
        keys.LOCAL_NODE: "true",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": spec.capacity,
            "allocatable": spec.capacity,
            "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": spec.name}],
            "conditions": _conditions(now),
            "nodeInfo": _node_info(system, architecture),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        },
    }


async def register(client: RestClient, specs: Sequence[NodeSpec], now: datetime) -> None:
    """Create, update and delete Nodes to match `specs`. Unchanged ones are not written."""
    existing = {node["metadata"]["name"]: node for node in await client.list(NODES)}
    for spec in specs:
        await _register(client, existing.pop(spec.name, None), node_object(spec, now))
    for name in sorted(existing):
        await client.delete(NODES, "", name)


async def _register(client: RestClient, old: dict[str, Any] | None, wanted: Json) -> None:
    name = wanted["metadata"]["name"]
    if old is None:
        old = await client.create(NODES, "", wanted)
    labels = old["metadata"].get("labels") or {}
    if missing := {key: v for key, v in wanted["metadata"]["labels"].items() if labels.get(key) != v}:
        await client.patch(NODES, "", name, {"metadata": {"labels": missing}})
    status = old.get("status") or {}
    if any(status.get(key) != wanted["status"][key] for key in ("capacity", "allocatable", "nodeInfo")):
        # A merge patch would keep resources that the node no longer has.
        gone = {key: None for key in status.get("capacity") or {} if key not in wanted["status"]["capacity"]}
        quantities = {
            "capacity": wanted["status"]["capacity"] | gone,
            "allocatable": wanted["status"]["capacity"] | gone,
        }
        await client.patch(NODES, "", name, {"status": wanted["status"] | quantities}, subresource="status")


def _conditions(now: datetime) -> list[Json]:
    since = timestamp(now)
    facts = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    times = {"lastHeartbeatTime": since, "lastTransitionTime": since}
    return [{"type": t, "status": s, "reason": r, "message": m, **times} for t, s, r, m in facts]


def _node_info(system: str, architecture: str) -> Json:
    return {
        "machineID": socket.gethostname(),
        "systemUUID": "",
        "bootID": "",
        "kernelVersion": platform.release(),
        "osImage": platform.platform(terse=True),
        "containerRuntimeVersion": "process://1",
        "kubeletVersion": f"v{version('sluice')}",
        "kubeProxyVersion": "",
        "operatingSystem": system,
        "architecture": architecture,
    }
