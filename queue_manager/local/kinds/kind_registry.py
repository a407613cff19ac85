"""The registry of kinds that the API server serves: built-in kinds and those of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from job_controller.json_tree import Json
from queue_manager.local.kinds.class_and_lease_kinds import LEASE, PRIORITY_CLASS, RUNTIME_CLASS
from queue_manager.local.kinds.crd_kind import CRD
from queue_manager.local.kinds.custom_kinds import custom_kinds
from queue_manager.local.kinds.event_kind import EVENT, NEW_EVENT
from queue_manager.local.kinds.job_kind import JOB
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.kinds.node_kind import NODE
from queue_manager.local.kinds.pod_kind import POD
from queue_manager.local.kinds.small_core_kinds import CONFIG_MAP, LIMIT_RANGE, NAMESPACE, SECRET, SERVICE_ACCOUNT

BUILTIN: Sequence[Kind] = (
    CONFIG_MAP,
    EVENT,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
    CRD,
    JOB,
    LEASE,
    NEW_EVENT,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
)


class MountedAnswer(Protocol):
    """Status code and JSON body of a response."""

    @property
    def status(self) -> int:
        """The HTTP status code."""
        ...

    @property
    def body(self) -> Json:
        """The object to encode as JSON."""
        ...


class MountedGroup(Protocol):
    """An API group that answers GET requests itself, as one that a real API server aggregates."""

    @property
    def group(self) -> str:
        """The name of the group."""
        ...

    @property
    def versions(self) -> Sequence[str]:
        """The preferred version first."""
        ...

    def resources(self) -> list[Json]:
        """The entries of the APIResourceList, which all versions share."""
        ...

    def described(self) -> list[Json]:
        """The group as an entry of aggregated discovery."""
        ...

    def serves(self, path: str) -> bool:
        """Whether the group has the path."""
        ...

    async def answer(self, path: str, query: Mapping[str, str]) -> MountedAnswer | None:
        """The response to a GET request; None if the group does not have the path."""
        ...


class KindRegistry:
    """Kinds by group, version and plural. `generation` counts changes and invalidates caches derived from the
    registry.
    """

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._custom: dict[str, list[tuple[str, str, str]]] = {}
        self.mounted: dict[str, MountedGroup] = {}
        self.generation = 0
        for kind in kinds:
            self._kinds[_key(kind)] = kind

    @classmethod
    def builtin(cls) -> KindRegistry:
        """Return a registry of the built-in kinds alone."""
        return cls(BUILTIN)

    def mount(self, group: MountedGroup) -> None:
        """Serve a group that is not part of the store."""
        self.mounted[group.group] = group
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind; None if it is not served in this group and version."""
        return self._kinds.get((group, version, plural))

    def all(self) -> list[Kind]:
        """Every kind in every version: built-in ones first, then custom ones in the order of installation."""
        return list(self._kinds.values())

    def install(self, crd: Json) -> list[Kind]:
        """Serve the kinds of a CustomResourceDefinition, replacing those of its earlier state. Returns them."""
        kinds = custom_kinds(crd)
        self.remove(crd)
        self._custom[crd["metadata"]["name"]] = [_key(kind) for kind in kinds]
        self._kinds |= {_key(kind): kind for kind in kinds}
        self.generation += 1
        return kinds

    def remove(self, crd: Json) -> None:
        """Stop serving the kinds of a CustomResourceDefinition."""
        for key in self._custom.pop(crd["metadata"]["name"], ()):
            self._kinds.pop(key, None)
        self.generation += 1


def _key(kind: Kind) -> tuple[str, str, str]:
    return kind.resource.group, kind.resource.version, kind.resource.plural
