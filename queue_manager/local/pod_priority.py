"""Pod priority as in the Priority admission plugin: resolves priorityClassName, and creates the system classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from queue_manager.api.api_resources import PODS, PRIORITY_CLASSES
from queue_manager.engine.rest_client import RestClient
from queue_manager.local import status_errors
from queue_manager.local.kinds.class_and_lease_kinds import SYSTEM
from queue_manager.local.server.admission_plugin_protocol import AdmissionReview
from queue_manager.local.storage.store import Store, decode

PREEMPT = "PreemptLowerPriority"
_PURPOSE = {
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, but can be moved to "
    "another node if necessary.",
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


async def ensure_system_classes(client: RestClient) -> None:
    """Create the system priority classes; existing ones are not written."""
    there = {found["metadata"]["name"] for found in await client.list(PRIORITY_CLASSES)}
    for name in sorted(SYSTEM.keys() - there):
        meta = {"metadata": {"name": name}, "value": SYSTEM[name], "description": _PURPOSE[name]}
        await client.create(PRIORITY_CLASSES, "", meta)


class PodPriority:
    """Admission plugin that sets priority and preemptionPolicy of a pod from its class or the global default class."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def mutate(self, review: AdmissionReview) -> list[FieldError] | None:
        """Raises StatusError 403 if the class does not exist or the pod's own values differ from the class."""
        if review.resource != PODS or review.subresource or review.operation != "CREATE":
            return None
        spec = review.object.get("spec") or {}
        found = self._named(spec, review) if spec.get("priorityClassName") else self._default()
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
        value = found.get("value", 0) if found is not None else 0
        policy = (found or {}).get("preemptionPolicy") or PREEMPT
        _settle(review, "priority", "integer value of priority", value)
        _settle(review, "preemptionPolicy", "string value of PreemptionPolicy", policy)
        return None

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """Raises StatusError 403 on the deletion of a system class."""
        name = review.object["metadata"].get("name") or ""
        if review.operation == "DELETE" and review.resource == PRIORITY_CLASSES and name in SYSTEM:
            raise status_errors.forbidden(
                PRIORITY_CLASSES, name, "this is a system priority class and cannot be deleted"
            )
        return []

    def _named(self, spec: Json, review: AdmissionReview) -> Json:
        name = spec["priorityClassName"]
        stored = self._store.get(str(PRIORITY_CLASSES), "", name)
        if stored is not None:
            return decode(stored)
        if name in SYSTEM:
            return {"metadata": {"name": name}, "value": SYSTEM[name]}
        raise _forbidden(review, f"no PriorityClass with name {name} was found")

    def _default(self) -> Json | None:
        """The global default class; of several the one with the lowest value."""
        return min(self._defaults(), key=lambda found: (found.get("value", 0), found["metadata"]["name"]), default=None)

    def _defaults(self) -> Iterator[Json]:
        for stored in self._store.scan(str(PRIORITY_CLASSES)):
            found = decode(stored)
            if found.get("globalDefault"):
                yield found


def _settle(review: AdmissionReview, field: str, what: str, value: Any) -> None:
    spec = review.object["spec"]
    given = spec.get(field)
    if given is not None and given != value:
        detail = (
            f"the {what} ({given}) must not be provided in pod spec; priority admission controller computed {value} "
            "from the given PriorityClass name"
        )
        raise _forbidden(review, detail)
    spec[field] = value


def _forbidden(review: AdmissionReview, detail: str) -> status_errors.StatusError:
    return status_errors.forbidden(PODS, review.object.get("metadata", {}).get("name", ""), detail)
