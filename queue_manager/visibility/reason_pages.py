"""The page of each reason: what it means, what to look at, what to do, and the commands for it. Pure.

config/REASONS.md is the one source, for readers of the repository and for `sluice explain --reason WORD`. Each of its
sections is one page: a heading, the paragraphs `Means:`, `Look at:` and `Do:`, and commands, which are indented. The
pages of `reason_codes.CODES` have the code as heading; others are reasons of evictions and of pods.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

_PARTS = ("Means", "Look at", "Do")


class ReasonPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a reason means and what helps. `commands` have placeholders in capitals: JOB, QUEUE, NS."""

    reason: str
    means: str
    look_at: str
    do: str
    commands: list[str]


def read_pages(text: str) -> Mapping[str, ReasonPage]:
    """The pages of config/REASONS.md by their headings. Raises ValueError for a section with other parts."""
    sections = [section.partition("\n") for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]
    return {title.strip(): _page(title.strip(), body) for title, _, body in sections}


def _page(reason: str, body: str) -> ReasonPage:
    paragraphs = [part for part in body.strip().split("\n\n") if part]
    prose, commands = paragraphs[:-1], paragraphs[-1]
    if [text.partition(":")[0] for text in prose] != [*_PARTS] or not commands.startswith("    "):
        raise ValueError(f"the page of {reason} has other parts than {', '.join(_PARTS)} and commands")
    means, look_at, do = (_plain(text) for text in prose)
    return ReasonPage(
        reason=reason,
        means=means,
        look_at=look_at,
        do=do,
        commands=[line.strip() for line in commands.splitlines()],
    )


def _plain(paragraph: str) -> str:
    """The sentences of a paragraph without its label and line breaks."""
    return " ".join(paragraph.partition(":")[2].split())


def find_page(word: str, pages: Mapping[str, ReasonPage]) -> ReasonPage | None:
    """The page of a reason, given as CLASS/Reason or as the part behind the slash, in any case; None if it has none."""
    wanted = word.casefold()
    return next((page for name, page in pages.items() if wanted in _names(name)), None)


def words(pages: Mapping[str, ReasonPage]) -> Sequence[str]:
    """The words by which pages are found, in their order."""
    return [word_of(name) for name in pages]


def word_of(reason: str) -> str:
    """The part of a code behind the slash."""
    return reason.rpartition("/")[2]


def _names(name: str) -> tuple[str, str]:
    return name.casefold(), word_of(name).casefold()
