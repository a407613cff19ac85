"""Regular expressions as an API server means them: Go's, in Python's.

What the two understand differently would let pass what a cluster refuses, or refuse what it takes. In Go `$` is the
end of the text and not the line break before it, digits, spaces and words are ASCII, flags may stand anywhere and
POSIX and Unicode classes in brackets; look-around, references and possessive repeats do not exist. So a pattern is
read by Go's grammar (https://pkg.go.dev/regexp/syntax) and written anew, an atom at a time, with the flags that hold
there around it. Groups capture nothing: nobody asks what they matched.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import groupby

MAX_REPEAT = 1000  # of an atom, nested repeats multiplied
DEEPEST = 200  # groups in groups; Go takes 1000

_PERL = {"d": "0-9", "s": "\\t\\n\\f\\r ", "w": "0-9A-Za-z_"}
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7F",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_LETTERS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}", re.ASCII)
_NAMED = re.compile(r"\(\?P?<")
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")


class PatternError(ValueError):
    """No regular expression, in Go's words."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")


@lru_cache(512)
def compiled(pattern: str) -> re.Pattern[str]:
    """A test for texts by `search`. Raises PatternError."""
    try:
        return re.compile(translated(pattern))
    except RecursionError:
        raise PatternError("expression nests too deeply", pattern) from None


def translated(pattern: str) -> str:
    """The same expression as Python writes it. Raises PatternError."""
    return _Translation(pattern).all()


@dataclass(slots=True)
class _Group:
    """What stands between two parentheses, so far."""

    flags: frozenset[str]  # that hold again behind it
    branches: list[str] = field(default_factory=list)
    atoms: list[str] = field(default_factory=list)  # of the branch that is being read
    repeats: list[int] = field(default_factory=list)  # how often, at most, the inmost of each is repeated
    most: int = 1  # of all branches

    def add(self, atom: str, repeats: int = 1) -> None:
        self.atoms.append(atom)
        self.repeats.append(repeats)
        self.most = max(self.most, repeats)

    def end_branch(self) -> None:
        self.branches.append("".join(self.atoms))
        self.atoms, self.repeats = [], []

    def closed(self) -> str:
        self.end_branch()
        return f"(?:{'|'.join(self.branches)})"


class _Translation:
    """One pass over a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = [_Group(self._flags)]

    def all(self) -> str:
        repeated = -1  # where the repeat stands that was read last
        while self._at < len(self._pattern):
            began = self._at
            repeated = began if self._one(repeated) else -1
        if len(self._groups) > 1:
            raise PatternError("missing closing )", self._pattern)
        return self._groups[0].closed()

    def _one(self, repeated: int) -> bool:
        """Read the next thing. True if it is a repeat."""
        char = self._pattern[self._at]
        match char:
            case "(":
                self._open()
            case ")":
                self._close()
            case "|":
                self._groups[-1].end_branch()
                self._at += 1
            case "^":
                self._put("(?m:^)" if "m" in self._flags else "\\A")
            case "$":
                self._put("(?m:$)" if "m" in self._flags else "\\Z")
            case ".":
                self._put("(?s:.)" if "s" in self._flags else "[^\\n]")
            case "[":
                self._class()
            case "*" | "+" | "?":
                self._repeat(char, 1, repeated)
                return True
            case "{" if found := _REPEAT.match(self._pattern, self._at):
                self._counted(found, repeated)
                return True
            case "\\":
                self._escape()
            case _:
                self._put(re.escape(char))
        return False

    def _put(self, atom: str, length: int = 1) -> None:
        self._groups[-1].add(f"(?i:{atom})" if "i" in self._flags else atom)
        self._at += length

    # --- groups ---

    def _open(self) -> None:
        flags = self._flags
        if not self._pattern.startswith("(?", self._at):
            self._at += 1
        elif _NAMED.match(self._pattern, self._at):
            self._name()
        else:
            found = _FLAGS.match(self._pattern, self._at)
            if found is None:
                raise PatternError("invalid or unsupported Perl syntax", self._wrong_flags())
            self._at = found.end()
            self._flags = flags | set(found[1]) - set(found[2] or "")
            if found[3] == ")":  # they hold for the rest of the group
                return
        if len(self._groups) > DEEPEST:
            raise PatternError("expression nests too deeply", self._pattern)
        self._groups.append(_Group(flags))

    def _name(self) -> None:
        end = self._pattern.find(">", self._at)
        capture = self._pattern[self._at : end + 1] if end >= 0 else self._pattern[self._at :]
        if end < 0 or not re.fullmatch(r"\(\?P?<\w+>", capture, re.ASCII):
            raise PatternError("invalid named capture", capture)
        self._at = end + 1

    def _wrong_flags(self) -> str:
        """As far as they could be read, and the character that could not."""
        found = re.compile(r"\(\?[imsU]*(-[imsU]*)?.?", re.DOTALL).match(self._pattern, self._at)
        return found[0] if found else ""

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise PatternError("unexpected )", self._pattern)
        group = self._groups.pop()
        self._flags = group.flags
        self._groups[-1].add(group.closed(), group.most)
        self._at += 1

    # --- repeats ---

    def _counted(self, found: re.Match[str], repeated: int) -> None:
        least = int(found[1]) if len(found[1]) < 5 else MAX_REPEAT + 1
        most = least if found[2] is None else int(found[3]) if 0 < len(found[3]) < 5 else MAX_REPEAT + 1
        if not found[3] and found[2] is not None:
            most = least  # without end
        if max(least, most) > MAX_REPEAT or least > most:
            raise PatternError("invalid repeat count", found[0])
        self._repeat(found[0], max(most, 1), repeated)

    def _repeat(self, operator: str, times: int, repeated: int) -> None:
        began, group = self._at, self._groups[-1]
        self._at += len(operator)
        lazy = self._pattern.startswith("?", self._at)
        self._at += lazy
        if repeated >= 0:
            raise PatternError("invalid nested repetition operator", self._pattern[repeated : self._at])
        if not group.atoms:
            raise PatternError("missing argument to repetition operator", self._pattern[began : self._at])
        inner = group.repeats[-1]
        if times > 1 and inner * times > MAX_REPEAT:
            raise PatternError("invalid repeat count", self._pattern[began : self._at])
        atom, _ = group.atoms.pop(), group.repeats.pop()
        group.add(f"(?:{atom}){operator}{'?' if lazy != ('U' in self._flags) else ''}", inner * times)

    # --- characters ---

    def _escape(self) -> None:
        pattern, at = self._pattern, self._at
        match pattern[at + 1 : at + 2]:
            case "A":
                self._put("\\A", 2)
            case "z":
                self._put("\\Z", 2)
            case "b":
                self._put("(?a:\\b)", 2)
            case "B":  # Python's own, before 3.14, is not found in an empty text
                self._put("(?a:(?!\\b))", 2)
            case "C":
                raise PatternError("invalid escape sequence", "\\C")
            case "Q":
                self._at += 2
                end = pattern.find("\\E", self._at)
                for char in pattern[self._at : end if end >= 0 else len(pattern)]:
                    self._put(re.escape(char))
                self._at += 2 if end >= 0 else 0
            case _:
                named = self._named_class()
                if named is not None:
                    ranges, negative = named
                    self._put(_bracket(ranges, negative=negative), 0)
                else:
                    self._put(re.escape(self._escaped()), 0)

    def _escaped(self) -> str:
        """The character behind a backslash."""
        began = self._at
        found = _ESCAPED.match(self._pattern, began)
        if found is None:
            raise PatternError("invalid escape sequence", _NOT_ESCAPED.match(self._pattern, began)[0])  # type: ignore[index]
        self._at = found.end()
        text = found[0][1:]
        if not text:
            raise PatternError("trailing backslash at end of expression", "")
        if text[0] == "x":
            code = int(text[1:].strip("{}"), 16)
            if code > sys.maxunicode:
                raise PatternError("invalid escape sequence", found[0].rstrip("}"))
            return chr(code)
        return chr(int(text, 8)) if text[0].isdigit() else _LETTERS.get(text, text)

    def _named_class(self) -> tuple[str, bool] | None:
        """Ranges, and whether it is all but them; None where no named class begins."""
        letter = self._pattern[self._at + 1 : self._at + 2]
        if letter.lower() in _PERL and letter != "":
            self._at += 2
            return _PERL[letter.lower()], letter.isupper()
        if letter in ("p", "P"):
            return self._unicode_class(negative=letter == "P")
        return None

    def _unicode_class(self, *, negative: bool) -> tuple[str, bool]:
        found = re.compile(r"\\.(\{([^}]*)\}|[^{])", re.DOTALL).match(self._pattern, self._at)
        if found is None:
            raise PatternError("invalid character class range", self._pattern[self._at :])
        self._at = found.end()
        name = found[1] if found[2] is None else found[2]
        ranges = _category(name.removeprefix("^"))
        if ranges is None:
            raise PatternError("invalid character class range", found[0])
        return ranges, negative != name.startswith("^")

    def _class(self) -> None:
        began = self._at
        self._at += 1
        negative = self._pattern.startswith("^", self._at)
        self._at += negative
        ranges, complements, first = "", [], True
        while first or not self._pattern.startswith("]", self._at):
            first = False
            named = self._posix_class() or (self._named_class() if self._pattern.startswith("\\", self._at) else None)
            if named is None:
                ranges += self._range(began)
            elif named[1]:
                complements.append(named[0])
            else:
                ranges += named[0]
        self._at += 1
        if not complements:
            self._put(_bracket(ranges, negative=negative), 0)
            return
        parts = [_bracket(ranges, negative=False), *(_bracket(other, negative=True) for other in complements)]
        self._put(f"(?!{'|'.join(parts)})(?s:.)" if negative else f"(?:{'|'.join(parts)})", 0)

    def _posix_class(self) -> tuple[str, bool] | None:
        end = self._pattern.find(":]", self._at + 2)
        if not self._pattern.startswith("[:", self._at) or end < 0:
            return None
        name = self._pattern[self._at + 2 : end]
        if name.removeprefix("^") not in _POSIX:
            raise PatternError("invalid character class range", self._pattern[self._at : end + 2])
        self._at = end + 2
        return _POSIX[name.removeprefix("^")], name.startswith("^")

    def _range(self, class_began: int) -> str:
        """One character, or two and all between them."""
        began = self._at
        low = high = self._member(class_began)
        following = self._pattern[self._at : self._at + 2]
        if len(following) == 2 and following[0] == "-" and following[1] != "]":
            self._at += 1
            high = self._member(class_began)
        if high < low:
            raise PatternError("invalid character class range", self._pattern[began : self._at])
        return _span(low, high)

    def _member(self, class_began: int) -> str:
        if self._at >= len(self._pattern):
            raise PatternError("missing closing ]", self._pattern[class_began:])
        if self._pattern[self._at] == "\\":
            return self._escaped()
        self._at += 1
        return self._pattern[self._at - 1]


# A backslash and what may follow it, or nothing; and the longest beginning of what may not.
_ESCAPED = re.compile(
    r"\\(?:[1-7][0-7]{1,2}|0[0-7]{0,2}|x[0-9A-Fa-f]{2}|x\{[0-9A-Fa-f]+\}|[afnrtv]|[^\w\x80-\U0010FFFF]|_|\Z)", re.ASCII
)
_NOT_ESCAPED = re.compile(r"\\(?:x\{[0-9A-Fa-f]*.?|x[^{].?|x\{?|.)", re.DOTALL)


def _bracket(ranges: str, *, negative: bool) -> str:
    if not ranges:
        return "(?s:.)" if negative else "(?!)"
    return f"[{'^' if negative else ''}{ranges}]"


def _span(low: str, high: str) -> str:
    return re.escape(low) if low == high else f"{re.escape(low)}-{re.escape(high)}"


def _category(name: str) -> str | None:
    """The ranges of a general category of Unicode, or of all that begin with its letter; None: there is none."""
    if name == "Any":
        return _span("\0", chr(sys.maxunicode))
    if len(name) not in (1, 2) or not name.isascii():
        return None
    return "".join(ranges for known, ranges in _categories().items() if known.startswith(name.capitalize())) or None


@cache
def _categories() -> dict[str, str]:
    found: dict[str, list[str]] = {}
    began = 0
    for category, run in groupby(map(unicodedata.category, map(chr, range(sys.maxunicode + 1)))):
        behind = began + len(list(run))
        found.setdefault(category, []).append(_span(chr(began), chr(behind - 1)))
        began = behind
    return {category: "".join(spans) for category, spans in found.items()}
