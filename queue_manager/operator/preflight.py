"""Checks before the controllers start: API server, CRDs, permissions. A failure is one line that names the remedy."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType

import msgspec

from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.engine.exec_plugin import CredentialsError
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request, Transport
from queue_manager.operator.required_permissions import (
    CLUSTER_EVENTS,
    CLUSTER_EVENTS_NAMESPACE,
    LEADER,
    OWN_NAMESPACE,
    Need,
    custom_resources,
    each_verb,
    needs,
)

REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
RESPONSE_TIMEOUT_SECONDS = 10.0  # seconds to wait for the first response
MAX_CONCURRENT_REVIEWS = 10


class CannotStart(Exception):
    """The program cannot start or continue; the text gives the reason in one line."""


async def check(
    transport: Transport,
    server: str,
    controllers: Iterable[str],
    lease_namespace: str = "",
    namespaces: Collection[str] = (),
    further: Mapping[str, Sequence[Need]] = MappingProxyType({}),
    *,
    roles_only: bool = False,
) -> str:
    """Return the server's version after checking that it responds, serves the CRDs and grants the permissions.

    `server`: its URL, for messages. `lease_namespace`: the namespace of the Lease, "" without leader election.
    `namespaces`: where the permissions on namespaced objects must be granted; (): in all.
    `further`: other needs by namespace, "" for all namespaces. `roles_only`: objects without a namespace are not on the
    API server, so that no right on them is needed.
    Raises CannotStart; permissions that are missing in several places are reported together.
    """
    controllers = list(controllers)
    client = RestClient(transport)
    try:
        version = await _server_version(transport)
        wanted = needs(controllers)
        if roles_only:
            wanted = [*(need for need in wanted if need.resource.namespaced), OWN_NAMESPACE]
        await _check_kinds(transport, custom_resources(wanted))
        places = list(_needs_by_place(wanted, namespaces))
        if lease_namespace:
            places.append((lease_namespace, [LEADER]))
        places += [(namespace, list(needed)) for namespace, needed in further.items()]
        await _check_permissions(client, places)
    except ApiError as error:
        raise CannotStart(_refused(server, error)) from error
    except CredentialsError as error:
        raise CannotStart(_one_line(error)) from error
    except OSError as error:
        raise CannotStart(f"no response from the API server {server}: {_one_line(error)}") from error
    return version


async def _server_version(transport: Transport) -> str:
    """Return the server's version. Wrong credentials fail here: a 401 applies even to paths that anyone may read."""
    answer = await transport.request(Request("GET", "/version", timeout=RESPONSE_TIMEOUT_SECONDS))
    if not answer.is_ok:
        raise ApiError.of(answer.status, answer.body)
    tree = _tree(answer.body)
    return str(tree.get("gitVersion") or "")


async def _check_kinds(transport: Transport, wanted: list[Resource]) -> None:
    missing: list[Resource] = []
    for root in dict.fromkeys(resource.root for resource in wanted):
        answer = await transport.request(Request("GET", root, timeout=RESPONSE_TIMEOUT_SECONDS))
        if not (answer.is_ok or answer.status == HTTPStatus.NOT_FOUND):
            raise ApiError.of(answer.status, answer.body)
        # An unknown group yields 404 with a body that is not JSON.
        tree = _tree(answer.body) if answer.is_ok else {}
        served = {entry["name"] for entry in tree.get("resources") or ()}
        missing += [resource for resource in wanted if resource.root == root and resource.plural not in served]
    if missing:
        names = ", ".join(resource.plural for resource in missing)
        raise CannotStart(
            f"the cluster has no {missing[0].api_version} {names}: run `sluice crds | kubectl apply --server-side -f -`"
        )


def _needs_by_place(wanted: list[Need], namespaces: Collection[str]) -> Iterator[tuple[str, list[Need]]]:
    """Yield the needs of the controllers by namespace, "" for all: what Roles can grant in each of the `namespaces`."""
    if namespaces:
        for namespace in namespaces:
            yield namespace, [need for need in wanted if need.is_of_namespace]
        wanted = [need for need in wanted if not need.is_of_namespace]
        if wanted:
            yield CLUSTER_EVENTS_NAMESPACE, [CLUSTER_EVENTS]
    yield "", wanted


async def _check_permissions(client: RestClient, places: Iterable[tuple[str, list[Need]]]) -> None:
    """Review access for each verb on each resource, by namespace, and report all denials together."""
    slots = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)
    asked = dict.fromkeys(
        (namespace, need, verb, name)
        for namespace, needed in places
        for need, verb in each_verb(needed)
        for name in need.names or ("",)
    )
    answers = await asyncio.gather(*(_is_denied(client, slots, *each) for each in asked))
    refused: dict[str, dict[str, list[str]]] = {}
    for (namespace, need, verb, name), is_denied in zip(asked, answers, strict=True):
        if is_denied:
            refused.setdefault(namespace, {}).setdefault(_text(need, name), []).append(verb)
    if refused:
        raise CannotStart(f"missing permissions {'; '.join(_missing(*each) for each in refused.items())}")


async def _is_denied(
    client: RestClient, slots: asyncio.Semaphore, namespace: str, need: Need, verb: str, name: str
) -> bool:
    attributes = {
        "namespace": namespace,
        "group": need.resource.group,
        "version": need.resource.version,
        "resource": need.resource.plural,
        "subresource": need.subresource,
        "name": name,
        "verb": verb,
    }
    async with slots:
        review = await client.create(REVIEWS, "", {"spec": {"resourceAttributes": attributes}})
    return not review["status"].get("allowed")


def _text(need: Need, name: str) -> str:
    group = f".{need.resource.group}" if need.resource.group else ""
    plural, _, subresource = need.name.partition("/")
    return f"{plural}{group}{f'/{subresource}' if subresource else ''} {name}".strip()


def _missing(namespace: str, refused: Mapping[str, Sequence[str]]) -> str:
    """Return what is missing in a namespace, "" for all. `refused`: the verbs by object."""
    what = "; ".join(f"{', '.join(verbs)} {name}" for name, verbs in refused.items())
    where, role = (f"namespace {namespace}", "Role") if namespace else ("all namespaces", "ClusterRole")
    return f"in {where}: {what}; bind a {role} that grants them"


def _refused(server: str, error: ApiError) -> str:
    if error.is_unauthorized:
        return f"the API server {server} rejects the credentials (401 {error.reason}): log in again"
    return f"the API server {server} answers {error.status} {error.reason}: {_one_line(error)}"


def _tree(body: bytes) -> Json:
    try:
        tree: Json = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise OSError(f"the response is not from an API server: {body[:80]!r}") from error
    return tree if isinstance(tree, dict) else {}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
