"""YAML as a Kubernetes API server and kubectl read it: what sigs.k8s.io/yaml converts to JSON, in bounded time.

Plain scalars get the types of that library, which differ from both YAML 1.1 and YAML 1.2:

| text | value |
|---|---|
| `y`, `yes`, `on`, `true`, `n`, `no`, `off`, `false`, each also as `Yes` and `YES` | boolean |
| empty, `~`, `null`, `Null`, `NULL` | null |
| `12`, `-1`, `1_000`, `0x1F`, `0b11`, `017` and `0o17` (15), `08` (8), `1e3` | number |
| `.inf`, `-.inf`, `.nan` | an error: JSON has no such numbers |
| `1:30`, `2001-12-14`, `0x1p-2`, `1e400`, a number in hex beyond 64 bits | string |

A merge key (`<<`) takes effect at its position: merged keys override the keys before it, and keys after it override
merged keys. Aliases and merges are expanded, and each expansion counts toward `max_values`, so that a document that
expands too far fails before it uses memory. The C parser recurses once per level, so depth is limited while parsing.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import yaml

MAX_DEPTH = 100  # levels
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"

TAG = "tag:yaml.org,2002:"
NULL, BOOL, INT, FLOAT, STR, TIMESTAMP, BINARY, MERGE = (
    TAG + name for name in ("null", "bool", "int", "float", "str", "timestamp", "binary", "merge")
)


def _forms(*words: str) -> list[str]:
    return [form for word in words for form in (word, word.capitalize(), word.upper())]


_WORDS: dict[str, Any] = {
    **dict.fromkeys(_forms("y", "yes", "true", "on"), True),
    **dict.fromkeys(_forms("n", "no", "false", "off"), False),
    **dict.fromkeys(["", "~", *_forms("null")]),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}
_TAGS = {bool: BOOL, int: INT, float: FLOAT, str: STR, type(None): NULL}
_NUMERIC = frozenset("+-0123456789.")
_INTEGER = re.compile(r"([-+]?)(?:0([bB])([01]+)|0([xX])([0-9a-fA-F]+)|0([oO]?)([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_MAX_INTEGER_DIGITS = 22  # digits of a 64-bit integer in base 8
_MIN_PLAIN_EXPONENT, _MAX_PLAIN_EXPONENT = -4, 6  # Go prints a float map key without exponent in this range


Repeated = tuple[yaml.ScalarNode, yaml.ScalarNode]  # two equal keys of a mapping


def scalar(text: str) -> Any:
    """Return the value of a plain scalar: None, a bool, a 64-bit int (signed or unsigned), a float, or the text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC:
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    number: float | None = _integer(plain)
    if number is None and _FLOAT.fullmatch(plain):
        number = float(plain)
    return text if number is None or number in (math.inf, -math.inf) else number


def _integer(text: str) -> int | None:
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    sign, _, binary, _, hexadecimal, _, octal, decimal = found.groups()
    digits, base = next((d, b) for d, b in ((binary, 2), (hexadecimal, 16), (octal, 8), (decimal, 10)) if d)
    digits = digits.lstrip("0") or "0"
    if len(digits) > (64 if base == 2 else _MAX_INTEGER_DIGITS):
        return None
    value = int(f"{sign}{digits}", base)
    return value if -(2**63) <= value < (2**64 if sign != "+" else 2**63) else None


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes with the tags of `scalar`. Raises yaml.MarkedYAMLError for too much depth or too many nodes."""

    def __init__(self, text: str | bytes, max_nodes: int = 0) -> None:
        """`max_nodes`: limit of nodes per document, including keys, before alias expansion; 0: no limit."""
        super().__init__(text)
        self._depth = self._nodes = 0
        self._max_nodes = max_nodes

    def descend_resolver(self, parent: yaml.Node | None, index: Any) -> None:
        """Count a node and its depth before the node is composed."""
        self._depth += 1
        self._nodes += 1
        if self._depth > MAX_DEPTH:
            raise _problem(TOO_DEEP, parent)
        if 0 < self._max_nodes < self._nodes:
            raise TooManyValues

    def ascend_resolver(self) -> None:
        """Decrease the depth after a node is composed."""
        self._depth -= 1

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """Return the tag of a node without an explicit tag."""
        if kind is yaml.ScalarNode and implicit[0]:
            return MERGE if value == "<<" else _TAGS[type(scalar(value))]
        return str({yaml.ScalarNode: STR, yaml.SequenceNode: f"{TAG}seq", yaml.MappingNode: f"{TAG}map"}[kind])


class NotJson(yaml.MarkedYAMLError):
    """YAML that cannot be converted to JSON. `problem` has the message of the Go library where one is known."""


class TooManyValues(yaml.YAMLError):
    """The document has more values than `max_values`."""


def load(text: str | bytes, max_values: int = 0, repeated: list[Repeated] | None = None) -> Any:
    """Return the first document as a JSON value, or None if the text has no document.

    `max_values`: limit of values in the tree after alias expansion; 0: no limit. `repeated`: see `to_json`.
    Raises yaml.YAMLError, UnicodeDecodeError.
    """
    return next(load_all(text, max_values, repeated), None)


def load_all(text: str | bytes, max_values: int = 0, repeated: list[Repeated] | None = None) -> Iterator[Any]:
    """Yield all documents as JSON values; arguments and errors as in `load`."""
    loader = Loader(text, 2 * max_values and 2 * max_values + 1)
    try:
        while loader.check_node():
            yield to_json(loader.get_node(), max_values, repeated)
    finally:
        loader.dispose()


def to_json(root: yaml.Node, max_values: int = 0, repeated: list[Repeated] | None = None) -> Any:
    """Convert a composed node to a JSON value.

    The last of several equal keys of a mapping wins; each pair is appended to `repeated`.
    Raises yaml.MarkedYAMLError, TooManyValues.
    """
    return _Conversion(max_values, [] if repeated is None else repeated).value(root)


class _Conversion:
    """Converts the nodes of one document in one pass."""

    def __init__(self, max_values: int, repeated: list[Repeated]) -> None:
        self._left = max_values or math.inf
        self._repeated = repeated
        self._open: set[int] = (
            set()
        )  # ids of the collections that enclose the current node, to detect recursive aliases

    def value(self, node: yaml.Node) -> Any:
        self._left -= 1
        if self._left < -1:  # the root does not count as a value
            raise TooManyValues
        if isinstance(node, yaml.ScalarNode):
            return _checked(node)
        if id(node) in self._open:
            raise _not_json("yaml: the value of an anchor contains itself", node)
        if len(self._open) >= MAX_DEPTH:
            raise _problem(TOO_DEEP, node)
        self._open.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            tree: Any = [self.value(item) for item in node.value]
        else:
            tree = self._mapping(node)
        self._open.discard(id(node))
        return tree

    def _mapping(self, node: yaml.Node) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        seen: dict[str, yaml.ScalarNode] = {}
        for key, child in node.value:
            if key.tag == MERGE:
                tree.update(self._merged(child))
                continue
            name = key_name(key)
            if name in seen:
                self._repeated.append((seen[name], key))
            seen[name] = key
            tree[name] = self.value(child)
        return tree

    def _merged(self, node: yaml.Node) -> dict[str, Any]:
        """Return the keys that a merge key adds. In a list of mappings, earlier mappings override later ones."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not all(isinstance(source, yaml.MappingNode) for source in sources):
            raise _not_json("yaml: map merge requires map or sequence of maps as the value", node)
        tree: dict[str, Any] = {}
        for source in reversed(sources):
            tree.update(self.value(source))
        return tree


def _checked(node: yaml.ScalarNode) -> Any:
    """Return the JSON value of a scalar. An explicit YAML tag requires its type; application tags are ignored."""
    tag, text = node.tag, str(node.value)
    if tag == STR:
        return text
    if tag == BINARY:
        return _decoded(node)
    if tag not in (NULL, BOOL, INT, FLOAT, TIMESTAMP):
        return text
    value = _typed(node)
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        number = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise _not_json(f"json: unsupported value: {number}", node)
    return json_number(value)


def _typed(node: yaml.ScalarNode) -> Any:
    value = scalar(node.value)
    found = _TAGS[type(value)]
    if found == node.tag or (node.tag, found) == (FLOAT, INT) or (node.tag == TIMESTAMP and _is_date(node.value)):
        return value
    raise _not_json(f"yaml: cannot decode !!{found[len(TAG) :]} `{node.value}` as a !!{node.tag[len(TAG) :]}", node)


_is_date = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\s].*)?").fullmatch


def _decoded(node: yaml.ScalarNode) -> str:
    try:
        return base64.b64decode("".join(node.value.split()), validate=True).decode("utf-8", "replace")
    except ValueError:
        raise _not_json("yaml: !!binary value contains invalid base64 data", node) from None


def json_number(value: float) -> int | float:
    """Return a float after a JSON round trip in Go, which turns whole numbers within 64 bits into integers."""
    if value.is_integer() and abs(value) < 1e21:
        whole = int(Decimal(repr(value)))
        return whole if -(2**63) <= whole < 2**64 else value
    return value


def key_name(key: yaml.Node) -> str:
    """Return a mapping key as a field name. Keys of other types become strings."""
    if not isinstance(key, yaml.ScalarNode):
        raise _not_json("yaml: invalid map key: a list or a mapping", key)
    if key.tag == STR:
        return str(key.value)
    value = scalar(key.value) if key.tag in (BOOL, INT, FLOAT, NULL) else _checked(key)
    if value is None or (isinstance(value, int) and value >= 2**63):
        raise _not_json(f"unsupported map key {key.value or 'null'}: put it in quotes", key)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _float_name(key.value, value) if isinstance(value, float) else str(value)


def _float_name(text: str, value: float) -> str:
    """Format a float as Go's `strconv.FormatFloat(value, 'g', -1, 32)` does."""
    if not math.isfinite(value):
        return text.lower()
    single = struct.unpack("f", struct.pack("f", value))[0]
    shortest = (f"{value:.{digits}e}" for digits in range(9))
    scientific = next((s for s in shortest if struct.unpack("f", struct.pack("f", float(s)))[0] == single), str(value))
    mantissa, _, exponent = scientific.partition("e")
    if _MIN_PLAIN_EXPONENT <= int(exponent) < _MAX_PLAIN_EXPONENT:
        return format(Decimal(scientific), "f")
    return f"{mantissa}e{exponent}"


def _not_json(what: str, node: yaml.Node) -> NotJson:
    return NotJson(problem=what, problem_mark=node.start_mark)


def _problem(what: str, node: yaml.Node | None) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark if node is not None else None)
