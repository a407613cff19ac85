"""Man pages of `man_page` as plain text, for pipes, files and machines without a viewer of man pages. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import wrap

WIDTH = 80  # characters of a line
INDENT, DEEPER = 7, 14  # characters before a paragraph, and before the text of an entry
_FONT = re.compile(r"\\f[BR]|\\&")


def plain_text(page: str) -> str:
    """Return the page without macros and fonts. Knows the macros that `man_page` writes, no others."""
    return "\n".join(_lines(page.splitlines())).lstrip("\n") + "\n"


def _lines(roff: list[str]) -> Iterator[str]:
    indent = INDENT
    term = False  # whether the line is the name of an entry
    for line in roff:
        macro, _, rest = line.partition(" ") if line.startswith(".") else ("", "", line)
        match macro:
            case ".TH":
                name = rest.split()[0].lower()
                yield f"{name}(1)"
            case ".SH":
                indent = INDENT
                yield from ("", rest)
            case ".PP":
                yield ""
            case ".TP":
                term = True
            case ".BR":
                yield from _filled(rest.replace(" ", ""), INDENT)
            case _:
                yield from _filled(rest, INDENT if term else indent)
                indent, term = (DEEPER, False) if term else (indent, False)


def _filled(text: str, indent: int) -> list[str]:
    margin = " " * indent
    plain = _FONT.sub("", text).replace("\\-", "-").replace("\\e", "\\")
    return wrap(
        plain, WIDTH, initial_indent=margin, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
    )
