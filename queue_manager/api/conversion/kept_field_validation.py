"""Which fields a v1beta1 object may keep for the way back to v1beta2, and whether their values are valid there.

A client of v1beta1 can edit the annotation, and no API server validates the result in v1beta2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import ValidationError, create_model

from job_controller.json_tree import Json
from queue_manager.api.conversion.topology_assignments import ASSIGNMENT, REQUEST
from queue_manager.api.models.base import ApiModel
from queue_manager.api.models.cluster_queue import ClusterQueueSpec
from queue_manager.api.models.topology import PodSetTopologyRequest, TopologyAssignment
from queue_manager.api.models.workload import WorkloadSpec
from queue_manager.api.models.workload_status import WorkloadStatus

PARENTS: Mapping[tuple[Sequence[str], str], type[ApiModel]] = {
    (("spec",), "concurrentAdmissionPolicy"): ClusterQueueSpec,
    (("spec",), "priorityClassRef"): WorkloadSpec,
    (("spec",), "preemptionGates"): WorkloadSpec,
    (("status",), "preemptionGates"): WorkloadStatus,
    (REQUEST, "podsetSliceRequiredTopologyConstraints"): PodSetTopologyRequest,
    (ASSIGNMENT, "slices"): TopologyAssignment,
}
"""By path of the parent and name of the field."""


def are_valid(parent: tuple[str, ...], fields: Mapping[str, Json]) -> bool:
    """Whether all fields may be kept at this path and are valid in v1beta2."""
    if not all((parent, name) in PARENTS for name in fields):
        return False
    try:
        for name, value in fields.items():
            _model(parent, name).model_validate_json(json.dumps({name: value}), strict=True)
    except ValidationError:
        return False
    return True


@cache
def _model(parent: tuple[str, ...], alias: str) -> type[ApiModel]:
    """Create a model with only this field, to validate its value alone."""
    fields = PARENTS[parent, alias].model_fields
    known: dict[str, Any] = {name: (field.annotation, field) for name, field in fields.items() if field.alias == alias}
    return create_model("KeptField", __base__=ApiModel, **known)
