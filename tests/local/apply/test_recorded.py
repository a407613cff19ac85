"""Field ownership, conflicts and refusals are those recorded from a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.local.apply.cases import STEPS
from tests.local.apply.servers import Embedded, seen

Json = Any
LINES = (Path(__file__).parents[2] / "golden" / "apply" / "apply.jsonl").read_text().splitlines()
RECORDED = {record.pop("title"): record for record in map(json.loads, LINES)}


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, Json]]:
    embedded = Embedded()
    yield {step.title: seen(*embedded.ask(*step[1:])) for step in STEPS}
    embedded.close()


@pytest.mark.parametrize("title", [step.title for step in STEPS])
def test_answers_as_recorded(answers: dict[str, Json], title: str) -> None:
    ours, theirs = json.loads(json.dumps(answers[title])), RECORDED[title]
    if ours["status"] >= 300:
        assert ours == theirs
        return
    assert ours["managers"] == theirs["managers"]
    assert ours["metadata"].keys() == theirs["metadata"].keys()
