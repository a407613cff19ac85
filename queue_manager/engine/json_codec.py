"""JSON decoding and encoding of API objects.

Decoders are cached per type, because building one costs far more than using it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import force_setattr

from job_controller.model import Object, ObjectMeta
from queue_manager.api.api_resources import Resource

O = TypeVar("O")  # noqa: E741 - O as in object


class HasMetadata(Protocol):
    """What an object must have to be cached."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, uid and revision, by which caches find and order objects."""
        ...


UNDECODABLE = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError)


def decoder(type: type[O]) -> msgspec.json.Decoder[O]:
    """The cached decoder of a Struct class, or of JSON trees for `dict`."""
    return _decoder(type)  # type: ignore[arg-type]


@cache
def _decoder(type: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(dict[str, Any] if type is dict else type)


def encode(obj: object, resource: Resource | None = None) -> bytes:
    """The object as JSON. With `resource`, an empty apiVersion or kind is filled in."""
    if resource is None or _names_its_kind(obj):
        return msgspec.json.encode(obj)
    tree: dict[str, Any] = msgspec.to_builtins(obj)
    return msgspec.json.encode({**tree, "apiVersion": resource.api_version, "kind": resource.kind})


def _names_its_kind(obj: object) -> bool:
    if isinstance(obj, Mapping):
        return bool(obj.get("kind") and obj.get("apiVersion"))
    return bool(getattr(obj, "kind", "") and getattr(obj, "api_version", ""))


def complete(obj: object, resource: Resource) -> None:
    """Set apiVersion and kind of a decoded object: items of a list come without them.

    The strings are those of the resource, so that all objects of a collection share them.
    """
    if isinstance(obj, dict):
        obj.update(apiVersion=resource.api_version, kind=resource.kind)
    elif isinstance(obj, Object):
        force_setattr(obj, "kind", resource.kind)
        force_setattr(obj, "api_version", resource.api_version)


def revision(obj: HasMetadata) -> int:
    """The resourceVersion as a number, 0 if it is not one. Within one resource a greater revision is newer."""
    try:
        return int(obj.metadata.resource_version)
    except ValueError:
        return 0
