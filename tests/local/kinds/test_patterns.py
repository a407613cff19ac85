"""Patterns mean what they mean to an API server, which is written in Go."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from queue_manager.local.schema.patterns import PatternError, compiled

RECORDED = Path(__file__).parents[2] / "golden/patterns/recorded.jsonl"
CASES = [json.loads(line) for line in RECORDED.read_text().splitlines()]


@pytest.mark.parametrize("case", [case for case in CASES if "found" in case], ids=lambda case: ascii(case["pattern"]))
def test_what_go_finds_is_found(case: dict[str, Any]) -> None:
    found = [match and match[0] for match in map(compiled(case["pattern"]).search, case["texts"])]
    assert found == case["found"]


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: ascii(case["pattern"]))
def test_what_go_refuses_is_refused_in_its_words(case: dict[str, Any]) -> None:
    with pytest.raises(PatternError, match=f"^{re.escape(case['error'])}$"):
        compiled(case["pattern"])


def test_groups_without_end_are_refused_and_do_not_end_the_program() -> None:
    with pytest.raises(PatternError, match="nests too deeply"):
        compiled("(" * 100_000 + ")" * 100_000)
