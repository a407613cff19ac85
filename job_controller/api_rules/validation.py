"""Validation of Jobs on create and update, and the warnings about accepted ones (upstream pkg/apis/batch/validation).

The order of checks is the order of errors. On update an API server validates the spec twice and reports its errors
twice; clients see both (BEHAVIOUR.md#b3-spec-validation, BEHAVIOUR.md#b9-errors).
"""

from __future__ import annotations

from job_controller import labels
from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, in_order, invalid, not_supported, required
from job_controller.api_rules.label_selectors import is_usable, matches, printed, validate_selector
from job_controller.api_rules.metadata_validation import validate_metadata, validate_metadata_update
from job_controller.api_rules.mutability import validate_immutable
from job_controller.api_rules.pod_templates import validate_template
from job_controller.api_rules.policy_validation import (
    printed_success_policy,
    validate_failure_policy,
    validate_manager,
    validate_success_policy,
)
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json

PARALLELISM_LIMIT = 100_000  # pods, of Indexed Jobs
MANY_COMPLETIONS = 100_000  # with more and backoffLimitPerIndex, the limits *_MANY apply
FAILED_INDEXES_LIMIT = 100_000  # indexes
PARALLELISM_LIMIT_MANY = 10_000
FAILED_INDEXES_LIMIT_MANY = 10_000
_GENERATED = {labels.LEGACY_CONTROLLER_UID, labels.LEGACY_JOB_NAME, labels.CONTROLLER_UID, labels.JOB_NAME}
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")
_TOO_MANY_INDEXES = (
    "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
    "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)


def validate_create(job: Json) -> list[FieldError]:
    """The errors of a new Job that `prepare_create` defaulted."""
    metadata = job.get("metadata") or {}
    own = metadata.get("labels") or {}
    if own.keys() == _GENERATED and own == _template_labels(job):
        # An API server copies the generated labels to the Job after validation, so they are not validated here.
        metadata = {key: value for key, value in metadata.items() if key != "labels"}
    return _validate_job(metadata, job["spec"], validate_spec(job["spec"]), prefixed_labels=True)


def _template_labels(job: Json) -> Json:
    return (job["spec"]["template"].get("metadata") or {}).get("labels") or {}


def validate_update(new: Json, old: Json) -> list[FieldError]:
    """The errors of a replacement that `prepare_update` defaulted, against the stored Job."""
    metadata, before = new.get("metadata") or {}, old.get("metadata") or {}
    # The generic checks of an update come first; those of Jobs repeat them.
    of_change, of_spec = validate_metadata_update(metadata, before), validate_spec(new["spec"])
    errors = _validate_common_metadata(metadata) + of_change
    own = _template_labels(old)
    prefixed = labels.JOB_NAME in own and labels.CONTROLLER_UID in own
    errors += _validate_job(metadata, new["spec"], of_spec, prefixed_labels=prefixed)
    return errors + of_change + of_spec + validate_immutable(new["spec"], old)


def _validate_common_metadata(metadata: Json) -> list[FieldError]:
    return validate_metadata(metadata, name_check=names.path_segment)


def _validate_job(metadata: Json, spec: Json, of_spec: list[FieldError], *, prefixed_labels: bool) -> list[FieldError]:
    errors = validate_metadata(metadata)
    errors += _validate_generated(metadata, spec, prefixed_labels)
    errors += of_spec
    completions = spec.get("completions")
    if spec.get("completionMode") == "Indexed" and completions is not None and completions > 0:
        name = metadata.get("name") or ""
        hostname = f"{name}-{completions - 1}"
        if names.dns_label(hostname):
            text = f"will not able to create pod with invalid DNS label: {hostname}"
            errors.append(invalid("metadata.name", name, text))
    return errors


def _validate_generated(metadata: Json, spec: Json, prefixed: bool) -> list[FieldError]:
    """The errors of a generated selector: the template must have the four generated labels, and the selector match
    them.
    """
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return []
    uid, name = metadata.get("uid") or "", metadata.get("name") or ""
    errors = [] if uid else [required("metadata.uid")]
    expected = {labels.LEGACY_CONTROLLER_UID: uid, labels.LEGACY_JOB_NAME: name}
    if prefixed:
        expected |= {labels.CONTROLLER_UID: uid, labels.JOB_NAME: name}
    own = (spec["template"].get("metadata") or {}).get("labels")
    for key, value in expected.items():
        at, text = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if own is None or key not in own:
            errors.append(required(at, text))
        elif own[key] != value:
            errors.append(invalid(at, in_order(own), text))
    if is_usable(selector) and not matches(selector, expected):
        errors.append(invalid("spec.selector", printed(selector), "`selector` not auto-generated"))
    return errors


# --- spec --------------------------------------------------------------------------------------------------


def validate_spec(spec: Json) -> list[FieldError]:
    """The errors of the spec alone: without those that depend on the name or on the stored Job."""
    errors = _validate_numbers(spec)
    if spec.get("managedBy") is not None:
        errors += validate_manager(spec["managedBy"], "spec.managedBy")
    errors += _validate_mode(spec)
    if spec.get("podFailurePolicy") is not None:
        errors += validate_failure_policy(spec, "spec.podFailurePolicy")
    errors += _validate_success(spec) + _validate_replacement(spec)
    errors += validate_template(spec["template"], "spec.template")
    errors += _validate_restart(spec)
    return errors + _validate_selector(spec)


def _validate_numbers(spec: Json) -> list[FieldError]:
    errors = []
    for field in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        value = spec.get(field)
        if value is not None and value < 0:
            errors.append(invalid(f"spec.{field}", value, NOT_NEGATIVE))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    return errors


def _validate_mode(spec: Json) -> list[FieldError]:
    mode = spec.get("completionMode")
    errors = []
    if mode is not None and mode not in _MODES:
        errors.append(not_supported("spec.completionMode", mode, _MODES))
    if mode == "Indexed":
        errors += _validate_indexed(spec)
    if mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                errors.append(invalid(f"spec.{field}", spec[field], "requires indexed completion mode"))
    return errors


def _validate_indexed(spec: Json) -> list[FieldError]:
    completions, parallelism, failed = spec.get("completions"), spec.get("parallelism"), spec.get("maxFailedIndexes")
    errors = []
    if completions is None:
        errors.append(required("spec.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > PARALLELISM_LIMIT:
        text = f"must be less than or equal to {PARALLELISM_LIMIT} when completion mode is Indexed"
        errors.append(invalid("spec.parallelism", parallelism, text))
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid("spec.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > FAILED_INDEXES_LIMIT:
        text = f"must be less than or equal to {FAILED_INDEXES_LIMIT}"
        errors.append(invalid("spec.maxFailedIndexes", failed, text))
    if completions is not None and completions > MANY_COMPLETIONS and spec.get("backoffLimitPerIndex") is not None:
        errors += _validate_many_completions(parallelism, failed)
    return errors


def _validate_many_completions(parallelism: int | None, failed: int | None) -> list[FieldError]:
    used = f"when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
    errors = []
    if failed is None:
        errors.append(
            required("spec.maxFailedIndexes", f"must be specified when completions is above {MANY_COMPLETIONS}")
        )
    if parallelism is not None and parallelism > PARALLELISM_LIMIT_MANY:
        text = f"must be less than or equal to {PARALLELISM_LIMIT_MANY} {used}"
        errors.append(invalid("spec.parallelism", parallelism, text))
    if failed is not None and failed > FAILED_INDEXES_LIMIT_MANY:
        text = f"must be less than or equal to {FAILED_INDEXES_LIMIT_MANY} {used}"
        errors.append(invalid("spec.maxFailedIndexes", failed, text))
    return errors


def _validate_success(spec: Json) -> list[FieldError]:
    policy = spec.get("successPolicy")
    if policy is None:
        return []
    if spec.get("completionMode") != "Indexed":
        return [invalid("spec.successPolicy", printed_success_policy(policy), "requires indexed completion mode")]
    return validate_success_policy(spec, "spec.successPolicy")


def _validate_replacement(spec: Json) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    allowed = _REPLACEMENT_POLICIES if spec.get("podFailurePolicy") is None else _REPLACEMENT_POLICIES[:1]
    if policy is None or policy in allowed:
        return []
    return [not_supported("spec.podReplacementPolicy", policy, allowed)]


def _validate_restart(spec: Json) -> list[FieldError]:
    policy, at = spec["template"]["spec"].get("restartPolicy", ""), "spec.template.spec.restartPolicy"
    if policy in ("", "Always"):
        return [required(at, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(at, policy, ("OnFailure", "Never"))]
    if policy != "Never" and spec.get("podFailurePolicy") is not None:
        return [invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _validate_selector(spec: Json) -> list[FieldError]:
    selector = spec.get("selector")
    errors = [required("spec.selector")] if selector is None else validate_selector(selector, "spec.selector")
    own = (spec["template"].get("metadata") or {}).get("labels")
    if is_usable(selector) and not matches(selector, own or {}):
        text = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", in_order(own), text))
    return errors


# --- warnings ----------------------------------------------------------------------------------------------


def warnings(new: Json, old: Json | None) -> list[str]:
    """The warnings about an accepted Job; `old` is None on create."""
    found = []
    if old is None:
        texts = _label_advice((new.get("metadata") or {}).get("name") or "")
        if texts:
            found.append(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
                f"a DNS label is recommended: [{' '.join(texts)}]"
            )
    spec = new["spec"]
    if old is None or spec != old["spec"]:
        many = (spec.get("completions") or 0) > MANY_COMPLETIONS
        if spec.get("completionMode") == "Indexed" and many and (spec.get("parallelism") or 0) > PARALLELISM_LIMIT_MANY:
            found.append(_TOO_MANY_INDEXES)
    return found


def _label_advice(name: str) -> list[str]:
    """Why a valid name is no DNS label; dots get a message of their own."""
    if "." in name:
        return ["must not contain dots"]
    return names.dns_label(name)
