"""What a running process can take over of a new configuration, and what waits for its next start. Pure.

A field is marked `at_start` where its meaning is spent once the process runs: an address it listens on, a limit of
the start itself, the options the Job controller was built with. All other fields are read anew with each decision.
A new configuration is taken over whole or not at all, so that what runs is always what one file says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from queue_manager.configuration.decode import wire_name
from queue_manager.configuration.kueue_config import KueueConfig


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A field that says something else now. `at_start`: why that needs a restart; `ignored`: why it has no effect."""

    path: str
    at_start: str = ""
    ignored: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """All fields in which two configurations differ, in the order of the model."""

    fields: tuple[SettingChange, ...]

    @property
    def refused(self) -> tuple[SettingChange, ...]:
        """Those that need a restart; as long as there is one, nothing is taken over."""
        return tuple(change for change in self.fields if change.at_start)


def changes(old: KueueConfig, new: KueueConfig) -> Changes:
    """What differs between two effective configurations."""
    return Changes(tuple(_differences(old, new, SettingChange(""))))


def _differences(old: Any, new: Any, around: SettingChange) -> Iterator[SettingChange]:
    """`around` is the section; what it is marked with holds for its fields."""
    for field in dataclasses.fields(old):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before == after or not field.metadata.get("doc"):
            continue
        name = wire_name(field.name)
        change = SettingChange(
            f"{around.path}.{name}" if around.path else name,
            field.metadata.get("at_start", around.at_start),
            field.metadata.get("ignored", around.ignored),
        )
        if dataclasses.is_dataclass(before) and type(before) is type(after):
            yield from _differences(before, after, change)
        else:
            yield change


def verdict(found: Changes) -> str:
    """In one line, what becomes of the changes."""
    if found.refused:
        reasons = "; ".join(f"{change.path} needs a restart, {change.at_start}" for change in found.refused)
        return f"nothing taken over: {reasons}"
    if not found.fields:
        return "nothing has changed"
    shown = (change.path + (f" (no effect: {change.ignored})" if change.ignored else "") for change in found.fields)
    return f"taken over: {', '.join(shown)}"
