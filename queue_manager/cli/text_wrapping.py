"""Folds sentences for a terminal. Pure.

A sentence continues on indented lines. A command in it stays on one line if it fits there, so that it can be copied;
otherwise it continues after a backslash, as a shell reads it. A word that is longer than a line is not split: it is a
path, a name or a quoted text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len

INDENT = 2  # characters: of the lines that continue another one
CONTINUED = " \\"  # of a command that continues on the next line
# Neither the name of a command that begins its message ("sluice run: ...") nor the mark behind an argument.
_COMMAND = re.compile(r"""\(?(?:sluice|kubectl|export) (?![\w-]+:)(?:'[^']*'|"[^"]*"|[^;()'"])+[);]*""")
_QUOTED = re.compile(r"[^\s`]*`[^`]*`\S*")
_WORD = re.compile(r"\S+")
_GAP = re.compile(r"\s*")
_ARGUMENT = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"]|['"])+""")


def fold(text: str, width: int, indent: int = INDENT) -> str:
    """Return the text with each line folded to `width` characters.

    `indent`: the number of spaces before continuation lines, in addition to the indentation of the line itself.
    """
    return "\n".join(folded for line in text.split("\n") for folded in _folded(line, width, " " * indent))


def _folded(line: str, width: int, more: str) -> Iterator[str]:
    if cell_len(line) <= width:
        yield line
        return
    indent = line[: len(line) - len(line.lstrip())] + more
    current = ""
    for gap, unit, is_command in _units(line):
        if not current:
            current = gap + unit
        elif cell_len(current + gap + unit) <= width:
            current += gap + unit
        else:
            yield current
            current = indent + unit
        if is_command and cell_len(current) > width:
            *before, current = _continued(current, indent, width)
            yield from before
    yield current


def _units(line: str) -> Iterator[tuple[str, str, bool]]:
    """Split a line into words, quoted texts and commands. Yields (space before it, unit, whether it is a command)."""
    at = 0
    while gap := _GAP.match(line, at):
        begins = at == 0 or line[at - 1] in ":;" or line[gap.end() : gap.end() + 1] == "("
        command = _COMMAND.match(line, gap.end()) if begins else None
        unit = command or _QUOTED.match(line, gap.end()) or _WORD.match(line, gap.end())
        if unit is None:
            return
        yield gap.group(), unit.group().rstrip(), command is not None
        at = gap.end() + len(unit.group().rstrip())


def _continued(line: str, indent: str, width: int) -> Iterator[str]:
    """Yield the lines of a command that is longer than one, each but the last with a backslash at its end."""
    found = [argument.group() for argument in _ARGUMENT.finditer(line)]
    current = line[: len(line) - len(line.lstrip())] + found[0]
    for argument in found[1:]:
        if cell_len(f"{current} {argument}{CONTINUED}") <= width:
            current += f" {argument}"
        else:
            yield current + CONTINUED
            current = indent + " " * INDENT + argument
    yield current
