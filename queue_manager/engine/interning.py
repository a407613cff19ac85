"""Makes cached objects small: equal values of different objects share one Python object.

A decoder creates every string anew, so that 100 000 pods would hold 100 000 copies of "team-a", "PodScheduled" and the
uid of their Job. A running Job pod (3.7 KB of JSON) takes 3.9 KB as decoded; the benchmark `reflector` prints what is
left after sharing.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec.structs import force_setattr

from queue_manager.api.api_resources import Resource
from queue_manager.engine.json_codec import HasMetadata

T = TypeVar("T", bound=HasMetadata)
V = TypeVar("V")

REPEATED = (("spec", "node_name"), ("status", "phase"))  # fields with few distinct values per cluster
MAX_POOL = 1 << 14  # distinct values; beyond that the pool is cleared
MAX_POD_SETS = 1 << 10  # the same, for the pod sets of Workloads, which are large


def sharer(resource: Resource, type: type[Any]) -> Callable[[Any, Any], None]:
    """A function `share(obj, before)` that completes and compacts a freshly decoded object of this type, in place.

    It sets apiVersion and kind, which items of a list lack. `before` is the previous state of the object, or None:
    values that did not change are taken from it.
    """
    hints = get_type_hints(type)
    named = "kind" in hints and "api_version" in hints
    with_conditions = "conditions" in getattr(hints.get("status"), "__struct_fields__", ())
    repeated = [
        (part, name)
        for part, name in REPEATED
        if name in getattr(hints.get(part), "__struct_fields__", ()) and get_type_hints(hints[part])[name] is str
    ]
    api_version, kind = resource.api_version, resource.kind
    with_pod_sets = "pod_sets" in getattr(hints.get("spec"), "__struct_fields__", ())
    owners, finalizers = _Pool[Any](), _Pool[Any]()
    pod_sets: dict[bytes, Any] = {}  # by their JSON
    last: Any = ()

    def share(obj: Any, before: Any = None) -> None:
        nonlocal last
        if named:
            force_setattr(obj, "api_version", api_version)
            force_setattr(obj, "kind", kind)
        meta = obj.metadata
        if before is None:
            share_new(meta)
        else:
            share_known(meta, before.metadata)
        for part, name in repeated:
            owner = getattr(obj, part)
            force_setattr(owner, name, intern(getattr(owner, name)))
        if with_pod_sets:
            share_pod_sets(obj, before)
        if with_conditions:
            status = obj.status
            conditions = status.conditions
            if before is not None and conditions == before.status.conditions:
                last = before.status.conditions
            elif conditions != last:  # pods of a Job that start in the same second share theirs
                last = conditions
                for condition in conditions:
                    force_setattr(condition, "type", intern(condition.type))
                    force_setattr(condition, "status", intern(condition.status))
            force_setattr(status, "conditions", last)

    def share_known(meta: Any, before: Any) -> None:
        """Take the fields that did not change from the previous state, in most changes all of them; intern the rest."""
        force_setattr(meta, "namespace", before.namespace)
        if meta.labels == before.labels:
            force_setattr(meta, "labels", before.labels)
        else:
            share_labels(meta)
        if meta.annotations == before.annotations:
            force_setattr(meta, "annotations", before.annotations)
        else:
            share_annotations(meta)
        if meta.owner_references == before.owner_references:
            force_setattr(meta, "owner_references", before.owner_references)
        else:
            force_setattr(meta, "owner_references", owners.intern(meta.owner_references))
        if meta.finalizers:
            force_setattr(meta, "finalizers", finalizers.intern(meta.finalizers))

    def share_new(meta: Any) -> None:
        if meta.namespace:
            force_setattr(meta, "namespace", intern(meta.namespace))
        if meta.labels:
            share_labels(meta)
        if meta.annotations:
            share_annotations(meta)
        if meta.owner_references:
            force_setattr(meta, "owner_references", owners.intern(meta.owner_references))
        if meta.finalizers:
            force_setattr(meta, "finalizers", finalizers.intern(meta.finalizers))

    def share_labels(meta: Any) -> None:
        force_setattr(meta, "labels", {intern(name): intern(value) for name, value in meta.labels.items()})

    def share_annotations(meta: Any) -> None:
        """Replace the keys of annotations by shared ones. Values stay: they can be long and are rarely equal."""
        force_setattr(meta, "annotations", {intern(name): value for name, value in meta.annotations.items()})

    def share_pod_sets(obj: Any, before: Any) -> None:
        """Share the pod templates of Workloads whose Jobs are alike: most of what a Workload takes."""
        if before is not None and obj.spec == before.spec:
            force_setattr(obj, "spec", before.spec)
            return
        if len(pod_sets) > MAX_POD_SETS:
            pod_sets.clear()
        found = obj.spec.pod_sets
        force_setattr(obj.spec, "pod_sets", pod_sets.setdefault(msgspec.json.encode(found), found))

    return share


class _Pool(dict[V, V]):
    """Maps each value to the first equal value."""

    def intern(self, value: V) -> V:
        """The first value equal to this one."""
        if len(self) > MAX_POOL:
            self.clear()
        return self.setdefault(value, value)
