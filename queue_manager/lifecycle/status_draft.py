"""A Workload's status being edited: transitions change a Draft, and one merge patch and its Events come out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from job_controller.json_tree import Json
from queue_manager.api.types import Condition, Workload, WorkloadStatus

Status = Literal["True", "False"]
MAX_MESSAGE = 32 * 1024  # characters; the API server refuses longer messages
_FIELDS = tuple(zip(WorkloadStatus.__struct_fields__, WorkloadStatus.__struct_encode_fields__, strict=True))


class WorkloadEvent(NamedTuple):
    """An Event to record after the write has succeeded."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Draft:
    """Edits of one status. Reads return the edited state, so that transitions can follow one another."""

    def __init__(self, workload: Workload, now: datetime) -> None:
        self.original = workload
        self.now = now.astimezone(UTC).replace(microsecond=0)
        self.status = workload.status
        self.events: list[WorkloadEvent] = []

    @property
    def workload(self) -> Workload:
        """The Workload with the edited status."""
        return msgspec.structs.replace(self.original, status=self.status)

    # --- conditions ---

    def condition(self, type: str) -> Condition | None:
        """The condition of this type, or None."""
        return next((c for c in self.status.conditions if c.type == type), None)

    def is_true(self, type: str) -> bool:
        """Whether the condition of this type is True."""
        condition = self.condition(type)
        return condition is not None and condition.is_true

    def set(self, type: str, status: Status, reason: str, message: str) -> bool:
        """Set a condition; its transition time moves only with its status. False if it was already set so."""
        message = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 4] + " ..."
        old = self.condition(type)
        new = make_condition(old, type, status, reason, message, self.original.metadata.generation, self.now)
        if new is old:
            return False
        conditions = self.status.conditions
        self.put(conditions=tuple(new if c is old else c for c in conditions) if old else (*conditions, new))
        return True

    def drop(self, type: str) -> None:
        """Remove a condition."""
        self.put(conditions=tuple(c for c in self.status.conditions if c.type != type))

    # --- other fields ---

    def put(self, **fields: Any) -> None:
        """Replace fields of the status, by their names in `WorkloadStatus`."""
        self.status = msgspec.structs.replace(self.status, **fields)

    def event(self, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Add an Event, which is recorded once the status is written."""
        self.events.append(WorkloadEvent(type, reason, message))

    # --- the result ---

    @property
    def changed(self) -> bool:
        """Whether the edited status differs from the original."""
        return self.status != self.original.status

    def patch(self) -> Json:
        """A JSON merge patch of /status, with the resourceVersion as precondition (409 after any other write)."""
        meta = self.original.metadata
        status = {}
        for name, wire_name in _FIELDS:
            before, after = getattr(self.original.status, name), getattr(self.status, name)
            if before != after:
                status[wire_name] = _merging(_wire(before), _wire(after))
        return {"metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid}, "status": status}


def make_condition(
    old: Condition | None, type: str, status: str, reason: str, message: str, generation: int, now: datetime
) -> Condition:
    """The condition with these values; `old` itself if it has them. The transition time moves only with the status."""
    if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
        return old
    return Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=old.last_transition_time if old is not None and old.status == status else now,
    )


def _merging(before: Json, after: Json) -> Json:
    """The part of a merge patch that makes `before` into `after`: the fields that are gone become null."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    return {**dict.fromkeys(before, None), **after}


def _wire(value: object) -> Json:
    """Convert a value to JSON for a merge patch. Empty lists and records become null, which removes them; 0 stays."""
    tree = msgspec.to_builtins(value)
    return tree if tree or isinstance(tree, int) else None
