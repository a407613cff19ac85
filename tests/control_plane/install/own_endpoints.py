"""Services that lead to a process of this machine, for a kube-apiserver with --enable-aggregator-routing.

It resolves a Service to the addresses of its EndpointSlices itself, so that neither kube-proxy nor pods are needed. An
API server accepts no loopback address there.
"""

from __future__ import annotations

import socket

from queue_manager.api.api_resources import Resource
from queue_manager.api.component_names import CONVERSION_SERVICE, WEBHOOK_SERVICE
from queue_manager.engine.rest_client import RestClient
from tests.control_plane.install.installed_managers import SYSTEM

SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")


def own_address() -> str:
    """An IPv4 address of this machine that is not loopback; "" without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as chosen:
        try:
            chosen.connect(("192.0.2.1", 9))  # of documentation: nothing is sent
        except OSError:
            return ""
        address: str = chosen.getsockname()[0]
    return "" if address.startswith("127.") else address


async def lead_services_to(api: RestClient, port: int) -> None:
    """Make the EndpointSlices that the controller of Kubernetes makes for ready pods."""
    for service in (WEBHOOK_SERVICE, CONVERSION_SERVICE):
        tree = {
            "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
            "ports": [{"name": "webhook-server", "port": port, "protocol": "TCP"}],
        }
        await api.create(SLICES, SYSTEM, tree)
