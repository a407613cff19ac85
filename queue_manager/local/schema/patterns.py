r"""Regular expressions with the semantics of an API server: Go's, which are those of RE2.

RE2 matches in time linear in the text and in the compiled pattern, which has at most 8 MiB. A signal cannot interrupt a
match, so a text that is too long for its pattern is not matched at all (TimeLimitExceeded).

RE2 differs from Go's regexp/syntax in a few points, and a pattern is rewritten accordingly before it is compiled: Go
rejects `\C`, rejects a repeat count of nine digits instead of reading it as text, limits the depth of nested groups,
and ignores case in the names of Unicode classes. RE2's errors are converted to Go's.

One difference remains: a class of many characters that is repeated often, such as `(\pL{100}){10}`, is "expression too
large" here but accepted by Go, which does not expand classes to bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Protocol

import re2

from queue_manager.local.schema.cpu_time_limits import TimeLimitExceeded

MAX_STEPS = 10**9  # instructions of a program times characters of a text: at most a tenth of a second
MAX_DEPTH = 1000  # nested groups: maxHeight of regexp/syntax

_TOKEN = re.compile(
    r"""
      (?P<quoted>  \\Q.*?(?:\\E|\Z) )
    | (?P<named>   \\[pP](?:\{\^?\w*\}|\w) )
    | (?P<byte>    \\C )
    | (?P<escape>  \\. )
    | (?P<bracket> \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] )
    | (?P<huge>    \{(?:[1-9][0-9]{8,}(?:,[0-9]*)?|[0-9]+,[1-9][0-9]{8,})\} )
    | (?P<group>   [()] )
    """,
    re.VERBOSE | re.DOTALL,
)
_NAMED = re.compile(r"\\[pP](?:\{\^?\w*\}|\w)|\\.", re.DOTALL)

_WORDS = {  # error of RE2 -> error of Go
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": "expression too large",
    "trailing \\": "trailing backslash at end of expression",
}


class PatternError(ValueError):
    """An invalid regular expression, with Go's error text."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")


class Found(Protocol):
    """A match; item 0 is its text."""

    def __getitem__(self, group: int) -> str: ...


class Pattern:
    """A compiled expression. Matching raises TimeLimitExceeded for a text that may take over a tenth of a second."""

    def __init__(self, expression: Any) -> None:
        self._expression = expression
        self._longest = MAX_STEPS // expression.programsize

    def search(self, text: str) -> Found | None:
        """Return the leftmost match, with Go's preference among alternatives."""
        return next(self.finditer(text), None)

    def finditer(self, text: str) -> Iterator[Found]:
        """Return all non-overlapping matches."""
        if len(text) > self._longest:
            raise TimeLimitExceeded
        found: Iterator[Found] = self._expression.finditer(text)
        return found


@lru_cache(512)
def compiled(pattern: str) -> Pattern:
    """Compile an expression. Raises PatternError."""
    reading = _Reading()
    text = _TOKEN.sub(reading.read, pattern)
    try:
        expression = re2.compile(text, _options())
    except re2.error as error:
        what, where = _go_error(error, text)
        raise PatternError(what, reading.original(where)) from None
    if reading.deepest > MAX_DEPTH:
        raise PatternError("expression nests too deeply", pattern)
    return Pattern(expression)


class _Reading:
    """A pattern as rewritten for RE2, with the original text of the replaced tokens."""

    def __init__(self) -> None:
        self._originals: dict[str, str] = {}
        self._depth = 0
        self.deepest = 0

    def read(self, token: re.Match[str]) -> str:
        """Return the text that RE2 reads in place of a token."""
        text = token[0]
        match token.lastgroup:
            case "named":
                return self._replaced(text, _capitalized(text))
            case "bracket":
                return _NAMED.sub(lambda inner: self._replaced(inner[0], _capitalized(inner[0])), text)
            case "byte":
                return self._replaced(text, "\\\ue000")  # RE2 rejects it, like every unknown escape
            case "huge":
                return self._replaced(text, f"{{{90_000_000 + len(self._originals)}}}")  # RE2 rejects counts over 1000
            case "group":
                self._depth += 1 if text == "(" else -1
                self.deepest = max(self.deepest, self._depth)
        return text

    def original(self, text: str) -> str:
        """Convert a part of the rewritten pattern back to the original text."""
        for replacement, original in self._originals.items():
            text = text.replace(replacement, original)
        return text

    def _replaced(self, original: str, replacement: str) -> str:
        if replacement != original:
            self._originals[replacement] = original
        return replacement


def _capitalized(named: str) -> str:
    r"""Rewrite `\p{greek}` to `\p{Greek}`; keep other escapes."""
    if named[1] not in "pP":
        return named
    name = named[2:]
    return named[:2] + (name.title() if name.islower() or name.isupper() else name)


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


def _go_error(error: re2.error, text: str) -> tuple[str, str]:
    """Return what is wrong and where, in Go's terms. RE2 reports both, separated by a colon."""
    what, _, where = _error_text(error).partition(": ")
    if what == "invalid UTF-8":  # the pattern ends where RE2 expects a digit
        return "invalid escape sequence", text[text.rindex("\\") :]
    if what == "invalid perl operator" and where in ("(?<=", "(?<!"):  # Go parses it as the start of a group name
        begin = _first_look_behind(text, where)
        end = text.find(">", begin)
        return "invalid named capture", text[begin : end + 1] if end >= 0 else text[begin:]
    return _WORDS.get(what, what), where


def _first_look_behind(text: str, operator: str) -> int:
    """Return the position of the look-behind (`operator`: `(?<=` or `(?<!`) that RE2 rejects.

    It is not always the first occurrence of these characters: in brackets or escaped they are no look-behind.
    """
    for found in re.finditer(re.escape(operator), text):
        try:
            re2.compile(text[: found.end() + 1], _options())
        except re2.error as error:
            if _error_text(error) == f"invalid perl operator: {operator}":
                return found.start()
    return 0


def _error_text(error: re2.error) -> str:
    said = error.args[0]
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
