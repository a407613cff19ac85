"""Builds the Job of `sluice run` from a command and its options. Pure.

Retries are counted for each index (backoffLimitPerIndex), so that a failed index does not stop the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from queue_manager.api import keys
from queue_manager.visibility.resubmission import CREATED_BY_RUN

CONTAINER = "main"
MAX_STEM = 40  # characters of a generated name before its random end
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_EXPANDED = re.compile(r"\$(?=[$(])")  # what a kubelet would expand in an argument

# Fields of the Job, and the option that sets each; the first that matches a field of a mistake is named.
OPTIONS = (
    (re.compile(r"metadata\.(generateN|n)ame\b"), "--name"),
    (re.compile(r"metadata\.namespace"), "-n"),
    (re.compile(r"metadata\.labels.*priority-class"), "--priority"),
    (re.compile(r"metadata\.labels"), "-q"),
    (re.compile(r"spec\.parallelism"), "--parallelism"),
    (re.compile(r"spec\.(completions|completionMode)"), "--completions"),
    (re.compile(r"spec\.backoffLimit"), "--retries"),
    (re.compile(r".*\.resources\..*cpu"), "--cpu"),
    (re.compile(r".*\.resources\..*memory"), "--memory"),
    (re.compile(r".*\.env\b"), "--env"),
    (re.compile(r".*\.image\b"), "--image"),
)


@dataclass(frozen=True, slots=True)
class CommandJob:
    """What the Job is to run, and with what. `completions` None: a Job with one pod that is not indexed."""

    command: Sequence[str]
    queue: str
    image: str
    name: str = ""
    cpu: str = ""
    memory: str = ""
    env: Sequence[tuple[str, str]] = ()
    priority: str = ""
    completions: int | None = None
    parallelism: int | None = None
    retries: int = 0
    directory: str = ""

    def manifest(self, namespace: str) -> dict[str, Any]:
        """Return the suspended Job."""
        labels = {keys.QUEUE_NAME: self.queue, **({keys.PRIORITY_CLASS: self.priority} if self.priority else {})}
        named = {"name": self.name} if self.name else {"generateName": f"{name_stem(self.command[0])}-"}
        pod = {"restartPolicy": "Never", "containers": [self._container()]}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                **named,
                "namespace": namespace,
                "labels": labels,
                "annotations": {keys.CREATED_BY: CREATED_BY_RUN},
            },
            "spec": {"suspend": True, **self._pods(), "template": {"spec": pod}},
        }

    def _pods(self) -> dict[str, Any]:
        if self.completions is None:
            return {"backoffLimit": self.retries}
        return {
            "completionMode": "Indexed",
            "completions": self.completions,
            "parallelism": self.parallelism or self.completions,
            "backoffLimitPerIndex": self.retries,
        }

    def _container(self) -> dict[str, Any]:
        """Return the container. Memory is a limit too: a process that needs more must not take that of others."""
        amounts = {name: amount for name, amount in (("cpu", self.cpu), ("memory", self.memory)) if amount}
        limits = {"limits": {"memory": self.memory}} if self.memory else {}
        return {
            "name": CONTAINER,
            "image": self.image,
            "command": [literal(text) for text in self.command],
            "resources": {"requests": amounts, **limits},
            **({"env": [{"name": name, "value": literal(value)} for name, value in self.env]} if self.env else {}),
            **({"workingDir": self.directory} if self.directory else {}),
        }


def literal(text: str) -> str:
    """Escape a text so that no `$(NAME)` or `$$` in it is expanded by the kubelet."""
    return _EXPANDED.sub("$$", text)


def name_stem(program: str) -> str:
    """Return the start of a generated name: the program without its folder, as a DNS label."""
    stem = _NOT_IN_NAMES.sub("-", PurePath(program).name.lower()).strip("-")[:MAX_STEM].rstrip("-")
    return stem or "job"


def option_of(field_path: str) -> str:
    """Return the option of `sluice run` that sets a field of the Job; "" if none does."""
    return next((option for pattern, option in OPTIONS if pattern.match(field_path)), "")
