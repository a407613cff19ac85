"""In which namespace the managers run: `sluice install --namespace` chooses it, kueue-system is only the default."""

from __future__ import annotations

from collections.abc import Iterable

from job_controller.json_tree import Json
from job_controller.model import Key
from queue_manager.api.component_names import MANAGER, NAME, NAME_LABEL, NAMESPACE, WEBHOOK_SERVICE
from queue_manager.cli.installed_objects import is_installed
from queue_manager.cli.manager_reading import DEPLOYMENTS
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError


async def read_place(client: RestClient, of_lease: str, hooks: Iterable[Json]) -> str:
    """Return the namespace of the managers; kueue-system if nothing shows another one.

    `of_lease`: the namespace of the Lease that they publish, "" if that is not known. `hooks`: the webhook
    configurations of the cluster.
    """
    if of_lease:
        return of_lease
    services = [service for tree in hooks for service in own_services(tree)]
    return services[0].namespace if services else await _place_of_deployment(client)


async def _place_of_deployment(client: RestClient) -> str:
    """Return the namespace of the one installed Deployment; kueue-system if it is absent, forbidden or one of several.

    Installations with Roles only may be in several namespaces.
    """
    try:
        found = await client.list(DEPLOYMENTS, label_selector=f"{NAME_LABEL}={NAME}")
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        return NAMESPACE
    places = {each["metadata"]["namespace"] for each in found if each["metadata"]["name"] == MANAGER}
    return places.pop() if len(places) == 1 else NAMESPACE


def own_services(tree: Json, *, refusing: bool = False) -> list[Key]:
    """Return the Services of managers, of Sluice or Kueue, that a webhook configuration calls.

    `refusing`: only those without which a write is refused. A webhook with failurePolicy Ignore refuses nothing.
    """
    found: dict[Key, None] = {}
    for hook in tree.get("webhooks") or ():
        service = (hook.get("clientConfig") or {}).get("service") or {}
        key = Key(service.get("namespace", ""), service.get("name", ""))
        is_own = is_installed(tree) or key.name == WEBHOOK_SERVICE or key.namespace == NAMESPACE
        if key.name and is_own and not (refusing and hook.get("failurePolicy", "Fail") != "Fail"):
            found[key] = None
    return list(found)
