"""Removes the conversion webhook from CRDs that stay after `sluice uninstall` (`cli/uninstall.py`). Pure.

The webhook of a CRD names a Service that is uninstalled: each read and write in v1beta1 would fail. With the strategy
None, an API server changes the apiVersion only, so that a client of v1beta1 would lose the fields that the versions
name differently. So the CRDs become what `sluice crds` prints: the strategy None, and only the stored version served.
`cli/conversion_reset.py` writes the patches.

A definition whose status.storedVersions names a second version keeps its webhook. Its objects may be stored in that
version, and without conversion a write would drop their fields; a failing read loses nothing.

The next installation sets the conversion and the served versions again. A server-side apply by kubectl or Helm is
refused for fields that another field manager has set, so the change is followed by one that removes its entry from
metadata.managedFields.
"""

from __future__ import annotations

from job_controller.json_tree import Json
from job_controller.model import Key

FIELD_MANAGER = "sluice-uninstall"


def conversion_service(definition: Json) -> Key | None:
    """Return the Service that converts the objects of a CRD; None without one."""
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    service = (webhook.get("clientConfig") or {}).get("service")
    return Key(service["namespace"], service["name"]) if service else None


def served_alone(definition: Json) -> str:
    """Return the version that can be served without conversion; "" if objects may be stored in another one."""
    [storage] = [version["name"] for version in definition["spec"]["versions"] if version["storage"]]
    stored = (definition.get("status") or {}).get("storedVersions") or [storage]
    return storage if stored == [storage] else ""


def next_step(definition: Json) -> Json | None:
    """Return the merge patch that brings a CRD closer to its state without conversion; None if it has that state.

    Write the patch with FIELD_MANAGER, read the CRD again, and repeat until the result is None.
    """
    metadata, spec = definition["metadata"], definition["spec"]
    precondition = {"resourceVersion": metadata["resourceVersion"]}
    if conversion_service(definition) is not None:
        versions = [{**version, "served": version["storage"]} for version in spec["versions"]]
        conversion = {"strategy": "None", "webhook": None}
        return {"metadata": precondition, "spec": {"conversion": conversion, "versions": versions}}
    entries = metadata.get("managedFields") or []
    others = [entry for entry in entries if entry.get("manager") != FIELD_MANAGER]
    return None if others == entries else {"metadata": {**precondition, "managedFields": others}}
