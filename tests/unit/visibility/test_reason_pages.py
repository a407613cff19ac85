"""Each reason has a page, whose commands exist; config/REASONS.md is the one source of them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from queue_manager import assets
from queue_manager.cli.arguments import parser
from queue_manager.visibility.reason_codes import CODES
from queue_manager.visibility.reason_pages import ReasonPage, find_page, read_pages, word_of

TEXT = assets.reasons().read_text(encoding="utf-8")
PAGES = read_pages(TEXT)
PRODUCT = Path(assets.__file__).parent
KUBECTL = {"annotate", "delete", "describe", "edit", "get", "label", "logs"}


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_has_a_page(code: str) -> None:
    page = PAGES[code]
    assert page.means
    assert page.look_at
    assert page.do
    assert page.commands


def test_a_page_without_a_code_is_about_a_reason_that_the_product_writes() -> None:
    source = "".join(path.read_text() for path in PRODUCT.rglob("*.py"))
    others = [name for name in PAGES if name not in CODES]
    assert len(others) > 5
    assert [name for name in others if f'"{name}"' not in source] == []


def test_each_word_has_one_page() -> None:
    found = [word_of(name) for name in PAGES]
    assert len(found) == len(set(found)) == len(re.findall(r"^## ", TEXT, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.reason)
def test_the_commands_of_a_page_exist(page: ReasonPage) -> None:
    quoted = re.findall(r"`(sluice [^`]+)`", " ".join((page.means, page.look_at, page.do)))
    for command in (*page.commands, *(text for text in quoted if text.split()[1] not in ("up", "manager"))):
        program, *arguments = shlex.split(command)
        if program == "sluice":
            parser().parse_args(arguments)  # exits for what it does not know
        else:
            assert (program, arguments[0] in KUBECTL) == ("kubectl", True), command


@pytest.mark.parametrize("word", ["WAIT/Backoff", "Backoff", "wait/backoff", "BACKOFF"])
def test_a_page_is_found_by_its_code_or_word_in_any_case(word: str) -> None:
    assert find_page(word, PAGES) == PAGES["WAIT/Backoff"]


def test_part_of_a_word_finds_no_page() -> None:
    assert find_page("Back", PAGES) is None
    assert find_page("", PAGES) is None


def test_a_section_without_commands_is_refused() -> None:
    with pytest.raises(ValueError, match="the page of A has other parts"):
        read_pages("# t\n\n## A\n\nMeans: x\n\nLook at: y\n\nDo: z\n")
