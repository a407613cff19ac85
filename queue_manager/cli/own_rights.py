"""Whether the user has the rights that a command needs, asked before its first change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from queue_manager.api.api_resources import Resource
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError

REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)


class Right(NamedTuple):
    """A verb that a command needs on an object; `name` is "" for all objects of the kind."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}{f'/{self.subresource}' if self.subresource else ''} {self.name}".strip()
        return f"{self.verb} {what}{f' in namespace {self.namespace}' if self.namespace else ''}"


async def check(client: RestClient, wanted: Iterable[Right]) -> None:
    """Raise CommandRefused with every right that the user lacks."""
    denied = [each for each in dict.fromkeys(wanted) if not await is_allowed(client, each)]
    if denied:
        raise CommandRefused(f"you lack these rights, so nothing was changed: {'; '.join(map(str, denied))}")


async def is_allowed(client: RestClient, right: Right) -> bool:
    """Return whether the user has this right, as far as the user may ask that."""
    attributes = {
        "verb": right.verb,
        "group": right.resource.group,
        "version": right.resource.version,
        "resource": right.resource.plural,
        "subresource": right.subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    try:
        review = await client.create(REVIEWS, "", {"spec": {"resourceAttributes": attributes}})
    except ApiError as error:
        if not error.is_forbidden:  # who may not ask finds out with the change itself
            raise
        return True
    return bool(review["status"].get("allowed"))
