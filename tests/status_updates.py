"""The requests by which the manager writes the status of Workloads, as a transport sees them."""

from queue_manager.engine.transport_protocol import Request


def is_status_update(request: Request) -> bool:
    return request.method == "PUT" and "/workloads/" in request.path and request.path.endswith("/status")
