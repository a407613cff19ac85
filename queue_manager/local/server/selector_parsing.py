"""Parse the text forms of label and field selectors, as lists and watches take them.

Errors are StatusError 400 with the server's texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from job_controller.annotations import integer
from queue_manager.api.api_resources import Resource
from queue_manager.local.status_errors import bad_request

LIMIT = 64 * 1024  # characters of a selector
_TOKEN = re.compile(r"\s+|(==|=|!=|!|<|>|,|\(|\)|[^\s=!<>,()]+)")
_SYMBOLS = frozenset({"==", "=", "!=", "!", "<", ">", ",", "(", ")"})
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)

VALUE_FORMAT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NAME_FORMAT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
KEY_FORMAT = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
    "'example.com/MyName')"
)
SUBDOMAIN_FORMAT = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One requirement of a label selector. `values`: an integer for `>` and `<`; empty for `exists` and `!`."""

    key: str
    operator: str  # in, notin, exists, !, >, <
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the requirement. An absent label meets `notin` and `!`."""
        present = self.key in labels
        match self.operator:
            case "in":
                return present and labels[self.key] in self.values
            case "notin":
                return not present or labels[self.key] not in self.values
            case "exists":
                return present
            case "!":
                return not present
        return present and self._compares(labels[self.key])

    def _compares(self, text: str) -> bool:
        have, bound = integer(text, bits=64), int(next(iter(self.values)))
        return have is not None and (have > bound if self.operator == ">" else have < bound)


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """A parsed label selector. Without requirements it is false, and matches everything."""

    requirements: tuple[LabelRequirement, ...] = ()

    def __call__(self, labels: Mapping[str, str] | None) -> bool:
        """Whether labels meet all requirements. None stands for no labels."""
        found = labels or {}
        return all(requirement.matches(found) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)


class _Wrong(Exception):
    """A malformed selector; the message is the parser's."""


class _WrongRequirement(_Wrong):
    """A malformed requirement of a selector."""


def parse_labels(text: str) -> LabelMatcher:
    """Parse a label selector such as `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`. Raises StatusError 400."""
    if not text.strip():
        return LabelMatcher()
    try:
        return LabelMatcher(tuple(_Parser(text).requirements()))
    except _WrongRequirement as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    except _Wrong as error:
        raise bad_request(str(error)) from None


class _Parser:
    """Recursive descent over the tokens, with the messages of the parser in k8s.io/apimachinery/pkg/labels."""

    def __init__(self, text: str) -> None:
        if len(text) > LIMIT:
            raise _Wrong(f"selector is longer than {LIMIT} characters")
        self._tokens = [match[1] for match in _TOKEN.finditer(text) if match[1]]
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def requirements(self) -> list[LabelRequirement]:
        found: list[LabelRequirement] = []
        while True:
            token = self._peek()
            if not token:
                return found
            if token in _SYMBOLS and token != "!":
                raise _Wrong(f"found '{token}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            token = self._next()
            if not token:
                return found
            if token != ",":
                raise _Wrong(f"found '{token}', expected: ',' or 'end of string'")
            if self._peek() in _SYMBOLS - {"!"} or not self._peek():
                raise _Wrong(f"found '{self._peek()}', expected: identifier after ','")

    def _requirement(self) -> LabelRequirement:
        negated = self._peek() == "!" and bool(self._next())
        key = self._next()
        if key in _SYMBOLS or not key:
            raise _WrongRequirement(f"found '{key}', expected: identifier")
        _check_key(key)
        if negated or self._peek() in ("", ","):
            return LabelRequirement(key, "!" if negated else "exists")
        operator = self._next()
        if operator in ("in", "notin"):
            return LabelRequirement(key, operator, frozenset(_check_values(key, self._values())))
        if operator in ("=", "==", "!="):
            value = self._value()
            return LabelRequirement(key, "notin" if operator == "!=" else "in", frozenset(_check_values(key, [value])))
        if operator in (">", "<"):
            value = self._value()
            if integer(value, bits=64) is None:
                raise _WrongRequirement(
                    f"values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
                )
            return LabelRequirement(key, operator, frozenset({value}))
        raise _WrongRequirement(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _value(self) -> str:
        token = self._peek()
        if token in ("", ","):
            return ""
        if token in _SYMBOLS:
            raise _WrongRequirement(f"found '{token}', expected: identifier")
        return self._next()

    def _values(self) -> list[str]:
        if self._next() != "(":
            raise _WrongRequirement(
                f"found '{self._tokens[self._at - 1] if self._at <= len(self._tokens) else ''}' expected: '('"
            )
        found = [""]
        while True:
            token = self._next()
            if token == ")":
                return found
            if token == ",":
                found.append("")
            elif token and token not in _SYMBOLS and not found[-1]:
                found[-1] = token
            elif found[-1]:
                raise _WrongRequirement(f"found '{token}', expected: ',' or ')'")
            else:
                raise _WrongRequirement(f"found '{token}', expected: ',', ')' or identifier")


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        raise _WrongRequirement(f'<nil>: Invalid value: "{key}": {KEY_FORMAT}')
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        problems.append(SUBDOMAIN_FORMAT)
    if not name:
        problems.append("name part must be non-empty")
    if len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        problems.append(NAME_FORMAT)
    if problems:
        raise _WrongRequirement(f'<nil>: Invalid value: "{key}": {"; ".join(problems)}')


def _check_values(key: str, found: Sequence[str]) -> Sequence[str]:
    for index, value in enumerate(found):
        problem = VALUE_FORMAT if not _VALUE.fullmatch(value) else ""
        if len(value) > 63:
            problem = "must be no more than 63 bytes"
        if problem:
            raise _WrongRequirement(f'values[{index}][{key}]: Invalid value: "{value}": {problem}')
    return found


# --- fields ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldMatcher:
    """A parsed field selector. Without terms it is false, and matches everything."""

    terms: tuple[tuple[str, str, bool], ...] = ()  # (field, value, equal)

    def __call__(self, fields: Mapping[str, str]) -> bool:
        """Whether fields meet all terms. An absent field equals ""."""
        return all((fields.get(field, "") == value) is equal for field, value, equal in self.terms)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def exactly(self, field: str) -> str | None:
        """Return the value that the selector requires `field` to equal, if any."""
        return next((value for name, value, equal in self.terms if name == field and equal), None)

    def require_supported(self, supported: Callable[[str], bool], resource: Resource) -> None:
        """Raise StatusError 400 for a field by which the kind cannot be selected."""
        for field, _, _ in self.terms:
            if not supported(field):
                raise bad_request(unsupported(field, resource))


def unsupported(field: str, resource: Resource) -> str:
    """Return the error for an unsupported field. Its text differs from kind to kind, as on an API server."""
    match resource.kind:
        case "Pod" | "Node" | "Event" | "Namespace" | "Secret":
            return f"field label not supported: {field}"
        case "Job":
            return f'field label "{field}" not supported for Job'
    if "." in resource.group and not resource.group.endswith(".k8s.io"):  # custom kinds
        return f"field label not supported: {field}"
    scope = ', "metadata.namespace"' if resource.namespaced else ""
    return f'"{field}" is not a known field selector: only "metadata.name"{scope}'


def parse_fields(text: str) -> FieldMatcher:
    """`a.b=c,d!=e` with \\\\ \\, \\= escapes in values. Raises StatusError 400."""
    if len(text) > LIMIT:
        raise bad_request(f"selector is longer than {LIMIT} characters")
    terms = [_field_term(term, text) for term in _split(text) if term]
    return FieldMatcher(tuple(terms))


def _split(text: str) -> list[str]:
    """Split at unescaped commas."""
    return re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL)


def _field_term(term: str, text: str) -> tuple[str, str, bool]:
    match = re.match(r"((?:\\.|[^\\=!]|!(?!=))*)(!=|==|=)(.*)", term, re.DOTALL)
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    return match[1], _unescape(match[3]), match[2] != "!="


def _unescape(value: str) -> str:
    out, escaped = [], False
    for char in value:
        if escaped:
            if char not in "\\,=":
                raise bad_request(f"invalid field selector: invalid escape sequence: \\{char}")
            out.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            out.append(char)
    if escaped:
        raise bad_request("invalid field selector: invalid escape sequence: \\")
    return "".join(out)
