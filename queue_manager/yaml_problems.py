"""Explains YAML syntax errors to the author of the text. The parser's messages refer to grammar rules instead."""

from __future__ import annotations

import contextlib

import yaml

MAX_SCANNED_CHARACTERS = 100_000  # characters; longer texts are not scanned again, because the scan runs in Python
_NAMES = {"[": "list", "{": "mapping"}


def located_yaml_error(name: str, text: str, error: yaml.YAMLError) -> str:
    """Return `file:line: what is wrong` in one line. `name`: of the file."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return f"{name}:{line}: character {error.character:#x} is not allowed in YAML"
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        kind = "not YAML: " if isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError) else ""
        line = min(mark.line, max(0, len(text.splitlines()) - 1)) + 1 if mark else 1
        return f"{name}:{line}: {kind}{explain_yaml_error(text, error)}"
    return f"{name}:1: {error}"


def explain_yaml_error(text: str, error: yaml.MarkedYAMLError) -> str:
    """Return one clause that explains the error; the parser's own message if no better one is known."""
    problem = str(error.problem or error.context)
    if problem.startswith(("expected", "did not find expected")):
        bracket = unclosed(text)
        return f'the {_NAMES[bracket]} opened with "{bracket}" is not closed' if bracket else problem
    if problem == "found unexpected end of stream":
        return "a quoted text is not closed"
    if "cannot start any token" in problem and _character(text, error.problem_mark) == "\t":
        return "a tab cannot indent; use spaces"
    if problem == "found undefined alias" and error.problem_mark is not None:
        return f"{problem} {_alias(text, error.problem_mark)}"
    return problem


def _alias(text: str, mark: yaml.Mark) -> str:
    """Return the alias at this position, `*name`."""
    rest = text.splitlines()[mark.line][mark.column :].split()
    return rest[0].rstrip(",]}") if rest else ""


def unclosed(text: str) -> str:
    """Return the innermost bracket, "[" or "{", that is open where the text or its readable part ends, or ""."""
    opened: list[str] = []
    with contextlib.suppress(yaml.YAMLError):
        for token in yaml.scan(text if len(text) <= MAX_SCANNED_CHARACTERS else ""):
            match token:
                case yaml.FlowSequenceStartToken():
                    opened.append("[")
                case yaml.FlowMappingStartToken():
                    opened.append("{")
                case yaml.FlowSequenceEndToken() | yaml.FlowMappingEndToken() if opened:
                    opened.pop()
    return opened[-1] if opened else ""


def _character(text: str, mark: yaml.Mark | None) -> str:
    lines = text.splitlines()
    if mark is None or mark.line >= len(lines):
        return ""
    return lines[mark.line][mark.column : mark.column + 1]
