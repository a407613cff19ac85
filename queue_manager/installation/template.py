"""Templates of objects: JSON with settings in it, and the renderer that fills them in.

    Setting("image.tag")                the value of a setting
    Text("lease-", Setting("a.b"))      a string with settings in it
    Choice(condition, node, node)       one of two values
    When(condition, node)               an entry of a mapping, an item of a list or an object that may be absent
    Each("namespaces", node)            an item of a list or an object for each value of a setting; ITEM is the value
    Spread("podAnnotations")            the entries of a setting, as further entries of the mapping that has it
    Checksum("a.b")                     the SHA-256 of a setting that is a text
    Encoded("a.b")                      a setting that is a text, in base64
    Joined("a.b", ", ", "")             in a Text: the values of a setting, each after the one and before the other

A path that begins with `config.` is that of a field in the KueueConfig, which is itself a setting. So webhooks and
policies cannot disagree with the configuration that the manager reads.

`helm_text` renders the same templates as a Helm chart.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from job_controller.json_tree import Json


@dataclass(frozen=True, slots=True)
class Setting:
    """Template node that stands for the value of a setting, by its path in values.yaml."""

    path: str


@dataclass(frozen=True, slots=True)
class _Item:
    """Template node that stands for the current item of the innermost Each."""


ITEM = _Item()
CONFIG = "managerConfig.controllerManagerConfigYaml"
CONFIG_FIELDS = "config."  # begins the path of a field of that text
NAMESPACE = Setting("namespace")  # that of the installation: not a value of the chart, which has .Release.Namespace


@dataclass(frozen=True, slots=True)
class Joined:
    """Part of a Text: the values of a setting, a list, each between `before` and `after`."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, init=False)
class Text:
    """Template node that stands for a string with settings in it."""

    parts: tuple[str | Setting | _Item | Joined, ...]

    def __init__(self, *parts: str | Setting | _Item | Joined) -> None:
        object.__setattr__(self, "parts", parts)


@dataclass(frozen=True, slots=True)
class TemplateCondition:
    """Holds if a setting has a value other than false, "" or an empty list; with `among`, if its value is one of these.

    `negated` turns that around.
    """

    path: str
    among: tuple[str, ...] = ()
    negated: bool = False

    def holds(self, values: Json) -> bool:
        """Whether the condition is true with these values."""
        found = value(values, self.path)
        return bool(found in self.among if self.among else found) != self.negated


@dataclass(frozen=True, slots=True)
class When:
    """Template node that is left out unless all conditions hold."""

    conditions: tuple[TemplateCondition, ...]
    then: Node


@dataclass(frozen=True, slots=True)
class Choice:
    """Template node that stands for `then` if the condition holds, otherwise for `otherwise`."""

    condition: TemplateCondition
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Each:
    """Template node that is repeated for each value of a setting, a list; ITEM in it stands for the value."""

    path: str
    node: Node


@dataclass(frozen=True, slots=True)
class Spread:
    """Template node that stands for the entries of a setting, which is a mapping, inside another mapping."""

    path: str


@dataclass(frozen=True, slots=True)
class Checksum:
    """Template node that stands for the SHA-256 of a setting, as hexadecimal digits."""

    path: str


@dataclass(frozen=True, slots=True)
class Encoded:
    """Template node that stands for a setting in base64."""

    path: str


Leaf: TypeAlias = "str | int | bool | Setting | _Item | Text | Joined | Checksum | Encoded | None"
Node: TypeAlias = "Leaf | Choice | When | Each | Spread | Mapping[str, Node] | Sequence[Node]"
Template: TypeAlias = "Mapping[str, Node] | When | Each"


def when(node: Node, *conditions: TemplateCondition) -> When:
    """Return the node under conditions, all of which must hold."""
    return When(conditions, node)


def value(values: Json, path: str) -> object:
    """Return the value of a setting. Raises KeyError if it does not exist."""
    found: object = values
    for name in path.split("."):
        found = cast(Json, found)[name]
    return found


def either(condition: TemplateCondition, then: Node, otherwise: Node) -> Node:
    """Return one tree for two of the same form, with a Choice wherever they differ."""
    if then == otherwise:
        return then
    if isinstance(then, Mapping) and isinstance(otherwise, Mapping) and then.keys() == otherwise.keys():
        return {key: either(condition, node, otherwise[key]) for key, node in then.items()}
    if isinstance(then, list) and isinstance(otherwise, list) and len(then) == len(otherwise):
        return [either(condition, one, other) for one, other in zip(then, otherwise, strict=True)]
    return Choice(condition, then, otherwise)


def resolve(templates: Sequence[Template], values: Json) -> list[Json]:
    """Return the objects of the templates, with the values of all settings, `namespace` among them."""
    return [cast(Json, tree) for tree in _items(templates, values, None)]


def _items(nodes: Sequence[Node], values: Json, item: object) -> Iterator[object]:
    for node in nodes:
        match node:
            case When(conditions, then):
                if all(condition.holds(values) for condition in conditions):
                    yield from _items([then], values, item)
            case Each(path, inner):
                for each in cast(Sequence[object], value(values, path)):
                    yield from _items([inner], values, each)
            case _:
                yield _resolved(node, values, item)


def _resolved(node: Node, values: Json, item: object) -> object:
    match node:
        case Setting(path):
            return value(values, path)
        case _Item():
            return item
        case Text(parts):
            return "".join(str(_resolved(part, values, item)) for part in parts)
        case Joined(path, before, after):
            return "".join(f"{before}{each}{after}" for each in cast(Sequence[object], value(values, path)))
        case Checksum(path):
            return hashlib.sha256(str(value(values, path)).encode()).hexdigest()
        case Encoded(path):
            return base64.b64encode(str(value(values, path)).encode()).decode()
        case Choice(condition, then, otherwise):
            return _resolved(then if condition.holds(values) else otherwise, values, item)
        case str() | int() | None:
            return node
        case Mapping():
            return dict(_entries(node, values, item))
        case When() | Each() | Spread():
            raise TypeError(f"{node} can only be a part of a list or mapping")
        case _:
            return list(_items(node, values, item))


def _entries(nodes: Mapping[str, Node], values: Json, item: object) -> Iterator[tuple[str, object]]:
    for name, node in nodes.items():
        match node:
            case Spread(path):
                yield from cast(Json, value(values, path)).items()
            case When(conditions, then):
                if all(condition.holds(values) for condition in conditions):
                    yield name, _resolved(then, values, item)
            case _:
                yield name, _resolved(node, values, item)
