"""May pods of this template run on the nodes of this flavor?

Taints against tolerations, node selector and required node affinity against the flavor's node labels. Only
keys that the flavor names count: it says nothing about the other labels of its nodes (spec: kueue.md 6.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from job_controller.json_tree import Json
from queue_manager.api.types import ResourceFlavor, Taint
from queue_manager.scheduling.node_matching import meets, tolerates


def first_untolerated(taints: Sequence[Taint], tolerations: Sequence[Json]) -> Taint | None:
    """The first taint that keeps pods away. PreferNoSchedule never does."""
    for taint in taints:
        told = {"key": taint.key, "value": taint.value, "effect": taint.effect}
        if taint.effect != "PreferNoSchedule" and not any(tolerates(each, told) for each in tolerations):
            return taint
    return None


def refusal(flavor: ResourceFlavor, pod_spec: Json) -> str:
    """Why pods of this spec cannot use the flavor; empty if they can."""
    spec = flavor.spec
    tolerations = [*(pod_spec.get("tolerations") or ()), *spec.tolerations]
    taint = first_untolerated(spec.node_taints, tolerations)
    name = flavor.metadata.name
    if taint is not None:
        return f"untolerated taint {{{taint.key} {taint.value} {taint.effect} <nil>}} in flavor {name}"
    if not _labels_match(spec.node_labels, pod_spec):
        return f"flavor {name} doesn't match node affinity"
    return ""


def _labels_match(labels: Mapping[str, str], pod_spec: Json) -> bool:
    selector = pod_spec.get("nodeSelector") or {}
    if any(labels[key] != value for key, value in selector.items() if key in labels):
        return False
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term_matches(labels, term) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(labels: Mapping[str, str], term: Json) -> bool:
    """Terms are alternatives; one that names only unknown keys matches everything."""
    known = [e for e in term.get("matchExpressions") or () if e.get("key") in labels]
    return all(meets(labels[e["key"]], e) for e in known)
