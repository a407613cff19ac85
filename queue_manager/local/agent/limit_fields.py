"""The limits that the node agent reads from resources.limits of a container. Pure."""

from __future__ import annotations

from typing import NamedTuple

from job_controller import quantities
from job_controller.json_tree import Json

OOM_KILLED = "OOMKilled"  # reason of the end of a container that used more memory than its limit


class Limits(NamedTuple):
    """Memory in bytes and cpu in millicpu; None means no limit."""

    memory: int | None = None
    cpu: int | None = None


def limits_of(container: Json) -> Limits:
    """The limits in a container's spec; 0 means no limit, as for a kubelet."""
    limits = (container.get("resources") or {}).get("limits") or {}
    memory, cpu = (quantities.parse(limits.get(name) or "0", name) for name in ("memory", "cpu"))
    return Limits(memory or None, cpu or None)
