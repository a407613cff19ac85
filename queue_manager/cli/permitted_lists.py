"""Lists objects that the user may not be allowed to read: what depends on them is then left out, instead of refused."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import TypeVar

from queue_manager.api.api_resources import Resource
from queue_manager.cli.connection import read_default_namespace
from queue_manager.cli.standard_streams import say
from queue_manager.engine.rest_client import O, RestClient
from queue_manager.engine.transport_protocol import ApiError


async def list_permitted(
    client: RestClient,
    resource: Resource,
    type: type[O],
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
) -> list[O] | None:
    """Return the objects, or None if the user may not read them."""
    try:
        return await client.list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector, type=type
        )
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return None


async def list_all_or_own(
    client: RestClient, resource: Resource, type: type[O], namespace: str
) -> tuple[list[O], bool]:
    """Return the objects of all namespaces, or of this one if the user may not read the others; and whether of all."""
    found = await list_permitted(client, resource, type)
    return (found, True) if found is not None else (await client.list(resource, namespace, type=type), False)


def only_one_namespace(namespace: str, verb: str, kinds: str = "") -> str:
    """Return the line of a command that reads one namespace because the user may not read all.

    `verb`: what is done with it, `is listed`; `kinds`: which objects of it, if not all.
    """
    what = f"{kinds} of namespace" if kinds else "namespace"
    return f"only {what} {namespace} {verb}, since not all may be read; -n names another one"


T = TypeVar("T")


async def of_all_or_own(read: Callable[[str], Awaitable[T]], args: argparse.Namespace) -> T:
    """Return what `read` returns for the namespace of -n, or for "", all of them.

    Without -n and -A, a user who may not read all gets what it returns for the namespace of the context, and a line on
    standard error that says so. Raises ApiError if that is not permitted either.
    """
    if args.namespace or args.all_namespaces:
        return await read(args.namespace or "")
    try:
        return await read("")
    except ApiError as error:
        own = read_default_namespace(args)
        if not error.is_forbidden:
            raise
        found = await read(own)
    say(only_one_namespace(own, "is listed"))
    return found


async def seen(client: RestClient, resource: Resource, type: type[O], namespace: str = "") -> list[O] | None:
    """Return the objects, or None if the user may not read them or the kind does not exist."""
    try:
        return await list_permitted(client, resource, type, namespace)
    except ApiError as error:
        if not error.is_not_found:
            raise
        return None
