"""Validation rules: transition rules, messages, reasons, and the paths of errors."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.local.cel import program as cel_program
from queue_manager.local.cel.compiled_rules import CompiledRules, problems
from queue_manager.local.cel.parser import SyntaxProblem


def schema(type_: str = "object", /, **rule: Any) -> Any:
    inner = {"type": "integer"} if type_ == "object" else {"type": type_}
    return {"type": "object", "properties": {"size": {**inner, "x-kubernetes-validations": [rule]}}}


def messages(rules: Any, new: Any, *old: Any) -> list[tuple[str, str]]:
    return [(error.field, error.message) for error in CompiledRules(rules).check(new, *old)]


def test_a_transition_rule_is_evaluated_only_on_updates() -> None:
    rules = schema(rule="self >= oldSelf", message="must not shrink")
    assert messages(rules, {"size": 1}) == []
    assert messages(rules, {"size": 1}, {}) == []
    assert messages(rules, {"size": 1}, {"size": 2}) == [("size", "Invalid value: 1: must not shrink")]


def test_a_transition_rule_with_optional_old_self_is_evaluated_on_create() -> None:
    rules = schema(rule="oldSelf.hasValue() || self == 0", optionalOldSelf=True, message="starts at 0")
    assert messages(rules, {"size": 1}) == [("size", "Invalid value: 1: starts at 0")]
    assert messages(rules, {"size": 1}, {"size": 0}) == []


def test_an_unchanged_value_may_break_a_rule() -> None:
    rules = schema(rule="self > 5")
    assert messages(rules, {"size": 1}, {"size": 1}) == []
    assert messages(rules, {"size": 2}, {"size": 1}) == [("size", "Invalid value: 2: failed rule: self > 5")]


def test_a_transition_rule_compares_list_items_of_the_same_key() -> None:
    """Wherever the item is in the list; an item with a new key has no old value."""
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]}
    one = {"type": "object", "properties": {name: {"type": "integer"} for name in "abn"}}
    rule = {"rule": "self.n >= oldSelf.n", "message": "must not shrink"}
    rules = {"type": "array", "items": {**one, "x-kubernetes-validations": [rule]}, **keys}
    old = [{"a": 1, "b": 1, "n": 5}, {"a": 1, "b": 2, "n": 2}]
    assert messages(rules, [{"a": 1, "b": 2, "n": 3}, {"a": 2, "b": 1, "n": 0}, {"a": 1, "b": 1, "n": 5}], old) == []
    assert [field for field, _ in messages(rules, [{"a": 1, "b": 2, "n": 3}, {"a": 1, "b": 1, "n": 4}], old)] == ["[1]"]
    assert messages({**rules, "x-kubernetes-list-type": "atomic"}, [{"a": 1, "b": 1, "n": 4}], old) == []


def test_a_message_expression_takes_precedence_over_the_message() -> None:
    rules = schema(rule="self > 5", message="too small", messageExpression="'is ' + string(self)")
    assert messages(rules, {"size": 1}) == [("size", "Invalid value: 1: is 1")]
    broken = schema(rule="self > 5", message="too small", messageExpression="string(self / 0)")
    assert messages(broken, {"size": 1}) == [("size", "Invalid value: 1: too small")]


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("FieldValueForbidden", "Forbidden: no"),
        ("FieldValueRequired", "Required value: no"),
        ("FieldValueDuplicate", "Duplicate value: 1"),
        ("FieldValueInvalid", "Invalid value: 1: no"),
    ],
)
def test_a_rule_names_the_reason(reason: str, message: str) -> None:
    assert messages(schema(rule="false", message="no", reason=reason), {"size": 1}) == [("size", message)]


def test_a_field_path_sets_the_path_of_the_error() -> None:
    rule = {"rule": "false", "message": "no", "fieldPath": ".spec.size"}
    assert messages({"type": "object", "x-kubernetes-validations": [rule]}, {}) == [("spec.size", "Invalid value: no")]


def test_a_rule_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_manager.local.cel.compiled_rules.MAX_STEPS", 1000)
    rule = {"rule": "self.all(a, self.all(b, self.all(c, true)))"}
    rules = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [rule]}
    (error,) = CompiledRules(rules).check(list(range(50)))
    assert "running out of cost budget" in error.message


DOUBLED = ".map(x, x + x + x + x)" * 12


@pytest.mark.parametrize(
    "rule",
    [
        f"self{DOUBLED}.size() > 0",
        f"[self]{DOUBLED}.size() > 0",
        "self[0].replace('', self[0]).size() > 0",
        "self.map(a, self[0]).join(self[0]).size() > 0",
    ],
)
def test_a_rule_that_doubles_a_text_is_stopped_by_its_cost(rule: str) -> None:
    rules = {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [{"rule": rule}]}
    (error,) = CompiledRules(rules).check(["x" * 100_000] * 100)
    assert "running out of cost budget" in error.message


@pytest.mark.parametrize("text", ["self +", "unknown > 1", "self.foo(", "has(self)", "nope(self)", "'a", "1 ++"])
def test_a_definition_whose_rule_does_not_compile_is_refused(text: str) -> None:
    (problem,) = problems({"x-kubernetes-validations": [{"rule": text}]}, "schema")
    assert problem.field == "schema.x-kubernetes-validations[0].rule"
    assert "compilation failed: ERROR: <input>:1:" in problem.message
    with pytest.raises(SyntaxProblem):
        cel_program.compile_text(text, ("self", "oldSelf"))


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("duration(self) > duration('1s')", "9" * 400 + "h"),
        ("duration(self) > duration('1s')", "99999999999999h"),
        ("timestamp(self) + duration('10h') > timestamp(0)", "9999-12-31T23:59:59Z"),
        ("timestamp(self).getFullYear() > 1", "0001-01-01T00:00:00+23:00"),
        ("timestamp(int(self)) > timestamp(0)", "9" * 18),
        ("url(self).getHost() != ''", "http://[:"),
    ],
)
def test_a_value_that_overflows_breaks_only_its_rule(rule: str, value: str) -> None:
    ((field, message),) = messages(schema("string", rule=rule), {"size": value})
    assert (field, "evaluating rule" in message) == ("size", True)
    assert messages(schema("string", rule=f"{rule} || true"), {"size": value}) == []


@pytest.mark.parametrize(
    "rule", ["9" * 5000 + " > 1", r"'\U00110000' == self", "true && " * 20_000 + "true", "(" * 400 + "true" + ")" * 400]
)
def test_a_rule_nested_too_deeply_is_refused(rule: str) -> None:
    refused = problems({"x-kubernetes-validations": [{"rule": rule}]}, "schema")
    assert ["compilation failed" in error.message for error in refused] == [True]
