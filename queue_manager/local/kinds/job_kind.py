"""The kind Job; its validation and defaults are those of the Job controller."""

from __future__ import annotations

from dataclasses import replace

from job_controller.api_rules import defaults, status_validation, validation
from job_controller.json_tree import Json
from queue_manager.api.api_resources import JOBS
from queue_manager.local.kinds import job_rows
from queue_manager.local.kinds.builtin_kind import builtin, lookup
from queue_manager.local.schema.fieldset import FieldSet, of_paths, union


def _fields(job: Json) -> dict[str, str]:
    return {"status.successful": str(lookup(job, "status.succeeded") or 0)}


_MADE = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")


def _generated(job: Json) -> FieldSet:
    """Fields that creation adds to a Job besides defaults: its selector and labels, which no field manager owns.

    A Job without labels gets those of its template, which the client's field manager owns.
    """
    found = of_paths(("f:spec", "f:selector")) if not lookup(job, "spec.selector") else {}
    for path in ("metadata", "spec.template.metadata"):
        labels = lookup(job, f"{path}.labels") or lookup(job, "spec.template.metadata.labels") or {}
        above = (*(f"f:{step}" for step in path.split(".")), "f:labels")
        if labels:
            found = union(found, of_paths(*((*above, f"f:{name}") for name in _MADE if name not in labels)))
        else:
            found = union(found, of_paths(above))
    return found


JOB = replace(
    builtin(
        JOBS,
        "io.k8s.api.batch.v1.Job",
        categories=("all",),
        prepare_create=defaults.prepare_create,
        prepare_update=defaults.prepare_update,
        prepare_status=defaults.prepare_status,
        fields=_fields,
        columns=job_rows.COLUMNS,
        row=job_rows.row,
        default_propagation="Orphan",
        generated_fields=_generated,
    ),
    # The validation of a Job includes that of its metadata.
    validate_create=validation.validate_create,
    validate_update=validation.validate_update,
    validate_status=status_validation.validate_status_update,
    warnings=validation.warnings,
)
