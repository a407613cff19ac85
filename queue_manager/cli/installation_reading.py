"""Reads whether the webhooks and the visibility API of an installation can answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from job_controller.json_tree import Json
from job_controller.model import Key
from queue_manager.api.api_resources import API_SERVICES, SECRETS, Resource
from queue_manager.api.component_names import VISIBILITY_GROUP
from queue_manager.api.conversion.object_conversion import FACETS
from queue_manager.cli.manager_place import own_services
from queue_manager.configuration import KueueConfig
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.installation.conversion_removal import conversion_service
from queue_manager.visibility.diagnosis.snapshot import ConversionFacts, WebhookServiceFacts

ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SERVICE_LABEL = "kubernetes.io/service-name"


async def read_unavailable_apis(client: RestClient, not_read: list[str]) -> list[str]:
    """Return the APIServices of the visibility API to which the API server has no connection."""
    try:
        services = await client.list(API_SERVICES)
    except ApiError as error:
        if error.is_forbidden:
            not_read.append("apiservices (forbidden)")
        elif not error.is_not_found:
            raise
        return []
    return [each["metadata"]["name"] for each in services if is_unavailable(each)]


def is_unavailable(service: Json) -> bool:
    """Whether an APIService is one of the visibility API, and the API server reports it as unavailable."""
    conditions = (service.get("status") or {}).get("conditions") or ()
    down = any(each["type"] == "Available" and each["status"] == "False" for each in conditions)
    return down and service["spec"].get("group") == VISIBILITY_GROUP


async def read_webhook_services(
    client: RestClient, configurations: Iterable[Json], not_read: list[str]
) -> list[WebhookServiceFacts]:
    """Read the Services of managers on which the webhook configurations make writes depend."""
    required = required_services(configurations)
    if not required:
        return []
    try:
        slices = [
            each
            for namespace in dict.fromkeys(key.namespace for key in required)
            for each in await client.list(ENDPOINT_SLICES, namespace)
        ]
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        not_read.append("endpoints of the webhooks (forbidden or absent)")
        return []
    ready = ready_services(slices)
    return [WebhookServiceFacts(key, tuple(names), key in ready) for key, names in required.items()]


async def read_missing_secret(
    client: RestClient, config: KueueConfig | None, configurations: Iterable[Json], not_read: list[str]
) -> Key | None:
    """Return the Secret of the webhooks' certificate if it does not exist.

    None without webhooks of managers, or if the configuration, which names the Secret, is not known.
    """
    services = [service for tree in configurations for service in own_services(tree)]
    if config is None or not config.internal_cert_management.enable or not services:
        return None
    key = Key(services[0].namespace, config.internal_cert_management.webhook_secret_name)
    try:
        await client.get(SECRETS, key.namespace, key.name)
    except ApiError as error:
        if error.is_not_found:
            return key
        if not error.is_forbidden:
            raise
        not_read.append("the Secret of the webhooks' certificate (forbidden)")
    return None


def dead_conversions(definitions: Iterable[Json], failures: Mapping[str, str]) -> list[ConversionFacts]:
    """Return the CRDs in `failures` (by name) that have a conversion webhook although Sluice converts no such kind."""
    return [
        ConversionFacts(name, service, failures[name])
        for definition in definitions
        if (name := definition["metadata"]["name"]) in failures
        and not FACETS[definition["spec"]["names"]["kind"]]
        and (service := conversion_service(definition)) is not None
    ]


def required_services(configurations: Iterable[Json]) -> dict[Key, list[str]]:
    """The Services of managers without which a write is refused, with the configurations that name them."""
    required: dict[Key, list[str]] = {}
    for tree in configurations:
        for key in own_services(tree, refusing=True):
            required.setdefault(key, []).append(tree["metadata"]["name"])
    return required


def ready_services(slices: Iterable[Json]) -> set[Key]:
    """The Services with a ready endpoint. An unknown readiness counts as ready, as in the API of EndpointSlices."""
    return {
        Key(tree["metadata"]["namespace"], (tree["metadata"].get("labels") or {}).get(SERVICE_LABEL, ""))
        for tree in slices
        for endpoint in tree.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
    }
