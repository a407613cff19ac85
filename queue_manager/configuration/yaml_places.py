"""A YAML document, the place of every field in it, and the problems found in it."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml

from queue_manager.configuration.quoted_text import quoted
from queue_manager.kube_yaml import BOOL, FLOAT, INT, NULL, STR, Loader
from queue_manager.yaml_problems import explain_yaml_error


class ConfigurationProblem(NamedTuple):
    """What is wrong with one value, and what is allowed. `line` counts from 1; 0 without a line."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, self.field, self.message) if part)


class ConfigurationError(Exception):
    """The configuration cannot be used. `problems` are all problems of the file, in its order."""

    def __init__(self, problems: list[ConfigurationProblem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(map(str, self.problems)))


class DocumentPlace(NamedTuple):
    """Where a field is in the file: the line of its key, or of the element itself in a list, and its value."""

    line: int
    value: yaml.Node


@dataclass(slots=True)
class Findings:
    """What was found while a document was read: its problems, the places of its fields, and ignored fields.

    Paths of fields are like `a.b[0].c[key]`.
    """

    file: str
    version: str = ""
    problems: list[ConfigurationProblem] = field(default_factory=list)
    places: dict[str, DocumentPlace] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    _unread: list[str] = field(default_factory=list)

    def place(self, path: str, line: int, value: yaml.Node) -> None:
        """Record where a field is."""
        self.places[path] = DocumentPlace(line, value)

    def refuse(self, path: str, message: str, line: int = 0) -> None:
        """Report a problem, at the line of the field unless another is given."""
        self.problems.append(ConfigurationProblem(self.file, line or self.line(path), path, message))

    def unreadable(self, path: str, message: str, line: int = 0) -> None:
        """Report a value of the wrong type or out of bounds; the field gets its default for further checks."""
        self._unread.append(path)
        self.refuse(path, message, line)

    def reject(self, path: str, message: str, *, by: str = "") -> None:
        """Report a value that has the right type but cannot be used.

        Nothing is reported if the value, or the value of the field `by` that it is compared with, was unreadable.
        """
        if not self.unread(path) and not (by and self.unread(by)):
            self.refuse(path, message)

    def unread(self, path: str) -> bool:
        """Whether a field, a part of it or a section around it was unreadable."""
        return any(_within(path, other) or _within(other, path) for other in self._unread)

    def line(self, path: str) -> int:
        """The line of a field, or of the nearest section around it that is in the file; 0 if it does not exist."""
        found = nearest(path, self.places)
        return self.places[found].line if found else 0

    def sort(self) -> None:
        """Sort the problems by the position of their fields in the file."""
        order = {path: index for index, path in enumerate(self.places)}
        self.problems.sort(key=lambda problem: order.get(problem.field, -1))

    def raise_if_any(self) -> None:
        """Raise ConfigurationError if there are problems."""
        if self.problems:
            raise ConfigurationError(self.problems)


def nearest(path: str, known: Container[str]) -> str:
    """The path if it is known, else the path of the nearest known section around it; "" without one."""
    while path and path not in known:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return path


def _within(path: str, other: str) -> bool:
    return path == other or path.startswith((f"{other}.", f"{other}["))


def line_of(node: yaml.Node) -> int:
    """The line that a node begins in, from 1."""
    return int(node.start_mark.line) + 1


def compose(text: str, findings: Findings) -> yaml.MappingNode | None:
    """Parse the text to the mapping of its document; None if it is empty, or a problem was added to `findings`."""
    try:
        documents = list(yaml.compose_all(text, Loader=Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = (
            explain_yaml_error(text, error) if isinstance(error, yaml.MarkedYAMLError) else str(error).splitlines()[0]
        )
        # An open bracket or quote is noticed after the last line.
        line = min(mark.line + 1, len(text.splitlines())) if mark else 0
        findings.refuse("", f"not YAML: {what}; a Configuration is a YAML mapping", line)
        return None
    nodes = [node for node in documents if node is not None and node.tag != NULL]
    if len(nodes) > 1:
        findings.refuse("", "a second document; there may be only one", line_of(nodes[1]))
        return None
    if not nodes:
        return None
    if not isinstance(nodes[0], yaml.MappingNode):
        findings.refuse("", f"{shown(nodes[0])}; a Configuration is a YAML mapping", line_of(nodes[0]))
        return None
    return nodes[0]


def shown(node: yaml.Node) -> str:
    """Describe a value with its type for a message: `"soon" is a string`, `a list`."""
    if isinstance(node, yaml.MappingNode):
        return "is a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "is a list"
    kinds = {BOOL: "a boolean", INT: "an integer", FLOAT: "a number", STR: "a string"}
    text = quoted(node.value) if node.tag == STR else node.value
    return f"{text} is {kinds.get(node.tag, 'not a plain value')}"


def lines_of_path(text: str, path: str) -> list[int]:
    """Return the lines of the fields on a path that are there: none in a ConfigMap, or in what is not YAML."""
    return [line_of(key) for key in _keys(compose(text, Findings("")), path.split("."))]


def _keys(node: yaml.Node | None, names: list[str]) -> Iterator[yaml.Node]:
    for name in names:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next(((key, value) for key, value in pairs if key.value == name), None)
        if found is None:
            return
        yield found[0]
        node = found[1]
