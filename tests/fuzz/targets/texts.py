"""Short texts with a grammar of their own: quantities, durations, times, indexes, selectors, patterns, CEL, schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from job_controller import index_intervals, quantities
from job_controller.annotations import integer
from queue_manager import durations
from queue_manager.configuration import addresses
from queue_manager.local.cel.compiled_rules import CompiledRules
from queue_manager.local.cel.parser import SyntaxProblem
from queue_manager.local.kinds.jsonpath import compile_path
from queue_manager.local.schema import patterns, times_and_quantities
from queue_manager.local.schema.cpu_time_limits import TimeLimitExceeded
from queue_manager.local.server.listing import ListPosition
from queue_manager.local.server.selector_parsing import parse_fields, parse_labels
from queue_manager.local.status_errors import StatusError
from tests.fuzz.target import Target, require_stable

COMPLETIONS = 1000
SAMPLE: Any = {
    **{"i": 3, "s": "text", "b": True, "q": "1Gi"},
    **{"list": [1, 2, 3], "m": {"a": 1}, "o": {"name": "x", "items": [{"n": "a"}]}},
}
TYPES = {"i": "integer", "s": "string", "b": "boolean", "q": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        **{name: {"type": type_} for name, type_ in TYPES.items()},
        "list": {"type": "array", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def _quantity(text: str) -> None:
    value = quantities.quantity(text)
    for resource in ("cpu", "memory", "pods"):
        amount = quantities.parse(text, resource)
        require_stable("the amount", amount, quantities.parse(quantities.to_text(amount, resource), resource))
    written = quantities.canonical_text(text)
    require_stable("the quantity", written, quantities.canonical_text(written))
    quantities.exact(text)
    quantities.canonical(value)


def _duration(text: str) -> None:
    value = durations.parse(text)
    require_stable("the duration", value, durations.parse(durations.render(value)))


def _indexes(text: str) -> None:
    found = index_intervals.parse_intervals(text, COMPLETIONS)
    require_stable(
        "the indexes", found, index_intervals.parse_intervals(index_intervals.intervals_to_text(found), COMPLETIONS)
    )
    index_intervals.check(text, COMPLETIONS)


def _pattern(text: str) -> None:
    compiled = patterns.compiled(text)
    for sample in ("", "a", "aaaa-0.b/c", "x" * 50):
        compiled.search(sample)


def _jsonpath(text: str) -> None:
    values: list[Any] = [SAMPLE]
    for step in compile_path(text):
        values = [found for value in values for found in step(value)]


SCALARS: dict[str, Callable[[str], object]] = {
    "quantity": _quantity,
    "server-quantity": times_and_quantities.quantity,
    "duration": _duration,
    "time": times_and_quantities.time,
    "micro-time": times_and_quantities.micro_time,
    "integer": integer,
    "indexes": _indexes,
    "address": addresses.parse,
    "pattern": _pattern,
    "jsonpath": _jsonpath,
    "continue": lambda text: require_stable(
        "the token", ListPosition.of(text), ListPosition.of(ListPosition.of(text).token())
    ),
}


def scalar_texts() -> Target:
    def decode(head: str, body: bytes) -> None:
        SCALARS.get(head, _quantity)(body.decode())

    tokens = (
        "e9",
        "Ki",
        "m",
        ".",
        "-",
        "1h",
        "999999999999999999999",
        "T00:00:00Z",
        "(?i)",
        "\\",
        "[*]",
        "[?(@.a==1)]",
        ",",
    )
    # MalformedQuantity, BadIndexes and PatternError are ValueErrors.
    return Target(decode, (ValueError, StatusError, TimeLimitExceeded), tuple(SCALARS), tokens)


def selectors() -> Target:
    def decode(head: str, body: bytes) -> None:
        text = body.decode()
        if head == "fields":
            parse_fields(text)({"metadata.name": "a", "metadata.namespace": "b"})
        else:
            parse_labels(text)({"a": "1", "b/c": "d"})

    tokens = (" in (", " notin (", ")", ",", "==", "!=", ">", "!", "a.b/c", "\\,")
    return Target(decode, (StatusError, UnicodeDecodeError), ("labels", "fields"), tokens)


def cel() -> Target:
    """A rule in the schema of a custom kind, and its evaluation on an object before and after a change."""

    def decode(head: str, body: bytes) -> None:
        rule = (
            {"rule": body.decode(), "messageExpression": body.decode()}
            if head == "message"
            else {"rule": body.decode()}
        )
        rules = CompiledRules({**SCHEMA, "x-kubernetes-validations": [rule]})
        rules.check(SAMPLE)
        rules.check(SAMPLE, {**SAMPLE, "i": 4})

    tokens = (
        *(
            "self.",
            "oldSelf.",
            ".all(x, ",
            ".exists_one(",
            ".map(",
            "has(",
            "quantity(",
            "duration(",
            "timestamp(",
            "ip(",
        ),
        *(
            " ? ",
            " : ",
            " in ",
            "&&",
            "||",
            "?.",
            "[?",
            "optional.of(",
            ".orValue(",
            "matches(",
            "b'",
            "r'",
            "u",
            "-1",
            "1e9",
        ),
        *(
            "self.list",
            "self.m",
            "self.s",
            ".size()",
            "string(",
            "int(",
            "dyn(",
            "type(",
            "[",
            "{",
            "format(",
            "lowerAscii()",
        ),
    )
    return Target(decode, (SyntaxProblem, UnicodeDecodeError), ("rule", "message"), tokens)


TARGETS = {"scalars": scalar_texts, "selectors": selectors, "cel": cel}
