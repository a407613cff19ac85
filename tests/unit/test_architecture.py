"""ARCHITECTURE.md names files and functions that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "queue_manager" / "ARCHITECTURE.md"
CITED = sorted(set(re.findall(r"`((?:\.\./)?[a-z_/]+\.py)(?:::(\w+))?`", PAGE.read_text())))


def test_the_page_cites_files() -> None:
    assert len(CITED) > 30


@pytest.mark.parametrize(("file", "name"), CITED, ids=lambda part: part.removeprefix("../"))
def test_a_cited_file_and_function_exist(file: str, name: str) -> None:
    text = (PAGE.parent / file).read_text()
    assert not name or re.search(rf"^\s*(?:async )?(?:def|class) {name}\b", text, re.MULTILINE)
