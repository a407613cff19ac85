"""Validation rules hold, fail and err as a real API server was recorded with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.local.apply.servers import Embedded
from tests.local.cel import cases

LINES = (Path(__file__).parents[2] / "golden" / "apply" / "cel.jsonl").read_text().splitlines()
RECORDED = {record["rule"]: record["answer"] for record in map(json.loads, LINES)}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    embedded = Embedded()
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert embedded.ask("POST", path, cases.definition())[0] == 201
    _, body = embedded.ask("POST", "/apis/demo.example.com/v1/namespaces/default/ruled", cases.asked())
    embedded.close()
    return cases.answers(body)


@pytest.mark.parametrize("rule", cases.rules())
def test_a_rule_answers_as_recorded(answers: dict[str, Any], rule: str) -> None:
    assert answers[rule] == RECORDED[rule]
