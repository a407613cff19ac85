"""Validation of pod templates; re-exports defaults and validation of pod specs for kinds that contain them."""

from __future__ import annotations

from job_controller.api_rules.field_errors import FieldError, forbidden
from job_controller.api_rules.label_selectors import validate_label_map
from job_controller.api_rules.metadata_validation import validate_annotations
from job_controller.api_rules.pod_defaults import default_pod, default_pod_spec
from job_controller.api_rules.pod_spec_validation import validate_pod_spec
from job_controller.json_tree import Json

__all__ = ["default_pod", "default_pod_spec", "validate_pod_spec", "validate_template"]


def validate_template(template: Json, path: str) -> list[FieldError]:
    """The errors of a pod template. Of its metadata only labels and annotations are validated
    (BEHAVIOUR.md#b3-spec-validation).
    """
    metadata = template.get("metadata") or {}
    errors = validate_label_map(metadata.get("labels"), f"{path}.labels")
    errors += validate_annotations(metadata.get("annotations"), f"{path}.annotations")
    spec = template.get("spec") or {}
    errors += validate_pod_spec(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", text))
    return errors
