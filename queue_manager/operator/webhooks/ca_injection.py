"""Makes the CAs of the webhook server known to the API server: writes caBundle of the objects by which the API server
finds the manager.

    MutatingWebhookConfiguration, ValidatingWebhookConfiguration    each webhook that names our Service, or a URL
    CustomResourceDefinition of the queue's kinds                   spec.conversion, likewise
    APIService of the visibility API                                spec.caBundle, unless insecureSkipTLSVerify is set

Objects that do not exist are skipped. So are those of another Service: a cluster where Kueue still runs has objects of
the same names.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from job_controller.json_tree import Json
from queue_manager.api import component_names
from queue_manager.api.api_resources import API_SERVICES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import JSON_PATCH, MERGE_PATCH, ApiError
from queue_manager.operator.webhooks.webhook_permissions import CA_INJECTION

log = logging.getLogger(__name__)


class OwnServices(NamedTuple):
    """The names of the Services of the manager's servers."""

    namespace: str
    webhook: str
    conversion: str = component_names.CONVERSION_SERVICE
    visibility: str = component_names.VISIBILITY_SERVICE
    metrics: str = component_names.METRICS_SERVICE


class CABundlePatch(NamedTuple):
    """A patch, and its content type."""

    body: Json
    content_type: str


async def inject(client: RestClient, bundle: str, services: OwnServices) -> bool:
    """Write the bundle where it is missing; return whether all objects that exist have it now.

    Raises OSError without a response. A refused read or write is logged.
    """
    results = [
        await _inject_into(client, need.resource, name, bundle, services)
        for need in CA_INJECTION
        for name in need.names
    ]
    return all(results)


async def _inject_into(client: RestClient, resource: Resource, name: str, bundle: str, services: OwnServices) -> bool:
    try:
        found = await client.get(resource, "", name)
        change = change_of(resource, found, bundle, services)
        if change is not None:
            await client.patch(resource, "", name, change.body, content_type=change.content_type)
            log.info("wrote the caBundle", extra={"resource": str(resource), "key": name})
    except ApiError as error:
        if error.is_not_found:
            return True
        log.warning("cannot write the caBundle", extra={"resource": str(resource), "key": name, "error": str(error)})
        return False
    return True


def change_of(resource: Resource, obj: Json, bundle: str, services: OwnServices) -> CABundlePatch | None:
    """The patch that sets caBundle to `bundle`; None if it is set, or the object calls none of our Services."""
    encoded = base64.b64encode(bundle.encode()).decode()
    if resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        steps = list(_webhook_steps(obj.get("webhooks") or (), encoded, services))
        return CABundlePatch(steps, JSON_PATCH) if steps else None
    spec = obj.get("spec") or {}
    if resource == API_SERVICES:
        is_ours = _is_ours(spec, services.namespace, services.visibility)
        if not is_ours or spec.get("insecureSkipTLSVerify") or spec.get("caBundle") == encoded:
            return None
        return CABundlePatch({"spec": {"caBundle": encoded}}, MERGE_PATCH)
    config = ((spec.get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
    own = _is_ours(config, services.namespace, services.conversion, services.webhook)
    if not own or config.get("caBundle") == encoded:
        return None
    return CABundlePatch({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": encoded}}}}}, MERGE_PATCH)


def _webhook_steps(webhooks: Iterable[Json], encoded: str, services: OwnServices) -> Iterator[Json]:
    """Yield the JSON patch operations for a list of webhooks. `test` operations make the patch fail if another client
    has reordered the list.
    """
    for i, webhook in enumerate(webhooks):
        config = webhook.get("clientConfig") or {}
        if _is_ours(config, services.namespace, services.webhook) and config.get("caBundle") != encoded:
            yield {"op": "test", "path": f"/webhooks/{i}/name", "value": webhook["name"]}
            yield {"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": encoded}


def _is_ours(config: Json, namespace: str, *services: str) -> bool:
    """Whether a clientConfig or APIService names one of these Services, or a URL: only our installation has a URL."""
    service = config.get("service") or {}
    return bool(config.get("url")) or (service.get("namespace") == namespace and service.get("name") in services)
