"""Whether pods of a template can run on the nodes of a flavor.

Compares taints with tolerations, and node selector and required node affinity with the flavor's node labels. Only
label keys that the flavor names are compared: a flavor says nothing about other labels of its nodes. Kueue:
pkg/scheduler/flavorassigner, BEHAVIOUR.md#q13-flavor-assignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from job_controller.json_tree import Json
from queue_manager.api.types import ResourceFlavor, Taint
from queue_manager.scheduling.node_matching import meets, tolerates


def first_untolerated(taints: Sequence[Taint], tolerations: Sequence[Json]) -> Taint | None:
    """The first untolerated taint with effect NoSchedule or NoExecute, or None. PreferNoSchedule is ignored."""
    for taint in taints:
        tree = {"key": taint.key, "value": taint.value, "effect": taint.effect}
        if taint.effect != "PreferNoSchedule" and not any(tolerates(each, tree) for each in tolerations):
            return taint
    return None


def refusal(flavor: ResourceFlavor, pod_spec: Json) -> str:
    """Why pods with this spec (or its placement fields) cannot use the flavor, in Kueue's words; "" if they can."""
    spec = flavor.spec
    if not spec.node_taints and not spec.node_labels and not pod_spec.get("affinity"):
        return ""
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
    """Whether one of the alternative terms matches; a term with only unknown keys matches everything."""
    known = [e for e in term.get("matchExpressions") or () if e.get("key") in labels]
    return all(meets(labels[e["key"]], e) for e in known)
