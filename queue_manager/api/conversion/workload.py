"""The facets of Workload: its priority class, topology assignments, preemption gates and a misspelled field."""

from __future__ import annotations

from queue_manager.api.conversion.facets import Facet, Fields, only_in_v1beta2, renamed
from queue_manager.api.conversion.topology_assignments import ASSIGNMENT, REQUEST, domains_of, slices_of

NAME, SOURCE, REF = "priorityClassName", "priorityClassSource", "priorityClassRef"
CLASSES = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
SOURCES = {both: source for source, both in CLASSES.items()}


def _to_ref(fields: Fields) -> Fields:
    name, source = fields.get(NAME), fields.get(SOURCE)
    if not isinstance(source, str) or source not in CLASSES or not isinstance(name, str) or not name:
        return {}
    group, kind = CLASSES[source]
    return {REF: {"group": group, "kind": kind, "name": name}}


def _to_name_and_source(fields: Fields) -> Fields:
    """Translate priorityClassRef to name and source; without a class the source is "", the default of v1beta1."""
    ref = fields.get(REF)
    if not isinstance(ref, dict) or not isinstance(ref.get("name"), str):
        return {SOURCE: ""}
    source = next((source for both, source in SOURCES.items() if both == (ref.get("group"), ref.get("kind"))), None)
    return {SOURCE: ""} if source is None else {NAME: ref["name"], SOURCE: source}


def _to_slices(fields: Fields) -> Fields:
    slices = slices_of(fields.get("domains"))
    return {} if slices is None else {"slices": slices}


def _to_domains(fields: Fields) -> Fields:
    domains = domains_of(fields.get("slices"))
    return {} if domains is None else {"domains": domains}


FACETS = (
    Facet(("spec",), (NAME, SOURCE), (REF,), _to_ref, _to_name_and_source),
    only_in_v1beta2(("spec",), "preemptionGates"),
    only_in_v1beta2(REQUEST, "podsetSliceRequiredTopologyConstraints"),
    renamed(("status",), "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds"),
    Facet(ASSIGNMENT, ("domains",), ("slices",), _to_slices, _to_domains),
    only_in_v1beta2(("status",), "preemptionGates"),
)
