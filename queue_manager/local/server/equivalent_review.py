"""Admission reviews of objects in a version that is not the stored one.

Admission rules are written for the stored version. An object in another version is converted for its review, and back
if a rule changed it, as an API server does for webhooks with matchPolicy Equivalent.
"""

from __future__ import annotations

from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.local.server.admission_plugin_protocol import AdmissionReview
from queue_manager.local.server.request_info import Call


def reviewed_as(call: Call) -> Resource:
    """Return the resource that admission rules see."""
    return call.kind.stored_as if _is_converted(call) and call.kind.stored_as else call.resource


def reviewed_form(call: Call, obj: Json) -> Json:
    """Return the object that admission rules see: the given one, or its stored form."""
    return call.stored_form(obj) if _is_converted(call) else obj


def adopt_changes(call: Call, obj: Json, review: AdmissionReview) -> None:
    """Apply to `obj` what the webhook changed in its converted copy, `review.object`."""
    if _is_converted(call) and review.object != call.stored_form(obj) and call.kind.from_stored:
        changed = call.kind.from_stored(review.object)
        obj.clear()
        obj.update(changed)


def _is_converted(call: Call) -> bool:
    return call.kind.is_custom and call.kind.stored_as is not None
