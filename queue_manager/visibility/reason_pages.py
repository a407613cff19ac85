"""The page of each reason: what it means, what to look at, what to do, and the commands for it. Pure.

config/REASONS.md is the one source, for readers of the repository and for `sluice explain --reason WORD`. Each of its
sections is one page: a heading, the paragraphs `Means:`, `Look at:` and `Do:`, and commands, which are indented. A
paragraph `Also:` before them names other reasons that the page is about. The pages of `reason_codes.CODES` have the
code as heading; others are about reasons of evictions, Jobs, pods, queues and Events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from queue_manager.api import reasons

_ALSO = "Also"
_PARTS = ("Means", "Look at", "Do")
_PREFIXES = re.compile(f"(?:{reasons.EVICTED_DUE_TO})?(?:{reasons.DEACTIVATED_DUE_TO})?", re.IGNORECASE)


class ReasonPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a reason means and what helps. `commands` have placeholders in capitals: JOB, QUEUE, NS."""

    reason: str
    also: list[str]
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
    has_others = bool(prose) and prose[0].startswith(f"{_ALSO}:")
    others = _plain(prose.pop(0)).rstrip(".").split(", ") if has_others else []
    if [text.partition(":")[0] for text in prose] != [*_PARTS] or not commands.startswith("    "):
        raise ValueError(f"the page of {reason} has other parts than {', '.join(_PARTS)} and commands")
    means, look_at, do = (_plain(text) for text in prose)
    return ReasonPage(
        reason=reason,
        also=others,
        means=means,
        look_at=look_at,
        do=do,
        commands=[line.strip() for line in commands.splitlines()],
    )


def _plain(paragraph: str) -> str:
    """Return the sentences of a paragraph on one line, without its beginning up to the colon (`What helps:`)."""
    return " ".join(paragraph.partition(":")[2].split())


def find_page(word: str, pages: Mapping[str, ReasonPage]) -> ReasonPage | None:
    """The page of a reason, in upper or lower case; None if it has none.

    `word`: CLASS/Reason, Reason alone, or a synonym from the page's `also`, each with or without the prefix
    "DeactivatedDueTo" or "EvictedDueTo".
    """
    for wanted in (word.casefold(), _PREFIXES.sub("", word, count=1).casefold()):
        for page in pages.values():
            if wanted in _names(page):
                return page
    return None


def words(pages: Mapping[str, ReasonPage]) -> Sequence[str]:
    """All words that `find_page` accepts, in the order of the pages."""
    return [word for page in pages.values() for word in (word_of(page.reason), *page.also)]


def word_of(reason: str) -> str:
    """The reason of a code CLASS/Reason, without its class."""
    return reason.rpartition("/")[2]


def _names(page: ReasonPage) -> Sequence[str]:
    return [name.casefold() for name in (page.reason, word_of(page.reason), *page.also)]
