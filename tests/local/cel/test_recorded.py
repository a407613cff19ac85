"""Validation rules hold, fail and err as recorded from a real API server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.local.apply.servers import Embedded, Real
from tests.local.cel import cases

LINES = (Path(__file__).parents[2] / "golden" / "apply" / "cel.jsonl").read_text().splitlines()
RECORDED = {record["rule"]: record["answer"] for record in map(json.loads, LINES)}


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RULED = "/apis/demo.example.com/v1/namespaces/default/ruled"
SERVED_WITHIN = 30.0  # seconds


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.control_plane)])
def answers(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The answers of a server about an object with all rules; also of the real one, so that no recording gets stale."""
    real = request.param == "real"
    server = Real(request.getfixturevalue("control_plane")) if real else Embedded()
    assert server.ask("POST", DEFINITIONS, cases.definition())[0] == 201
    deadline = time.monotonic() + SERVED_WITHIN
    while server.ask("GET", RULED)[0] != 200:  # the server may answer and close before it has read the body
        assert time.monotonic() < deadline, "the new kind is not served"
    yield cases.answers(server.ask("POST", RULED, cases.object_with_values())[1])
    server.ask("DELETE", f"{DEFINITIONS}/ruled.demo.example.com")
    if isinstance(server, Embedded):
        server.close()


@pytest.mark.parametrize("rule", cases.rules())
def test_a_rule_answers_as_recorded(answers: dict[str, Any], rule: str) -> None:
    assert answers[rule] == RECORDED[rule]
