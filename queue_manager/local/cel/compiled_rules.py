"""x-kubernetes-validations: the validation rules in the schema of a custom kind.

Rules are compiled once, when a definition is installed; the CEL modules are imported only then. A rule that uses
`oldSelf` is a transition rule and is evaluated only if there is an old value. A rule that fails on an unchanged value
is not an error, because the value was accepted before (ratcheting, KEP-4008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from job_controller.api_rules.field_errors import FieldError, invalid, show
from job_controller.json_tree import Json
from queue_manager.local.cel.cel_values import NONE, CelError, Optional, OutOfBudget
from queue_manager.local.cel.parser import SyntaxProblem, names_in, parse
from queue_manager.local.cel.program import MAX_STEPS, Program, Scope, compile_text
from queue_manager.local.cel.typed_values import typed
from queue_manager.local.schema.cpu_time_limits import OUT_OF_BUDGET

NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
# Schema errors that prevent the evaluation of rules, which may rely on a valid structure.
BLOCKING = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)
_MISSING: Any = object()
_MAX_MESSAGE = 5 * 1024


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A compiled rule of x-kubernetes-validations, with the message and reason of its error."""

    text: str
    program: Program
    uses_old: bool
    optional_old: bool
    message: str
    message_program: Program | None
    reason: str
    path: str

    @property
    def name(self) -> str:
        """The rule in messages: its own message, otherwise its expression."""
        return self.message or self.text


class CompiledRules:
    """The rules of a schema and of all schemas below it."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._type = schema.get("type", "")
        self._rules = [_compile(rule) for rule in schema.get("x-kubernetes-validations") or ()]
        children = {name: rules_of(child) for name, child in sorted((schema.get("properties") or {}).items())}
        self._children = {name: child for name, child in children.items() if child is not None}
        more, items = schema.get("additionalProperties"), schema.get("items")
        self._additional = rules_of(more) if isinstance(more, dict) else None
        self._item = rules_of(items) if isinstance(items, dict) else None
        self._keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self._map_type = schema.get("x-kubernetes-map-type", "")
        self._combined = [found for part in schema.get("allOf") or () if (found := rules_of(part)) is not None]

        self._below = [*self._children.values(), *filter(None, (self._additional, self._item)), *self._combined]
        self.asks_of_old: bool = any(rule.uses_old for rule in self._rules) or any(
            one.asks_of_old for one in self._below
        )

    @property
    def is_empty(self) -> bool:
        """Whether neither the schema nor a schema below it has rules."""
        return not (self._rules or self._below)

    def check(self, new: Json, old: Json = _MISSING) -> list[FieldError]:
        """The rules that an object violates. `old` is the object before the write, if it existed."""
        found: list[FieldError] = []
        try:
            self._check(new, old, "", False, [MAX_STEPS], found)
        except OutOfBudget:
            found.append(invalid("<nil>", self._type, OUT_OF_BUDGET))
        return found

    def _check(
        self, new: Json, old: Json, path: str, unchanged: bool, budget: list[int], found: list[FieldError]
    ) -> None:
        if new is None:
            return
        if old is None:
            old = _MISSING
        unchanged = unchanged or (old is not _MISSING and new == old)
        if unchanged and not self.asks_of_old:
            return
        if self._rules:
            self._ask(new, old, path, unchanged, budget, found)
        for part in self._combined:
            part._check(new, old, path, unchanged, budget, found)
        if isinstance(new, dict):
            self._check_fields(new, old, path, unchanged, budget, found)
        elif isinstance(new, list) and self._item is not None:
            before = self._items_by_key(old)
            for index, item in enumerate(new):
                was = before.get(self._key(item), _MISSING) if before else _MISSING
                self._item._check(item, was, f"{path}[{index}]", unchanged, budget, found)

    def _check_fields(
        self, new: Json, old: Json, path: str, unchanged: bool, budget: list[int], found: list[FieldError]
    ) -> None:
        before = old if isinstance(old, dict) and self._map_type != "atomic" else {}
        if self._additional is not None:
            for name, value in new.items():
                if name not in self._children:
                    was = before.get(name, _MISSING)
                    self._additional._check(value, was, f"{path}[{name}]", unchanged, budget, found)
        for name, rules in self._children.items():
            if name in new:
                below = f"{path}.{name}" if path else name
                rules._check(new[name], before.get(name, _MISSING), below, unchanged, budget, found)

    def _items_by_key(self, old: Json) -> dict[str, Json]:
        if not isinstance(old, list) or self._schema.get("x-kubernetes-list-type") != "map":
            return {}
        return {self._key(item): item for item in old}

    def _key(self, item: Json) -> str:
        return show([item.get(key) for key in self._keys]) if isinstance(item, dict) else ""

    # --- one value -------------------------------------------------------------------------------------------

    def _ask(
        self, new: Json, old: Json, path: str, unchanged: bool, budget: list[int], found: list[FieldError]
    ) -> None:
        rules = [rule for rule in self._rules if rule.uses_old] if unchanged else self._rules
        own = typed(self._schema, new)
        before = _MISSING if old is _MISSING else typed(self._schema, old)
        for rule in rules:
            if rule.uses_old and before is _MISSING and not rule.optional_old:
                continue
            old_self = before
            if rule.optional_old:
                old_self = NONE if before is _MISSING else Optional(True, before)
            scope = Scope({"self": own, "oldSelf": old_self}, budget)
            problem = self._outcome(rule, scope, new, path or "<nil>")
            if problem is not None:
                found.append(problem)

    def _outcome(self, rule: CompiledRule, scope: Scope, value: Json, path: str) -> FieldError | None:
        try:
            outcome = rule.program(scope)
        except CelError as error:
            if str(error).startswith("no such overload"):
                detail = f"'{error}': call arguments did not match a supported operator, function or macro signature"
                return invalid(path, self._type, f"{detail} for rule: {rule.name}")
            return invalid(path, self._type, f"{error} evaluating rule: {rule.name}")
        if outcome is True:
            return None
        detail = _message(rule, scope)
        at = path + rule.path if path != "<nil>" else (rule.path.removeprefix(".") or path)
        shown = "" if self._type in ("object", "array") else f"{show(value)}: "
        match rule.reason:
            case "FieldValueForbidden":
                return FieldError(rule.reason, at, f"Forbidden: {detail}")
            case "FieldValueRequired":
                return FieldError(rule.reason, at, f"Required value: {detail}")
            case "FieldValueDuplicate":
                return FieldError(rule.reason, at, f"Duplicate value: {shown.removesuffix(': ')}".strip())
        return FieldError("FieldValueInvalid", at, f"Invalid value: {shown}{detail}")


def _message(rule: CompiledRule, scope: Scope) -> str:
    if rule.message_program is not None:
        try:
            text = rule.message_program(scope)
        except CelError:
            text = ""
        text = text.strip() if isinstance(text, str) else ""
        if text and "\n" not in text and len(text) <= _MAX_MESSAGE:
            return text
    return rule.message or f"failed rule: {rule.text}"


def rules_of(schema: Json) -> CompiledRules | None:
    """The rules of a schema and of all below it; None without rules. Raises SyntaxProblem."""
    rules = CompiledRules(schema)
    return None if rules.is_empty else rules


def _compile(rule: Json) -> CompiledRule:
    text = rule["rule"].strip()
    old = "oldSelf" in names_in(parse(text))
    expression = (rule.get("messageExpression") or "").strip()
    variables = ("self", "oldSelf")
    return CompiledRule(
        text,
        compile_text(text, variables),
        old,
        bool(rule.get("optionalOldSelf")),
        (rule.get("message") or "").strip(),
        compile_text(expression, variables) if expression else None,
        rule.get("reason") or "FieldValueInvalid",
        (rule.get("fieldPath") or "").strip(),
    )


# --- definitions ---------------------------------------------------------------------------------------------


def problems(schema: Json, path: str) -> list[FieldError]:
    """Errors in the rules of a schema in a CustomResourceDefinition, at that level only."""
    found: list[FieldError] = []
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        at = f"{path}.x-kubernetes-validations[{index}]"
        for field in ("rule", "messageExpression"):
            text = (rule.get(field) or "").strip()
            if not text:
                if field == "rule":
                    found.append(
                        FieldError("FieldValueRequired", f"{at}.rule", "Required value: rule is not specified")
                    )
                continue
            try:
                compile_text(text, ("self", "oldSelf"))
            except SyntaxProblem as error:
                found.append(_uncompilable(f"{at}.{field}", rule, text, error))
    return found


def _uncompilable(path: str, rule: Json, text: str, error: SyntaxProblem) -> FieldError:
    line = text.count("\n", 0, error.at) + 1
    column = error.at - (text.rfind("\n", 0, error.at) + 1)
    source = text.splitlines()[line - 1] if text else ""
    where = f"ERROR: <input>:{line}:{column + 1}: {error}\n | {source}\n | {'.' * column}^"
    if path.endswith(".rule"):
        return FieldError("FieldValueInvalid", path, f"Invalid value: {show_rule(rule)}: compilation failed: {where}")
    return invalid(path, text, f"messageExpression compilation failed: {where}")


def show_rule(rule: Json) -> str:
    """A rule as the server's errors print it: all fields of its internal type."""
    texts = {field[0].upper() + field[1:]: rule.get(field) or "" for field in ("rule", "message", "messageExpression")}
    more = {"Reason": rule.get("reason"), "FieldPath": rule.get("fieldPath") or ""}
    return show({**texts, **more, "OptionalOldSelf": rule.get("optionalOldSelf")})
