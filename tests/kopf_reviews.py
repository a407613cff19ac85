"""kopf's review of admission requests with given handlers, without the rest of its process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from job_controller.json_tree import Json
from queue_manager.api.api_resources import JOBS, Resource
from queue_manager.api.queue_admission import RULES
from queue_manager.operator.kopf_process import import_kopf
from queue_manager.operator.webhooks.kopf_admission import NoMemories

Attach = Callable[[Any, Any, Any], None]


def review_function(attach: Attach) -> tuple[Callable[..., Awaitable[Json]], Any]:
    """The function that kopf passes to an admission server, and the settings. `attach(kopf, registry, settings)`."""
    kopf = import_kopf()
    from kopf._cogs.structs.references import Insights
    from kopf._cogs.structs.references import Resource as KopfResource
    from kopf._core.engines.admission import serve_admission_request

    registry, settings, insights = kopf.OperatorRegistry(), kopf.OperatorSettings(), Insights()
    attach(kopf, registry, settings)
    for resource in (JOBS, *RULES):
        insights.webhook_resources.add(KopfResource(resource.group, resource.version, resource.plural))
    served = partial(
        serve_admission_request,
        settings=settings,
        registry=registry,
        insights=insights,
        memories=NoMemories(),
        memobase=None,
        indices={},
    )
    return served, settings


def request(operation: str, resource: Resource, new: Json, old: Json | None = None, *, subresource: str = "") -> Json:
    """An AdmissionReview as an API server sends it."""
    asked = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "operation": operation,
        "userInfo": {"username": "alice"},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        **({"subResource": subresource} if subresource else {}),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
