"""The Common Expression Language: text to tree.

The grammar is that of the CEL specification, with optional selection (`a.?b`, `a[?b]`) as Kubernetes uses it.
A tree is made of tuples: ("lit", value), ("id", name), ("sel", of, name, optional), ("has", of, name),
("idx", of, index, optional), ("call", name, of or None, arguments), ("list", items), ("map", pairs),
("cond", test, yes, no), ("and", a, b), ("or", a, b).
"""

from __future__ import annotations

import re
from typing import Any

Node = tuple[Any, ...]

MAX_DEPTH = 250


class SyntaxProblem(Exception):
    """A text that is not an expression; `at` is the position of the error."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<num>(?:\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?|0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?))
    |(?P<str>(?:[rR][bB]?|[bB][rR]?)?(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*|`[A-Za-z0-9_./ -]+`)
    |(?P<op>&&|\|\||==|!=|<=|>=|\.\?|\[\?|[-+*/%!<>?:.,(){}\[\]])""",
    re.VERBOSE,
)
_RAW_STRING = re.compile(r"[rR][bB]?(?:\"|')|[bB][rR](?:\"|')")
_RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "in")
_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)


_LONGEST_NUMBER = 1000  # characters


class Uint(int):
    """An unsigned integer, a type of its own in CEL."""


def parse(text: str) -> Node:
    """The tree of an expression. Raises SyntaxProblem."""
    parser = _Parser(_tokens(text), len(text))
    try:
        tree = parser.expression()
    except RecursionError:  # nine calls a level: the interpreter's limit can come before MAX_DEPTH
        raise SyntaxProblem("expression recursion limit exceeded", 0) from None
    if parser.kind != "end":
        raise parser.unexpected()
    return tree


def _tokens(text: str) -> list[tuple[str, str, int]]:
    # A raw string ends at its first quote, whatever stands before it.
    found: list[tuple[str, str, int]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SyntaxProblem(f"token recognition error at: '{text[at]}'", at)
        kind, end = str(match.lastgroup), match.end()
        if kind == "str" and _RAW_STRING.match(text, at) and not match.group().endswith(('"""', "'''")):
            start = text.index(match.group()[-1], at)
            end = text.index(match.group()[-1], start + 1) + 1
        if kind != "space":
            found.append((kind, text[at:end], at))
        at = end
    return found


class _Parser:
    def __init__(self, tokens: list[tuple[str, str, int]], end: int) -> None:
        self._tokens = [*tokens, ("end", "<EOF>", end)]
        self._at = 0
        self._depth = 0

    @property
    def kind(self) -> str:
        return self._tokens[self._at][0]

    def unexpected(self) -> SyntaxProblem:
        _, text, at = self._tokens[self._at]
        return SyntaxProblem(f"Syntax error: mismatched input '{text}'", at)

    def _is(self, *texts: str) -> bool:
        kind, text, _ = self._tokens[self._at]
        return text in texts and kind in ("op", "name")

    def _take(self, *texts: str) -> str:
        if not self._is(*texts):
            return ""
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self.unexpected()

    def _name(self) -> str:
        kind, text, _ = self._tokens[self._at]
        if kind != "name":
            raise self.unexpected()
        self._at += 1
        return text.strip("`")

    # --- levels, from the loosest to the tightest ---

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SyntaxProblem("expression recursion limit exceeded", self._tokens[self._at][2])
        test = self._or()
        if self._take("?"):
            yes = self._or()
            self._expect(":")
            test = ("cond", test, yes, self.expression())
        self._depth -= 1
        return test

    def _or(self) -> Node:
        left = self._and()
        while self._take("||"):
            left = ("or", left, self._and())
        return left

    def _and(self) -> Node:
        left = self._relation()
        while self._take("&&"):
            left = ("and", left, self._relation())
        return left

    def _relation(self) -> Node:
        left = self._sum()
        while operator := self._take(*_RELATIONS):
            left = ("call", operator, None, [left, self._sum()])
        return left

    def _sum(self) -> Node:
        left = self._product()
        while operator := self._take("+", "-"):
            left = ("call", operator, None, [left, self._product()])
        return left

    def _product(self) -> Node:
        left = self._unary()
        while operator := self._take("*", "/", "%"):
            left = ("call", operator, None, [left, self._unary()])
        return left

    def _unary(self) -> Node:
        if self._is("!"):
            count = 0
            while self._take("!"):
                count += 1
            inner = self._member()
            return ("call", "!", None, [inner]) if count % 2 else ("call", "!", None, [("call", "!", None, [inner])])
        if self._is("-"):
            count = 0
            while self._take("-"):
                count += 1
            kind, text, at = self._tokens[self._at]
            if kind == "num":
                self._tokens[self._at] = (kind, "-" * (count % 2) + text, at)
                return self._member()
            inner = self._member()
            return ("call", "-", None, [inner]) if count % 2 else inner
        return self._member()

    def _member(self) -> Node:
        tree = self._primary()
        while True:
            if dot := self._take(".", ".?"):
                name = self._name()
                if dot == "." and self._take("("):
                    tree = ("call", name, tree, self._arguments(")"))
                else:
                    tree = ("sel", tree, name, dot == ".?")
            elif bracket := self._take("[", "[?"):
                index = self.expression()
                self._expect("]")
                tree = ("idx", tree, index, bracket == "[?")
            else:
                return tree

    def _arguments(self, end: str) -> list[Node]:
        found: list[Node] = []
        while not self._take(end):
            found.append(self.expression())
            if not self._take(","):
                self._expect(end)
                break
        return found

    def _primary(self) -> Node:
        kind, text, at = self._tokens[self._at]
        if self._take("("):
            inner = self.expression()
            self._expect(")")
            return inner
        if self._take("["):
            return ("list", self._arguments("]"))
        if self._take("{"):
            return ("map", self._pairs())
        if kind == "num":
            self._at += 1
            return ("lit", _number(text, at))
        if kind == "str":
            self._at += 1
            return ("lit", _string(text, at))
        if self._take("."):
            kind, text, at = self._tokens[self._at]
        if kind != "name":
            raise self.unexpected()
        self._at += 1
        if text in ("true", "false", "null"):
            return ("lit", {"true": True, "false": False, "null": None}[text])
        if text == "in":
            raise SyntaxProblem("Syntax error: mismatched input 'in'", at)
        if self._take("("):
            arguments = self._arguments(")")
            if text == "has":
                if len(arguments) != 1 or arguments[0][0] != "sel":
                    raise SyntaxProblem("invalid argument to has() macro", at)
                return ("has", arguments[0][1], arguments[0][2])
            return ("call", text, None, arguments)
        return ("id", text)

    def _pairs(self) -> list[tuple[Node, Node]]:
        found: list[tuple[Node, Node]] = []
        while not self._take("}"):
            key = self.expression()
            self._expect(":")
            found.append((key, self.expression()))
            if not self._take(","):
                self._expect("}")
                break
        return found


def _number(text: str, at: int) -> int | float:
    if len(text) > _LONGEST_NUMBER:  # int() refuses more than 4300 digits
        raise SyntaxProblem("invalid int literal", at)
    if text[-1] in "uU":
        number = int(text[:-1], 16 if text[:2] in ("0x", "0X") else 10)  # base 0 refuses leading zeros
        if number >= 2**64:
            raise SyntaxProblem("invalid uint literal", at)
        return Uint(number)
    plain = text.lstrip("-").lower()
    if plain.startswith("0x"):
        value: int | float = int(text, 16)
    elif "." in text or "e" in plain:
        return float(text)
    else:
        value = int(text)
    if not -(2**63) <= value < 2**63:
        raise SyntaxProblem("invalid int literal", at)
    return value


def _string(text: str, at: int) -> str | bytes:
    prefix = text[: re.search("['\"]", text).start()].lower()  # type: ignore[union-attr]
    body = text[len(prefix) :]
    quotes = 3 if body[:3] in ('"""', "'''") else 1
    body = body[quotes:-quotes]
    if "r" not in prefix:
        for match in re.finditer(r"\\.", body, re.DOTALL):
            if not _ESCAPE.match(body, match.start()) and body[match.start() - 1 : match.start()] != "\\":
                raise SyntaxProblem("unable to unescape string", at)
        try:
            body = _ESCAPE.sub(_unescape, body)
        except (ValueError, OverflowError) as error:  # no character has this number
            raise SyntaxProblem("unable to unescape string", at) from error
    return body.encode() if "b" in prefix else body


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return _ESCAPES[match[1]]
    if match[5]:
        return chr(int(match[5], 8))
    return chr(int(match[2] or match[3] or match[4], 16))


def names_in(node: Any) -> set[str]:
    """All identifiers in a tree, including those of macros."""
    if isinstance(node, tuple):
        found = {str(node[1])} if node and node[0] == "id" else set()
        return found.union(*(names_in(part) for part in node))
    if isinstance(node, list):
        return set().union(*(names_in(part) for part in node))
    return set()
