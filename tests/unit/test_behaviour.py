"""BEHAVIOUR.md and its citations: each anchor that the code cites exists, and each test that a rule names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPERS = sorted(ROOT.glob("*/BEHAVIOUR.md"))


def anchors(paper: Path) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", paper.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.parent.name)
def test_each_citation_resolves(paper: Path) -> None:
    texts = {path: path.read_text() for path in paper.parent.rglob("*.py")}
    cited = [
        (str(path.relative_to(ROOT)), anchor)
        for path, text in texts.items()
        for anchor in re.findall(r"(?<![\w/])BEHAVIOUR\.md#([\w-]+)", text)
    ]
    cited += [(paper.name, anchor) for anchor in re.findall(r"\]\(#([\w-]+)\)", paper.read_text())]
    known = anchors(paper)
    assert [(where, anchor) for where, anchor in cited if anchor not in known] == []


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.parent.name)
def test_each_named_test_exists(paper: Path) -> None:
    missing = []
    for path, name in re.findall(r"`(?:tests/)?([\w/]+\.py)::(\w+)`", paper.read_text()):
        file = ROOT / "tests" / path
        tree = ast.parse(file.read_text()) if file.exists() else ast.Module([], [])
        if name not in {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }:
            missing.append(f"{path}::{name}")
    assert missing == []
