"""Validation of writes to the status of a Job (upstream ValidateJobUpdateStatus, BEHAVIOUR.md#b7-status-validation).

Some rules always apply. Others apply only when an update changes the fields they concern, so that a status that
violates them already can still be updated. The order of the rules is the order of the errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from job_controller import index_intervals
from job_controller.api_rules import names
from job_controller.api_rules.field_errors import IMMUTABLE, FieldError, duplicate, invalid, invalid_here, required
from job_controller.api_rules.metadata_validation import validate_metadata, validate_metadata_update
from job_controller.api_rules.stored_form import parse_time
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json

_CONDITIONS = "status.conditions"
_COUNTERS = ("active", "succeeded", "failed", "ready", "terminating")
_TERMINAL = ("Failed", "Complete", "FailureTarget")


def validate_status_update(new: Json, old: Json) -> list[FieldError]:
    """The errors of a status prepared by `prepare_status`, and of the metadata that is written with it."""
    metadata, before = new.get("metadata") or {}, old.get("metadata") or {}
    errors = validate_metadata(metadata, name_check=names.path_segment)
    errors += validate_metadata_update(metadata, before) * 2
    return errors + list(_Update(new, old).errors())


def true_conditions(status: Json) -> set[str]:
    """The types of which any condition is True; a type may be listed more than once."""
    return {c.get("type", "") for c in status.get("conditions") or () if c.get("status") == "True"}


class _Update:
    """One status update, with predicates for the rules."""

    def __init__(self, new: Json, old: Json) -> None:
        self.spec = new.get("spec") or {}
        self.new = new.get("status") or {}
        self.old = old.get("status") or {}
        self.true = true_conditions(self.new)
        self.was_true = true_conditions(self.old)
        self.complete, self.failed = "Complete" in self.true, "Failed" in self.true
        self.finished = self.complete or self.failed
        self.finish_changed = self.finished != ("Complete" in self.was_true or "Failed" in self.was_true)

    def errors(self) -> Iterator[FieldError]:
        """All errors in order."""
        yield from self._values()
        yield from self._finished()
        yield from self._indexes()
        yield from self._counts()
        yield from self._success_criteria()
        yield from self._transitions()

    def changed(self, *fields: str) -> bool:
        """Whether any of these status fields changed; absent, null and zero are the same."""
        return any((self.new.get(field) or None) != (self.old.get(field) or None) for field in fields)

    def turned(self, *types: str) -> bool:
        """Whether any of these conditions changed to or from True."""
        return any((name in self.true) != (name in self.was_true) for name in types)

    # --- values that are wrong by themselves, and contradicting conditions

    def _values(self) -> Iterator[FieldError]:
        for field in _COUNTERS:
            value = self.new.get(field) or 0
            if value < 0:
                yield invalid(f"status.{field}", value, NOT_NEGATIVE)
        uncounted = self.new.get("uncountedTerminatedPods") or {}
        seen: set[str] = set()
        for field in ("succeeded", "failed"):
            for i, uid in enumerate(uncounted.get(field) or ()):
                at = f"status.uncountedTerminatedPods.{field}[{i}]"
                if not uid:
                    yield invalid(at, uid, "must not be empty")
                elif uid in seen:
                    yield duplicate(at, uid)
                seen.add(uid)
        if self.turned("Complete", "Failed") and self.complete and self.failed:
            yield invalid_here(_CONDITIONS, "cannot set Complete=True and Failed=true conditions")
        if self.turned("Complete", "FailureTarget") and self.complete and "FailureTarget" in self.true:
            yield invalid_here(_CONDITIONS, "cannot set Complete=True and FailureTarget=true conditions")

    # --- times and conditions of a finished Job

    def _finished(self) -> Iterator[FieldError]:
        yield from self._completion_time()
        failed_changed = self.turned("Failed") or self._index_text_changed("failedIndexes")
        if failed_changed and self.failed and "FailureTarget" not in self.true:
            text = "cannot set Failed=True condition without the FailureTarget=true condition"
            yield invalid_here(_CONDITIONS, text)
        met = "SuccessCriteriaMet" in self.true
        if self.turned("Complete", "SuccessCriteriaMet") and self.complete and not met:
            text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
            yield invalid_here(_CONDITIONS, text)
        if not self.finished:
            return
        active = self.new.get("active") or 0
        if (self.finish_changed or self.changed("active")) and active > 0:
            yield invalid("status.active", active, "active>0 is invalid for finished job")
        never_started = self.spec.get("suspend") is True and self.spec.get("completions") == 0
        start_judged = (self.finish_changed or self._time_changed("startTime")) and not never_started
        if start_judged and not self.new.get("startTime"):
            yield required("status.startTime", "startTime is required for finished job")
        uncounted = self.new.get("uncountedTerminatedPods") or {}
        if (self.finish_changed or self.changed("uncountedTerminatedPods")) and any(uncounted.values()):
            shown = {"Succeeded": uncounted.get("succeeded") or None, "Failed": uncounted.get("failed") or None}
            yield invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job")

    def _completion_time(self) -> Iterator[FieldError]:
        at, time = "status.completionTime", self.new.get("completionTime")
        if self.turned("Complete") or self._time_changed("completionTime"):
            if time and not self.complete:
                yield invalid(at, time, "cannot set completionTime when there is no Complete=True condition")
            if self.complete and not time:
                yield required(at, "completionTime is required for Complete jobs")
        if self._time_changed("startTime") or self._time_changed("completionTime"):
            start, end = _time(self.new.get("startTime")), _time(time)
            if isinstance(start, datetime) and isinstance(end, datetime) and end < start:
                yield invalid(at, time, "must be equal to or after `startTime`")

    def _time_changed(self, field: str) -> bool:
        return self.new.get(field) != self.old.get(field) and _time(self.new.get(field)) != _time(self.old.get(field))

    # --- completed and failed indexes

    def _index_text_changed(self, field: str) -> bool:
        """Whether an index text changed; for failedIndexes, a pointer, "" and null differ."""
        default = "" if field == "completedIndexes" else None
        return self.new.get(field, default) != self.old.get(field, default)

    def _indexes(self) -> Iterator[FieldError]:
        completed, failed = self.new.get("completedIndexes") or "", self.new.get("failedIndexes")
        completed_changed = self._index_text_changed("completedIndexes")
        failed_changed = self._index_text_changed("failedIndexes")
        indexed = self.spec.get("completionMode") == "Indexed"
        per_index = self.spec.get("backoffLimitPerIndex") is not None
        completions = self.spec.get("completions")
        if completed_changed and completions is not None:
            yield from _malformed("completedIndexes", completed, completions)
        if failed_changed and failed is not None and per_index and completions is not None:
            yield from _malformed("failedIndexes", failed, completions)
        if completed_changed and completed and not indexed:
            text = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield invalid("status.completedIndexes", completed, text)
        if failed_changed and failed is not None and not per_index:
            text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            yield invalid("status.failedIndexes", failed, text)
        if (completed_changed or failed_changed) and failed is not None and completions is not None:
            index = index_intervals.first_overlap(completed, failed, completions)
            if index is not None:
                text = f"failedIndexes and completedIndexes overlap at index: {index}"
                yield invalid("status.failedIndexes", failed, text)

    # --- counts

    def _counts(self) -> Iterator[FieldError]:
        terminating = self.new.get("terminating") or 0
        if self.finished and (self.finish_changed or self.changed("terminating")) and terminating > 0:
            yield invalid("status.terminating", terminating, "terminating>0 is invalid for finished job")
        ready = self.new.get("ready")
        if self.changed("ready", "active") and ready is not None and ready > (self.new.get("active") or 0):
            yield invalid("status.ready", ready, "cannot set more ready pods than active")

    def _success_criteria(self) -> Iterator[FieldError]:
        if "SuccessCriteriaMet" in self.true:
            if self.failed:
                yield invalid_here(_CONDITIONS, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
            if "FailureTarget" in self.true:
                text = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"
                yield invalid_here(_CONDITIONS, text)
        elif self.complete and self.spec.get("successPolicy") is not None:
            text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
            yield invalid_here(_CONDITIONS, text)

    # --- what may not be taken back

    def _transitions(self) -> Iterator[FieldError]:
        for name in _TERMINAL:
            if name in self.was_true and name not in self.true:
                yield invalid_here(_CONDITIONS, f"cannot disable the terminal {name}=True condition")
        yield from self._decreases()
        new, old = self.new.get("completionTime"), self.old.get("completionTime")
        if new and old and _time(new) != _time(old):
            yield invalid("status.completionTime", new, IMMUTABLE)
        start = self.new.get("startTime")
        if self.old.get("startTime") and self._time_changed("startTime") and not self._may_restart():
            yield invalid("status.startTime", start, "field is immutable for unsuspended job once set")
        met, was_met = "SuccessCriteriaMet" in self.true, "SuccessCriteriaMet" in self.was_true
        if was_met and not met:
            yield invalid_here(_CONDITIONS, "cannot disable the SuccessCriteriaMet=True condition")
        if met and not was_met and "Complete" in self.was_true:
            text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
            yield invalid_here(_CONDITIONS, text)

    def _may_restart(self) -> bool:
        """Whether startTime may change: while suspended, or when Suspended changes from True to False."""
        if self.spec.get("suspend"):
            return True
        resumed = any(
            c.get("type") == "Suspended" and c.get("status") == "False" for c in self.new.get("conditions") or ()
        )
        return resumed and "Suspended" in self.was_true and "Suspended" not in self.true

    def _decreases(self) -> Iterator[FieldError]:
        elastic = self.spec.get("completionMode") == "Indexed" and self.spec.get("completions") == self.spec.get(
            "parallelism"
        )
        for field in ("failed",) if elastic else ("failed", "succeeded"):
            value = self.new.get(field) or 0
            if value < (self.old.get(field) or 0):
                yield invalid(f"status.{field}", value, f"cannot decrease the {field} counter")


def _malformed(field: str, text: str, completions: int) -> Iterator[FieldError]:
    try:
        index_intervals.check(text, completions)
    except index_intervals.BadIndexes as error:
        yield invalid(f"status.{field}", text, f"error parsing {field}: {error}")


def _time(text: str | None) -> datetime | str | None:
    """The parsed time, for comparison; malformed text is returned unchanged."""
    return None if text is None else parse_time(text) or text
