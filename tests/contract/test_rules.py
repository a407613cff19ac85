"""Validation rules of custom kinds (CEL): their answers on create and update, and the paths of their errors."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import CRDS
from tests.contract.bodies import definition, thing, things
from tests.contract.session import Session

Json = Any


def ruled(*rules: Json, **properties: Json) -> Json:
    """A schema with rules on the whole `spec`."""
    given = properties or {"size": {"type": "integer"}, "max": {"type": "integer"}}
    return {"type": "object", "properties": given, "x-kubernetes-validations": list(rules)}


def size(**rule: Json) -> Json:
    """A schema with a rule on `spec.size`."""
    return {"type": "object", "properties": {"size": {"type": "integer", "x-kubernetes-validations": [rule]}}}


async def test_a_rule_is_evaluated_on_create_and_update(s: Session) -> None:
    await s.define(definition(s.group, size(rule="self < 5", message="too large")))
    await s.create(thing(s.group, "t", size=7))
    await s.create(thing(s.group, "t", size=3))
    await s.patch(things(s.group), "t", {"spec": {"size": 9}})
    await s.patch(things(s.group), "t", {"spec": {"size": 4}})
    await s.replace(thing(s.group, "t", size=8) | {"metadata": {"name": "t"}})


async def test_the_error_of_a_rule_over_two_fields_names_the_object(s: Session) -> None:
    await s.define(definition(s.group, ruled({"rule": "!has(self.max) || self.size <= self.max"})))
    await s.create(thing(s.group, "a", size=3, max=2))
    await s.create(thing(s.group, "b", size=3))
    await s.create(thing(s.group, "c", max=3))


async def test_a_transition_rule_is_not_evaluated_on_create(s: Session) -> None:
    await s.define(definition(s.group, size(rule="self >= oldSelf", message="must not shrink")))
    await s.create(thing(s.group, "t", size=3))
    await s.patch(things(s.group), "t", {"spec": {"size": 2}})
    await s.patch(things(s.group), "t", {"spec": {"size": 4}})
    await s.patch(things(s.group), "t", {"spec": {"size": None}})
    await s.patch(things(s.group), "t", {"spec": {"size": 1}})


async def test_a_transition_rule_with_optional_old_self_is_evaluated_on_create(s: Session) -> None:
    rule = {"rule": "oldSelf.hasValue() || self == 0", "optionalOldSelf": True, "message": "starts at 0"}
    await s.define(definition(s.group, size(**rule)))
    await s.create(thing(s.group, "t", size=3))
    await s.create(thing(s.group, "t", size=0))
    await s.patch(things(s.group), "t", {"spec": {"size": 4}})


@pytest.mark.parametrize("reason", ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired"])
async def test_the_reason_of_a_rule_is_the_reason_of_its_error(s: Session, reason: str) -> None:
    await s.define(definition(s.group, size(rule="self < 5", message="no", reason=reason)))
    await s.create(thing(s.group, "t", size=7))


async def test_a_message_expression_that_fails_falls_back_to_the_message(s: Session) -> None:
    good = {"rule": "self.size < 5", "messageExpression": "self.size > 6 ? 'much too large' : 'too large'"}
    bad = {"rule": "self.size < 5", "message": "fixed", "messageExpression": "1 / (self.size - 7) > 0 ? 'a' : 'b'"}
    await s.define(definition(s.group, ruled(good, bad)))
    await s.create(thing(s.group, "t", size=7))


async def test_a_field_path_sets_the_path_of_the_error(s: Session) -> None:
    await s.define(definition(s.group, ruled({"rule": "self.size < 5", "message": "no", "fieldPath": ".size"})))
    await s.create(thing(s.group, "t", size=7))


async def test_the_error_of_a_rule_on_items_names_the_item(s: Session) -> None:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}, "port": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.port > 0", "message": "no port"}],
    }
    ports = {"type": "array", "maxItems": 4, "items": item}
    labels = {
        "type": "object",
        "maxProperties": 4,
        "additionalProperties": {
            "type": "string",
            "maxLength": 9,
            "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "bad value"}],
        },
    }
    await s.define(definition(s.group, ruled({"rule": "true"}, ports=ports, labels=labels)))
    await s.create(thing(s.group, "t", ports=[{"name": "a", "port": 1}, {"name": "b", "port": 0}]))
    await s.create(thing(s.group, "u", labels={"x": "good", "y": "bad"}))
    await s.create(thing(s.group, "v", ports=[{"name": "a"}]))


async def test_rules_see_defaulted_values(s: Session) -> None:
    schema = ruled({"rule": "self.size == 3"}, size={"type": "integer", "default": 3})
    await s.define(definition(s.group, schema))
    await s.create(thing(s.group, "t"))


async def test_rules_are_not_evaluated_on_values_of_a_wrong_type(s: Session) -> None:
    await s.define(definition(s.group, ruled({"rule": "self.size < 5"}, size={"type": "integer", "maximum": 6})))
    await s.create(thing(s.group, "t", size="x"))
    await s.create(thing(s.group, "t", size=9))


async def test_an_unchanged_value_may_break_a_new_rule(s: Session) -> None:
    """A rule that is added to a definition does not lock existing objects."""
    loose, tight = (definition(s.group, size(rule=rule, message="no")) for rule in ("self < 9", "self < 3"))
    await s.define(loose)
    await s.create(thing(s.group, "t", size=7), silent=True)
    versions = {"spec": {"versions": tight["spec"]["versions"]}}
    await s.patch(CRDS, f"things.{s.group}", versions, silent=True)

    async def applied() -> bool:
        return (await s.create(thing(s.group, "u", size=7), dryRun="All", silent=True)).status == 422

    await s.until(applied)
    await s.patch(things(s.group), "t", {"metadata": {"labels": {"a": "b"}}}, differs="ratchet-warnings")
    await s.patch(things(s.group), "t", {"spec": {"size": 8}})
    await s.patch(things(s.group), "t", {"spec": {"size": 2}})


@pytest.mark.parametrize(
    "case",
    [
        {"rule": "self +", "differs": "cel-words"},
        {"rule": "self.none > 1", "differs": "cel-types"},
        {"rule": "unknown > 1"},
        {"rule": "self.size", "differs": "cel-types"},
        {"rule": "self.size > 'a'", "differs": "cel-types"},
        {"rule": ""},
        {"rule": "isSemver('1.2.3')", "differs": "cel-library"},
        {"rule": "[1, 2].sortBy(x, -x)[0] == 2", "differs": "cel-library"},
    ],
    ids=lambda case: case["rule"] or "empty",
)
async def test_definitions_with_rules_that_do_not_compile_are_refused(s: Session, case: Json) -> None:
    body = definition(s.group, ruled({"rule": case["rule"]}))
    await s.ask("POST", CRDS.path(), body, dryRun="All", differs=case.get("differs", ""))


PRINTED = (
    "'%s %s %s'.format([self.a, self.s, self.f])",
    "'%d 100%%'.format([self.a])",
    "'%f %.2f %.0f'.format([self.f, self.f, self.f])",
    "'%e'.format([self.f])",
    "'%b %b %o'.format([self.a, true, self.a])",
    "'%x %X %x %x'.format([self.a, self.s, b'ab', -255])",
    "'%s %s'.format([self.l, self.m])",
    "'%s'.format([[1, 2.5, true, 'x', null]])",
    "'%s %s %s'.format([duration('90s'), timestamp('2026-01-01T00:00:00.5Z'), type(self.a)])",
    "'%s %s %s'.format([null, 1.5e30, -0.1])",
)


async def test_a_message_expression_formats_values(s: Session) -> None:
    fields: Json = {
        "a": {"type": "integer"},
        "s": {"type": "string"},
        "f": {"type": "number"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    rules = {
        f"r{index}": {
            "type": "object",
            "properties": fields,
            "x-kubernetes-validations": [{"rule": "false", "messageExpression": text}],
        }
        for index, text in enumerate(PRINTED)
    }
    await s.define(definition(s.group, {"type": "object", "properties": rules}))
    value = {"a": 11, "s": "ab", "f": 1234.5, "l": [1, 2], "m": {"y": "1", "x": "2"}}
    for name in rules:
        await s.create(thing(s.group, **{name: value}))
