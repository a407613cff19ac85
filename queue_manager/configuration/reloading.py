"""Which fields of a new configuration a running process can apply, and which need a restart. Pure.

A field is marked `AtStart` if its value is used only while the process starts: an address of a server, a limit of the
start itself, the options that the Job controller was built with. All other fields are read at each decision. A new
configuration is applied whole or not at all, so that the process always works by exactly one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from queue_manager.configuration.config_field_types import ConfigModel, no_effect_reason, restart_reason
from queue_manager.configuration.kueue_config import KueueConfig


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A field with a new value. `at_start`: why it needs a restart; `ignored`: why it has no effect; `line`: where the
    new file has it, 0 if it does not.
    """

    path: str
    at_start: str = ""
    ignored: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Changes:
    """All fields in which two configurations differ, in the order of the model."""

    fields: tuple[SettingChange, ...]

    @property
    def refused(self) -> tuple[SettingChange, ...]:
        """Changes that need a restart; if there is one, nothing is applied."""
        return tuple(change for change in self.fields if change.at_start)


def changes(old: KueueConfig, new: KueueConfig) -> Changes:
    """The differences between two effective configurations."""
    found = _differences(old, new, SettingChange(""))
    return Changes(tuple(replace(change, line=new.line(change.path)) for change in found))


def _differences(old: ConfigModel, new: ConfigModel, around: SettingChange) -> Iterator[SettingChange]:
    """Yield the differences of two sections.

    `around`: the field that holds them. If it needs a restart or has no effect, the same holds for its fields.
    """
    for name, field in type(old).model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        change = SettingChange(
            f"{around.path}.{field.alias}" if around.path else str(field.alias),
            restart_reason(field) or around.at_start,
            no_effect_reason(field) or around.ignored,
        )
        if isinstance(before, ConfigModel) and type(before) is type(after):
            yield from _differences(before, after, change)
        else:
            yield change


def verdict(found: Changes) -> str:
    """One line for the log: which changes are applied, or why none is."""
    if found.refused:
        reasons = "; ".join(f"{_place(change)} needs a restart, {change.at_start}" for change in found.refused)
        return f"nothing applied: {reasons}"
    if not found.fields:
        return "no changes"
    shown = (change.path + (f" (no effect: {change.ignored})" if change.ignored else "") for change in found.fields)
    return f"applied: {', '.join(shown)}"


def _place(change: SettingChange) -> str:
    return f"{change.path} (line {change.line})" if change.line else change.path
