"""Recorded answers of a real kube-apiserver 1.36.3 to requests about Jobs.

`cases()` yields every recorded request. The rules of Jobs are pure functions and answer most of them. An API server
answers some before or after these rules: wrong JSON types, unknown fields, names that do not fit the URL, stale
versions. `Case.answered_by_server` distinguishes the two by the kind of answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "golden"
UID = "00000000-0000-4000-8000-000000000001"
TIME = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Case:
    """One request and its answer. `body` is the object sent, or its text where it is not plain JSON."""

    name: str
    operation: str  # create, update, status
    body: Any
    before: Any  # the stored object, for update and status
    code: int
    reason: str | None
    message: str | None
    causes: list[dict[str, str]]
    result: Any  # the stored object, where the request was accepted
    warnings: list[str] = field(default_factory=list)
    query: str = ""

    @property
    def accepted(self) -> bool:
        return self.code < 300

    @property
    def answered_by_server(self) -> str:
        """The part of an API server that answers; "" if the rules of Jobs answer."""
        if isinstance(self.body, str):
            return "decoder"
        if any(text.startswith(("unknown field", "duplicate field")) for text in self.warnings) or self.query:
            return "decoder"
        if self.code == 400:
            return "router" if "namespace of the provided object" in (self.message or "") else "decoder"
        return "storage" if self.code == 409 else ""


def cases() -> Iterator[Case]:
    """All recorded requests, in order."""
    for line in (HERE / "job-validation.jsonl").read_text().splitlines():
        record = json.loads(line)
        operation = record["operation"]
        body = record.get("after") if operation != "create" else record.get("object", record.get("objectText"))
        yield Case(
            name=record["name"],
            operation=operation,
            body=body,
            before=record.get("before"),
            code=record["code"],
            reason=record["reason"],
            message=record["message"],
            causes=record["causes"],
            result=record.get("result"),
            warnings=record.get("warnings", []),
            query=record.get("query", ""),
        )


def defaults() -> Iterator[tuple[str, Any, Any]]:
    """Yields name, manifest sent, object stored."""
    for line in (HERE / "job-defaults.jsonl").read_text().splitlines():
        record = json.loads(line)
        yield record["name"], record["in"], record["out"]


def same_text(actual: str, recorded: str) -> bool:
    """Whether two messages are equal, except for a printed pod template, whose Go form is not compared.

    A message with a template is compared up to "Invalid value: " and from the last brace on.
    """
    if '"InitContainers":' not in recorded:
        return actual == recorded
    mark = "Invalid value: {"
    return (
        actual.partition(mark)[0] == recorded.partition(mark)[0]
        and actual.rpartition("}")[2] == recorded.rpartition("}")[2]
    )
