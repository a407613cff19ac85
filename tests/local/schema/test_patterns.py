"""Patterns are matched as by an API server, with Go's regular expressions."""

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
def test_a_pattern_matches_as_in_go(case: dict[str, Any]) -> None:
    found = [match and match[0] for match in map(compiled(case["pattern"]).search, case["texts"])]
    assert found == case["found"]


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: ascii(case["pattern"]))
def test_a_pattern_that_go_refuses_is_refused_with_its_message(case: dict[str, Any]) -> None:
    with pytest.raises(PatternError, match=f"^{re.escape(case['error'])}$"):
        compiled(case["pattern"])


def test_deeply_nested_groups_are_refused() -> None:
    with pytest.raises(PatternError, match="nests too deeply"):
        compiled("(" * 100_000 + ")" * 100_000)
