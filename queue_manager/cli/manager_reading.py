"""Reads whether a manager runs: the Leases that may be its, its Deployment, and what it has published."""

from __future__ import annotations

from http import HTTPStatus

from job_controller.json_tree import Json
from job_controller.model import Key
from queue_manager.api.api_resources import CONFIG_MAPS, Resource
from queue_manager.api.component_names import (
    CONFIG_MAP,
    LEASE,
    MANAGER,
    NAMESPACE,
    PUBLIC_NAMESPACE,
    PUBLISHED_CONFIG,
    PUBLISHED_LEASE,
)
from queue_manager.cli.lease_reading import LeaseReading
from queue_manager.cli.published_data import read_published_data
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request
from queue_manager.visibility.manager_presence import (
    DeploymentFacts,
    Presence,
    presence,
    without_installation,
)

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


async def read_presence(client: RestClient, namespace: str) -> Presence:
    """Return whether a manager of the Jobs in a namespace runs. An installation with Roles only may be in that.

    It is unknown where no Lease is needed: with leader election off, and in the cluster of `sluice up`.
    """
    reading = LeaseReading(client)
    for place in dict.fromkeys((NAMESPACE, namespace)):
        if await reading.is_renewed(place, LEASE):
            return Presence()
    found = await read_published_data(client, namespace)
    if PUBLISHED_LEASE in found:
        return await _presence_of(client, found[PUBLISHED_LEASE])
    hidden: list[str] = []
    deployment = await read_deployment(client, hidden)
    if not reading.leases and (deployment is None or deployment.ready):
        if deployment is None and reading.all_read and not hidden and not await has_configuration(client, namespace):
            return without_installation(NAMESPACE)
        return Presence(all_read=reading.all_read and not (deployment is None and hidden))
    from queue_manager.cli.published_config import published  # imports pydantic: 0.1 s

    config = await published(client)
    election = config.leader_election if config is not None else None
    if election is not None and not election.leader_elect:
        return Presence()
    if election is not None and await reading.is_renewed(
        election.resource_namespace or NAMESPACE, election.resource_name
    ):
        return Presence()
    return presence(reading.leases, deployment, reading.now, all_read=reading.all_read and not hidden)


async def _presence_of(client: RestClient, lease: str) -> Presence:
    """Return whether the manager runs that has published this Lease, NAMESPACE/NAME; "": it needs none.

    That Lease decides. Others that may not be read are of no importance.
    """
    if not lease:
        return Presence()
    namespace, _, name = lease.partition("/")
    reading = LeaseReading(client)
    if await reading.is_renewed(namespace, name):
        return Presence()
    hidden: list[str] = []
    deployment = await read_deployment(client, hidden, namespace)
    return presence(reading.leases, deployment, reading.now, all_read=reading.all_read and not hidden)


async def has_configuration(client: RestClient, namespace: str = "", home: str = NAMESPACE) -> bool:
    """Whether a ConfigMap of an installation, of a manager or of `sluice up` exists or may exist.

    `namespace`: where a manager of listed namespaces would have published one. `home`: of the installation.
    """
    places = {home: CONFIG_MAP, PUBLIC_NAMESPACE: PUBLISHED_CONFIG}
    if namespace:
        places = {namespace: PUBLISHED_CONFIG, **places}
    for place, name in places.items():
        answer = await client.transport.request(Request("GET", CONFIG_MAPS.path(place, name)))
        if answer.status != HTTPStatus.NOT_FOUND:
            return True
    return False


async def read_deployment(
    client: RestClient, not_read: list[str], namespace: str = NAMESPACE
) -> DeploymentFacts | None:
    """Read the Deployment of the manager; None if it is absent, as in the cluster of `sluice up`, or forbidden.

    What the user may not read is added to `not_read`.
    """
    try:
        return deployment_facts(await client.get(DEPLOYMENTS, namespace, MANAGER))
    except ApiError as error:
        if error.is_forbidden:
            not_read.append("the Deployment of the managers (forbidden)")
        elif not error.is_not_found:
            raise
        return None


def deployment_facts(deployment: Json) -> DeploymentFacts:
    """The fields of a Deployment from which `manager_presence` concludes whether a manager runs."""
    meta, spec, status = deployment["metadata"], deployment["spec"], deployment.get("status") or {}
    key = Key(meta["namespace"], meta["name"])
    return DeploymentFacts(key, spec.get("replicas", 1), status.get("readyReplicas") or 0)
