"""Whether a new object may be created in its namespace: it must exist, and not be terminating."""

from __future__ import annotations

from job_controller.api_rules.field_errors import FieldError
from queue_manager.api.api_resources import NAMESPACES
from queue_manager.local import status_errors
from queue_manager.local.server.request_info import Call
from queue_manager.local.storage.store import WritableStore, decode

FINALIZING = ("deletionTimestamp", "deletionGracePeriodSeconds")
# Set only at creation and deletion; an update copies them from the stored object.
OWNED = ("uid", "creationTimestamp", "generation", *FINALIZING)
DROPPED = ("selfLink",)


def require_namespace(store: WritableStore, call: Call, name: str) -> None:
    """Check that the namespace of a new object exists (404) and is not being deleted (403)."""
    namespace = store.get(str(NAMESPACES), "", call.namespace)
    if namespace is None:
        raise status_errors.not_found(NAMESPACES, call.namespace)
    if b'"deletionTimestamp"' in namespace.data and "deletionTimestamp" in decode(namespace)["metadata"]:
        text = f"namespace {call.namespace} is being terminated"
        raise status_errors.forbidden(
            call.resource,
            name,
            f"unable to create new content in namespace {call.namespace} because it is being terminated",
            [FieldError("NamespaceTerminating", "metadata.namespace", text)],
        )
