"""Defaults of a Job, its generated selector and labels (upstream SetDefaults_Job and jobStrategy.PrepareForCreate).

All functions modify the object that is about to be stored. Its metadata is already set: the generated selector needs
the UID. See BEHAVIOUR.md#b2-defaults and BEHAVIOUR.md#b4-generated-selector.
"""

from __future__ import annotations

from job_controller import labels
from job_controller.api_rules.label_selectors import matches
from job_controller.api_rules.pod_defaults import default_pod_spec
from job_controller.api_rules.stored_form import stored_time, tidy
from job_controller.json_tree import Json

BACKOFF_LIMIT = 6
UNLIMITED = 2**31 - 1


def prepare_create(job: Json) -> None:
    """Normalise and default a new Job: its status is cleared; selector and labels are generated."""
    _tidy_metadata(job)
    spec = _tidy_spec(job)
    _default_spec(spec)
    if not spec["manualSelector"]:
        _generate_selector(job)
    _default_labels(job)
    job["status"] = {}


def prepare_update(new: Json, old: Json) -> None:
    """Drop empty values from a replacement of a Job and set its defaults, in place.

    A selector is generated on create only.
    """
    _tidy_metadata(new)
    _default_spec(_tidy_spec(new))
    _default_labels(new)


def prepare_status(new: Json, old: Json) -> None:
    """Drop empty values from the metadata and status of a status update, in place.

    The caller has restored the spec from `old`.
    """
    _tidy_metadata(new)
    _tidy_status(new)
    _default_labels(new)


def _tidy_metadata(job: Json) -> None:
    metadata = job.get("metadata")
    if metadata is None:
        metadata = job["metadata"] = {}
    for field in [field for field, value in metadata.items() if value is None or value == "" or value == []]:
        del metadata[field]
    for field in ("labels", "annotations"):
        if metadata.get(field) == {}:
            del metadata[field]
    for field in ("labels", "annotations"):
        if None in metadata.get(field, {}).values():
            metadata[field] = {key: value or "" for key, value in metadata[field].items()}
    for field in ("finalizers", "ownerReferences"):
        if None in metadata.get(field, ()):
            metadata[field] = [item or ("" if field == "finalizers" else {}) for item in metadata[field]]


def _tidy_spec(job: Json) -> Json:
    spec = job.get("spec")
    if spec is None:
        spec = job["spec"] = {}
    policy = spec.get("podFailurePolicy")
    emptied = ((spec.get("template") or {}).get("metadata") or {}).get("labels") == {}
    without_codes = _fill_exit_codes(policy)
    tidy(spec)
    for codes in without_codes:
        codes["values"] = []  # validation rejects it and prints it as sent
    if policy is not None:
        _keep_required_lists(policy)
    template = spec.setdefault("template", {})
    template.setdefault("spec", {})
    metadata = template.setdefault("metadata", {})
    if emptied and not matches(spec.get("selector"), {}):
        metadata["labels"] = {}  # validation rejects it and prints it as sent
    return spec


def _fill_exit_codes(policy: Json) -> list[Json]:
    """Replace null exit codes by 0. Returns the onExitCodes with an empty list, which `tidy` would drop."""
    empty = []
    for rule in (policy or {}).get("rules") or ():
        codes = (rule or {}).get("onExitCodes") or {}
        values = codes.get("values")
        if values == []:
            empty.append(codes)
        elif values is not None:
            values[:] = [0 if code is None else code for code in values]
    return empty


def _keep_required_lists(policy: Json) -> None:
    """Set required fields that `tidy` dropped; the API server writes an empty list as null."""
    policy.setdefault("rules", None)
    for rule in policy["rules"] or ():
        rule.setdefault("action", "")
        if "onExitCodes" in rule:
            rule["onExitCodes"].setdefault("operator", "")
            rule["onExitCodes"].setdefault("values", None)


def _tidy_status(job: Json) -> None:
    status = job.get("status")
    if status is None:
        status = job["status"] = {}
    tidy(status)
    for field in ("startTime", "completionTime"):
        if field in status:
            status[field] = stored_time(status[field])
    for condition in status.get("conditions") or ():
        condition.setdefault("type", "")
        condition.setdefault("status", "")
        for field in ("lastProbeTime", "lastTransitionTime"):
            # Times of conditions are always stored, absent ones as null.
            time = condition.get(field)
            condition[field] = None if time is None else stored_time(time)


def _default_spec(spec: Json) -> None:
    if "parallelism" not in spec:
        spec["parallelism"] = 1
        spec.setdefault("completions", 1)
    if "backoffLimit" not in spec:
        spec["backoffLimit"] = UNLIMITED if "backoffLimitPerIndex" in spec else BACKOFF_LIMIT
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = spec.get("podFailurePolicy")
    for rule in (policy or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            condition.setdefault("type", "")
            condition["status"] = condition.get("status") or "True"
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    default_pod_spec(spec["template"]["spec"])


def _generate_selector(job: Json) -> None:
    """Add the generated labels and the selector (upstream generateSelector).

    Existing labels are kept; validation rejects those that differ.
    """
    name, uid = job["metadata"].get("name", ""), job["metadata"].get("uid", "")
    spec = job["spec"]
    own = spec["template"]["metadata"].setdefault("labels", {})
    own.setdefault(labels.LEGACY_JOB_NAME, name)
    own.setdefault(labels.JOB_NAME, name)
    own.setdefault(labels.LEGACY_CONTROLLER_UID, uid)
    own.setdefault(labels.CONTROLLER_UID, uid)
    selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
    selector.setdefault(labels.CONTROLLER_UID, uid)


def _default_labels(job: Json) -> None:
    """Copy the labels of the template to a Job without labels."""
    own = (job["spec"]["template"].get("metadata") or {}).get("labels")
    if own and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(own)
