"""The facets of LocalQueue: usage has another name, and v1beta1 lists the flavors."""

from __future__ import annotations

from queue_manager.api.conversion.facets import only_in_v1beta1, renamed

FACETS = (
    renamed(("status",), "flavorUsage", "flavorsUsage"),
    only_in_v1beta1(("status",), "flavors"),
)
