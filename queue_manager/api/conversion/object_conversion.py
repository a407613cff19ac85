"""The facets of each kind, and the conversion of an object to a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from job_controller.json_tree import Json
from queue_manager.api import keys
from queue_manager.api.conversion import admission_check, cluster_queue, local_queue, workload
from queue_manager.api.conversion.facets import Facet, translated

FACETS: Mapping[str, Sequence[Facet]] = {
    "AdmissionCheck": admission_check.FACETS,
    "ClusterQueue": cluster_queue.FACETS,
    "Cohort": (),
    "LocalQueue": local_queue.FACETS,
    "ResourceFlavor": (),
    "Workload": workload.FACETS,
    "WorkloadPriorityClass": (),
}
"""By kind. A kind without facets is the same in both versions."""

VERSIONS = (keys.V1BETA1, keys.API_VERSION)


class ConversionError(ValueError):
    """An object or a version that this module does not know."""


def convert(obj: Json, api_version: str) -> Json:
    """Return an object of either version in `api_version`. Only apiVersion, facets and annotations differ.

    The result may share parts with `obj`. Raises ConversionError for other versions and kinds.
    """
    source, kind = obj.get("apiVersion"), obj.get("kind")
    if source not in VERSIONS or not isinstance(kind, str) or kind not in FACETS:
        raise ConversionError(f"cannot convert {kind} of {source}")
    if api_version not in VERSIONS:
        raise ConversionError(f"cannot convert {kind} to {api_version}")
    if source == api_version:
        return obj
    if not FACETS[kind]:
        return {**obj, "apiVersion": api_version}
    upgrade = api_version == keys.API_VERSION
    return {**translated(obj, FACETS[kind], upgrade=upgrade), "apiVersion": api_version}
