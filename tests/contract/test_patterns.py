"""Patterns in schemas of custom kinds are Go's regular expressions."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import CRDS
from tests.contract.bodies import definition, thing
from tests.contract.session import Session

Json = Any
PATTERNS = [r"^[a-z]+$", r"^\d+$", r"\bb\b", r"^[[:alpha:]]*\z", r"(?i)AB", r"a(?i)B", r"^\p{Lu}+$", r"^[^\W]+$"]
REFUSED = ["(", r"a\Z", "a(?=b)", r"(a)\1", "a++", "a{1001}", r"\pX", "[z-a]", "*", "[[:foo:]]", "a{2}{3}"]
TEXTS = ["ab", "ab\n", "7", "٧", "a b", "éb", "É", "AB", "", "_"]


def patterned(pattern: str) -> Json:
    return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}


@pytest.mark.parametrize("pattern", [*REFUSED, r"\p{Greek}"])
async def test_a_definition_with_an_invalid_pattern_is_refused(s: Session, pattern: str) -> None:
    differs = "pattern-scripts" if "Greek" in pattern else ""
    await s.ask("POST", CRDS.path(), definition(s.group, patterned(pattern)), dryRun="All", differs=differs)


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_patterns_match_as_in_go(s: Session, pattern: str) -> None:
    await s.define(definition(s.group, patterned(pattern)))
    for number, text in enumerate(TEXTS):
        await s.create(thing(s.group, f"t{number}", a=text))
