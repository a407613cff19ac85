"""Bounds on the work for one object, whatever its definition says: other requests are not held up."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import signal
import sys
import threading
from typing import Any

import pytest

from queue_manager.local.kinds.kind import Kind
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.schema.cpu_time_limits import TimeLimitExceeded, run_with_limit, shortcut
from queue_manager.local.schema.patterns import compiled
from queue_manager.local.status_errors import StatusError
from tests.local.kinds.crd import THINGS

EXPONENTIAL_PATTERN = "^(a+)+$"
ABSENT = "absent_module"
COST_EXCEEDED = "running out of cost budget"


def definition(spec: dict[str, Any]) -> dict[str, Any]:
    (version,) = THINGS["spec"]["versions"]
    schema = {"type": "object", "properties": {"spec": {"type": "object"} | spec}}
    return THINGS | {"spec": THINGS["spec"] | {"versions": [version | {"schema": {"openAPIV3Schema": schema}}]}}


def kind(spec: dict[str, Any]) -> Kind:
    return KindRegistry.builtin().install(definition(spec))[0]


def rules(*texts: str) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": text} for text in texts]}


def refusals(kind: Kind, spec: dict[str, Any]) -> str:
    """The errors of an object, from whichever step refuses it."""
    tree = {"apiVersion": "demo.example.com/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "n"}}
    tree["spec"] = spec
    try:
        kind.schema.check(tree)
    except StatusError as error:
        return error.message
    kind.prepare_create(tree)
    return " ".join(map(str, kind.validate_create(tree)))


def test_an_exponential_pattern_is_matched_in_linear_time() -> None:
    things = kind({"properties": {"text": {"type": "string", "pattern": EXPONENTIAL_PATTERN}}})
    assert refusals(things, {"text": "a" * 50}) == ""
    assert f"should match '{EXPONENTIAL_PATTERN}'" in refusals(things, {"text": "a" * 50 + "!"})
    things = kind({"properties": {"text": {"type": "string"}}, **rules(f"!self.text.matches('{EXPONENTIAL_PATTERN}')")})
    assert refusals(things, {"text": "a" * 50 + "!"}) == ""


def test_a_rule_with_expensive_steps_is_stopped() -> None:
    properties = {"items": {"type": "array", "items": {"type": "integer"}}}
    things = kind({"properties": properties, **rules("self.items.all(x, x in self.items)")})
    assert COST_EXCEEDED in refusals(things, {"items": list(range(20_000))})


def test_the_timer_is_cancelled_when_the_work_ends() -> None:
    assert run_with_limit(1.0, lambda: signal.getitimer(signal.ITIMER_PROF)[0]) > 0
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    with pytest.raises(TimeLimitExceeded):
        run_with_limit(0.1, _without_end)
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_a_shortcut_within_limited_work_keeps_the_outer_timer() -> None:
    with pytest.raises(TimeLimitExceeded):
        run_with_limit(0.1, shortcut, lambda _: _without_end(), 0)
    assert not shortcut(lambda _: _without_end(), 0)


def test_a_match_that_would_take_long_is_refused() -> None:
    with pytest.raises(TimeLimitExceeded):
        compiled(r"\pL{250}$").search("é" * 50_000)


def test_work_in_another_thread_is_not_limited() -> None:
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(run_with_limit(1.0, lambda: 1)))
    thread.start()
    thread.join()
    assert answers == [1]


def test_an_import_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception there can keep the lock of the import system, so that no other thread imports anything any more."""
    ended: list[str] = []

    class Alarm(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            signal.raise_signal(signal.SIGPROF)
            ended.append(name)

    def imports() -> None:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(ABSENT)
        _without_end()

    monkeypatch.setattr(sys, "meta_path", [Alarm()])
    with pytest.raises(TimeLimitExceeded):
        run_with_limit(0.05, imports)
    assert ended == [ABSENT]


def _without_end() -> bool:
    while True:
        pass
