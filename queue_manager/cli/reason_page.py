"""`sluice explain --reason WORD`: prints the page of a reason, without a cluster."""

from __future__ import annotations

import argparse
import re
import shutil
from textwrap import wrap

from rich.console import Group
from rich.text import Text

from queue_manager import assets
from queue_manager.api.reasons import DEACTIVATED_DUE_TO
from queue_manager.cli import output
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.visibility.reason_codes import CODES
from queue_manager.visibility.reason_pages import ReasonPage, find_page, read_pages, word_of, words
from queue_manager.visibility.similar_names import similar_names, suggestion

_REASON = re.compile(r"\b(?=\w*[a-z])[A-Z]\w*[A-Z]\w*")  # a word with two capitals
MAX_WIDTH = 100  # characters of a line of prose, on any terminal


def show_reason(args: argparse.Namespace) -> int:
    """Print the page of `args.reason`. Raises CommandRefused, with the words that exist, for an unknown one."""
    page = page_of(args.reason)
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    output.show_record(args.output, page, lambda: render(page, width), lambda _: f"reason/{page.reason}")
    return EXIT_OK


def page_of(word: str) -> ReasonPage:
    """Return the page of a reason. Raises CommandRefused for an unknown one."""
    pages = read_pages(assets.reasons().read_text(encoding="utf-8"))
    page = find_page(word, pages)
    if page is None:
        known = {word.casefold(): word for word in words(pages)}
        near = [known[name] for name in similar_names(word_of(word).casefold(), known, 1)]
        hint = f"; {suggestion(near)}" if near else f"; reasons are: {', '.join(map(word_of, pages))}"
        raise CommandRefused(f'"{word}" is not a reason{hint}', EXIT_NEVER)
    return page


def hint(code: str, *texts: str) -> str:
    """Return the command that prints the page of a code, or else of the first reason in `texts`; "" if it has none.

    Jobs that run or have ended have no code, and other queue managers have codes of their own.
    """
    if code in CODES:
        return f"sluice explain --reason {word_of(code).removeprefix(DEACTIVATED_DUE_TO)}"
    known = set(words(read_pages(assets.reasons().read_text(encoding="utf-8"))))
    named = (word for text in texts for word in _REASON.findall(text) if word in known)
    return next((f"sluice explain --reason {word}" for word in named), "")


def render(page: ReasonPage, width: int) -> Group:
    """Return all that is printed: the reason, the three paragraphs, the commands."""
    paragraphs = (("means", page.means), ("look at", page.look_at), ("do", page.do))
    parts = [Text(page.reason, "bold")]
    if page.also:
        parts += _labelled("also", wrap(", ".join(page.also), width - 10, break_long_words=False))
    for name, text in paragraphs:
        parts += _labelled(name, wrap(text, width - 10, break_long_words=False, break_on_hyphens=False))
    return Group(*parts, *_labelled("commands", page.commands))


def _labelled(name: str, lines: list[str]) -> list[Text]:
    labels = [name, *("" for _ in lines[1:])]
    return [Text.assemble((f"{label:<10}", "dim"), line) for label, line in zip(labels, lines, strict=True)]
