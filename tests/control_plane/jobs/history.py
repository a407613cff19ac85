"""A history: one Job and what happens to it, as data that can be printed, played twice and made smaller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = Any
Spec = dict[str, Json]

POLICY = "podFailurePolicy"


@dataclass(frozen=True)
class Step:
    """One thing that somebody does. `options` are those of the verb (player.py)."""

    verb: str
    options: dict[str, Json] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join([f'do("{self.verb}"', *(f"{name}={value!r}" for name, value in self.options.items())]) + ")"


@dataclass(frozen=True)
class History:
    """`spec` is the Job's; `template` is merged into its pod template's spec. Steps come one by one, each when
    the cluster has come to rest after the one before."""

    name: str
    spec: Spec
    steps: tuple[Step, ...] = ()
    template: Spec = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] | None = field(default_factory=lambda: {"app": "work"})

    def __str__(self) -> str:
        lines = [f"spec: {self.spec}", *(str(step) for step in self.steps)]
        return "\n    ".join([self.name, *lines])


def do(verb: str, **options: Json) -> Step:
    """A step. Which pods it is about: `at` (positions among those of its kind), `index`, or all."""
    return Step(verb, options)


def history(name: str, spec: Spec, *steps: Step, **more: Json) -> History:
    return History(name, spec, steps, **more)
