"""A history: one Job and the steps that happen to it, as data that can be printed, replayed and shrunk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = Any
Spec = dict[str, Json]

POLICY = "podFailurePolicy"


@dataclass(frozen=True)
class Step:
    """One action of a user, the kubelet or the scheduler. `options` are those of the verb (player.py)."""

    verb: str
    options: dict[str, Json] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join([f'do("{self.verb}"', *(f"{name}={value!r}" for name, value in self.options.items())]) + ")"


@dataclass(frozen=True)
class History:
    """`spec` is the Job's; `template` is merged into its pod template's spec. Each step happens when the cluster is at
    rest after the one before.
    """

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
    """A step. Its pods are chosen by `at` (positions among the pods of its kind) or by `index`; default are all."""
    return Step(verb, options)


def history(name: str, spec: Spec, *steps: Step, **more: Json) -> History:
    return History(name, spec, steps, **more)
