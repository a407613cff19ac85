"""Facets: the fields that v1beta1 and v1beta2 express differently, and how one form is translated to the other.

The translation of a facet may lose information in either direction. The converted object then keeps the original
fields in an annotation. The way back takes them from there, if they still translate to what the object has now, that
is, if no client changed the object in between:

    before = fields of this version        after = kept fields, if they translate to `before`; else translate(before)
    if `after` does not translate back to `before`, keep `before`

Fields kept for v1beta2 come from a client of v1beta1, and no API server validates them in v1beta2. They are only used
if they are valid there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from job_controller.json_tree import Json
from queue_manager.api import keys
from queue_manager.api.conversion import kept_field_validation

Fields = dict[str, Json]  # some fields of one object
Translation = Callable[[Fields], Fields]


def nothing(_: Fields) -> Fields:
    """Translate fields that the other version does not have."""
    return {}


def unchanged(fields: Fields) -> Fields:
    """Translate fields that are the same in the other version."""
    return dict(fields)


@dataclass(frozen=True, slots=True)
class Facet:
    """Fields of the object at `parent`, in both versions. The translations accept any value and never fail.

    A step of the path that ends with `[]` goes to every item of a list.
    """

    parent: tuple[str, ...]
    v1beta1: tuple[str, ...]
    v1beta2: tuple[str, ...]
    to_v1beta2: Translation
    to_v1beta1: Translation

    @property
    def name(self) -> str:
        """The name of the facet, unique among the facets of its parent: its first field."""
        return (self.v1beta2 or self.v1beta1)[0]


def renamed(parent: tuple[str, ...], v1beta1: str, v1beta2: str) -> Facet:
    """A field with two names."""

    def rename(fields: Fields, name: str) -> Fields:
        return {name: next(iter(fields.values()))} if fields else {}

    return Facet(
        parent,
        (v1beta1,),
        (v1beta2,),
        lambda fields: rename(fields, v1beta2),
        lambda fields: rename(fields, v1beta1),
    )


def only_in_v1beta1(parent: tuple[str, ...], field: str) -> Facet:
    """A field that v1beta2 does not have."""
    return Facet(parent, (field,), (), nothing, nothing)


def only_in_v1beta2(parent: tuple[str, ...], field: str) -> Facet:
    """A field that v1beta1 does not have."""
    return Facet(parent, (), (field,), nothing, nothing)


class _Way(NamedTuple):
    """A facet with its translation in one direction."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    translate: Translation
    back: Translation
    may_be_kept: Callable[[Json], bool]  # whether fields from the annotation may be used as the target


def _way(facet: Facet, upgrade: bool) -> _Way:
    if upgrade:
        valid = partial(_is_valid, facet)
        return _Way(facet.v1beta1, facet.v1beta2, facet.to_v1beta2, facet.to_v1beta1, valid)
    return _Way(facet.v1beta2, facet.v1beta1, facet.to_v1beta1, facet.to_v1beta2, _is_object)


def translated(obj: Json, facets: Sequence[Facet], *, upgrade: bool) -> Json:
    """Return an object in v1beta2 if `upgrade`, else in v1beta1. It shares unchanged parts with the given one."""
    tree = _unshared(obj, [("metadata", "annotations"), *(facet.parent for facet in facets)])
    annotations = keys.ONLY_IN_V1BETA2, keys.ONLY_IN_V1BETA1
    restore, preserve = annotations if upgrade else reversed(annotations)
    kept, keep = _taken(tree, restore), dict[str, Json]()
    for facet in facets:
        way = _way(facet, upgrade)
        for place, parent in _parents(tree, facet.parent):
            here = f"{place}.{facet.name}"
            before = _pop(parent, way.source, way.target)
            after: Json = kept.get(here)
            if not way.may_be_kept(after) or way.back(after) != before:
                after = way.translate(before)
            if way.back(after) != before:
                keep[here] = before
            parent.update(after)
    _keep(tree, preserve, keep)
    return tree


def _unshared(tree: Json, paths: Sequence[tuple[str, ...]]) -> Json:
    """Return a copy in which the objects along the paths can be changed; copying all would take most of the time."""
    if isinstance(tree, list):
        return [_unshared(item, paths) for item in tree]
    if not isinstance(tree, dict):
        return tree
    copied = dict(tree)
    for step in {path[0] for path in paths if path}:
        field = step.removesuffix("[]")
        if field in copied:
            copied[field] = _unshared(copied[field], [path[1:] for path in paths if path and path[0] == step])
    return copied


def _parents(tree: Json, path: tuple[str, ...], place: str = "") -> Iterator[tuple[str, Fields]]:
    """The objects at a path, each with its place: `spec.podSets[main]`."""
    if not isinstance(tree, dict):
        return
    if not path:
        yield place, tree
        return
    step, rest = path[0], path[1:]
    field = step.removesuffix("[]")
    here = f"{place}.{field}" if place else field
    if field == step:
        yield from _parents(tree.get(field), rest, here)
    elif isinstance(items := tree.get(field), list):
        for item in items:
            name = item.get("name") if isinstance(item, dict) else None
            yield from _parents(item, rest, f"{here}[{name}]")


def _pop(parent: Fields, fields: Sequence[str], others: Sequence[str]) -> Fields:
    """Remove and return the given fields. `others`, those of the other version, are unknown here and are dropped."""
    found = {name: parent.pop(name) for name in fields if name in parent}
    for name in others:
        parent.pop(name, None)
    return found


def _taken(tree: Json, annotation: str) -> Mapping[str, Json]:
    """Remove an annotation and return the fields that it keeps; none if it is unreadable."""
    meta = tree.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    if not isinstance(annotations, dict) or annotation not in annotations:
        return {}
    text = annotations.pop(annotation)
    if not annotations:
        del meta["annotations"]
    try:
        kept = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _keep(tree: Json, annotation: str, fields: Mapping[str, Json]) -> None:
    """Set an annotation to the fields to keep; remove it without any."""
    meta = tree.get("metadata")
    present = meta.get("annotations") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or not isinstance(present, dict | None):
        return
    annotations = {name: value for name, value in (present or {}).items() if name != annotation}
    if fields:
        annotations[annotation] = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if annotations or present:
        meta["annotations"] = annotations


def _is_object(fields: Json) -> bool:
    return isinstance(fields, dict)


def _is_valid(facet: Facet, fields: Json) -> bool:
    """Whether the kept `fields` belong to this facet in v1beta2 and have valid values."""
    if not isinstance(fields, dict):
        return False

    return kept_field_validation.are_valid(facet.parent, fields)
