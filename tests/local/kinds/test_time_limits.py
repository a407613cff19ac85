"""No definition makes the server work on one object for longer than others can wait."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from queue_manager.local.errors import StatusError
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.kinds.registry import KindRegistry
from queue_manager.local.schema.patterns import compiled
from queue_manager.local.schema.time_limits import TimeLimitExceeded, run_with_limit, shortcut
from tests.local.kinds.crd import THINGS

BOMB = "^(a+)+$"
TOO_DEAR = "running out of cost budget"


def definition(spec: dict[str, Any]) -> dict[str, Any]:
    (version,) = THINGS["spec"]["versions"]
    schema = {"type": "object", "properties": {"spec": {"type": "object"} | spec}}
    return THINGS | {"spec": THINGS["spec"] | {"versions": [version | {"schema": {"openAPIV3Schema": schema}}]}}


def kind(spec: dict[str, Any]) -> Kind:
    return KindRegistry.builtin().install(definition(spec))[0]


def rules(*texts: str) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": text} for text in texts]}


def refusals(kind: Kind, spec: dict[str, Any]) -> str:
    """Why an object is not taken, at whichever step."""
    tree = {"apiVersion": "demo.example.com/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "n"}}
    tree["spec"] = spec
    try:
        kind.schema.check(tree)
    except StatusError as error:
        return error.message
    kind.prepare_create(tree)
    return " ".join(map(str, kind.validate_create(tree)))


def test_a_pattern_that_other_engines_try_without_end_costs_nothing() -> None:
    things = kind({"properties": {"text": {"type": "string", "pattern": BOMB}}})
    assert refusals(things, {"text": "a" * 50}) == ""
    assert f"should match '{BOMB}'" in refusals(things, {"text": "a" * 50 + "!"})
    things = kind({"properties": {"text": {"type": "string"}}, **rules(f"!self.text.matches('{BOMB}')")})
    assert refusals(things, {"text": "a" * 50 + "!"}) == ""


def test_a_rule_whose_steps_are_dear_is_stopped() -> None:
    properties = {"items": {"type": "array", "items": {"type": "integer"}}}
    things = kind({"properties": properties, **rules("self.items.all(x, x in self.items)")})
    assert TOO_DEAR in refusals(things, {"items": list(range(20_000))})


def test_the_alarm_is_off_when_the_work_is_done_or_stopped() -> None:
    assert run_with_limit(1.0, lambda: signal.getitimer(signal.ITIMER_PROF)[0]) > 0
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    with pytest.raises(TimeLimitExceeded):
        run_with_limit(0.1, _for_ever)
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_a_shortcut_within_limited_work_leaves_its_alarm_to_it() -> None:
    with pytest.raises(TimeLimitExceeded):
        run_with_limit(0.1, shortcut, lambda _: _for_ever(), 0)
    assert not shortcut(lambda _: _for_ever(), 0)


def test_a_match_that_would_take_long_is_not_begun() -> None:
    with pytest.raises(TimeLimitExceeded):
        compiled(r"\pL{250}$").search("é" * 50_000)


def test_work_in_another_thread_is_not_limited() -> None:
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(run_with_limit(1.0, lambda: 1)))
    thread.start()
    thread.join()
    assert answers == [1]


def _for_ever() -> bool:
    while True:
        pass
