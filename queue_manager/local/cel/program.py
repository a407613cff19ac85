"""The Common Expression Language: compiles trees to functions of their variables.

&& and || are commutative: an error on one side is ignored if the other side decides the result. all() and exists() are
such chains. Every step of a comprehension is counted against a budget, so that no rule can block the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from queue_manager.local.cel.cel_values import NONE, CelError, Fields, Optional, OutOfBudget, no_overload
from queue_manager.local.cel.library import CONSTANTS, FUNCTIONS, METHODS, NAMESPACED
from queue_manager.local.cel.parser import Node, SyntaxProblem, parse
from queue_manager.local.cel.typed_values import descend, field, item, pairs, raw

MAX_STEPS = 1_000_000  # of all comprehensions of one validation
STEP_TEXT = 100  # characters, or items of a list, that cost as much as a step

_ESCAPED = {"__dot__": ".", "__dash__": "-", "__slash__": "/", "__underscores__": "__"}
_KEYWORDS = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function")
) | {*("if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while")}


class Scope(dict[str, Any]):
    """The variables of an evaluation. `budget` is shared by all scopes of a validation."""

    __slots__ = ("budget",)

    def __init__(self, variables: dict[str, Any], budget: list[int]) -> None:
        super().__init__(variables)
        self.budget = budget

    def step(self) -> None:
        """Charge the budget for one step. Raises OutOfBudget."""
        self.budget[0] -= 1
        if self.budget[0] < 0:
            raise OutOfBudget

    def pay_for(self, length: int) -> None:
        """Charge the budget for a text or list, which bounds memory to `MAX_STEPS` * `STEP_TEXT` per validation."""
        self.budget[0] -= length // STEP_TEXT
        if self.budget[0] < 0:
            raise OutOfBudget


Program = Callable[[Scope], Any]
REMEMBERED = 1024  # characters of a text whose program is kept
_MACROS = ("all", "exists", "exists_one", "existsOne", "map", "filter", "optMap", "optFlatMap")


def compile_text(text: str, variables: Iterable[str]) -> Program:
    """A function of a Scope with these variables. Raises SyntaxProblem."""
    known = frozenset(variables)
    try:
        return _remembered(text, known) if len(text) <= REMEMBERED else _compile(parse(text), known)
    except RecursionError:
        raise SyntaxProblem("expression recursion limit exceeded", 0) from None


@lru_cache(maxsize=256)
def _remembered(text: str, known: frozenset[str]) -> Program:
    """Compile with a cache: a definition is compiled once for validation and again when it is installed."""
    return _compile(parse(text), known)


def _compile(node: Node, known: frozenset[str]) -> Program:
    match node:
        case ("lit", value):
            return lambda scope: value
        case ("id", name):
            return _identifier(name, known)
        case ("sel", of, name, optional):
            return _select(node, of, name, optional, known)
        case ("has", of, name):
            return _has(of, _plain_name(name), known)
        case ("idx", of, index, optional):
            return _index(_compile(of, known), _compile(index, known), optional)
        case ("list", items):
            parts = [_compile(part, known) for part in items]
            return lambda scope: [part(scope) for part in parts]
        case ("map", entries):
            both = [(_compile(key, known), _compile(value, known)) for key, value in entries]
            return lambda scope: {key(scope): value(scope) for key, value in both}
        case ("cond", test, yes, no):
            return _conditional(_compile(test, known), _compile(yes, known), _compile(no, known))
        case ("and", left, right):
            return _either(left, right, known, False)
        case ("or", left, right):
            return _either(left, right, known, True)
        case ("call", name, of, arguments):
            return _call(name, of, arguments, known)
    raise SyntaxProblem(f"unexpected {node[0]}", 0)


def _identifier(name: str, known: frozenset[str]) -> Program:
    if name in known:
        return lambda scope: scope[name]
    if name in CONSTANTS:
        constant = CONSTANTS[name]
        return lambda scope: constant
    raise SyntaxProblem(f"undeclared reference to '{name}' (in container '')", 0)


def _plain_name(name: str) -> str:
    """The field name in the object, without the escapes that CEL identifiers need."""
    if "__" not in name:
        return name
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    out, at = "", 0
    while at < len(name):
        code = next((code for code in _ESCAPED if name.startswith(code, at)), "")
        out += _ESCAPED[code] if code else name[at]
        at += len(code) or 1
    return out


def _get(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        if name not in value:
            raise CelError(f"no such key: {name}")
        return field(value, name)
    raise no_overload()


def _chain(node: Node, known: frozenset[str]) -> tuple[str, tuple[str, ...]] | None:
    """`variable.a.b` as the variable and its fields; None for any other expression."""
    names: list[str] = []
    while node[0] == "sel" and not node[3]:
        names.append(_plain_name(node[2]))
        node = node[1]
    return (node[1], tuple(reversed(names))) if node[0] == "id" and node[1] in known else None


def _select(node: Node, of: Node, name: str, optional: bool, known: frozenset[str]) -> Program:
    dotted = f"{of[1]}.{name}" if of[0] == "id" and of[1] not in known else ""
    if dotted in CONSTANTS:
        constant = CONSTANTS[dotted]
        return lambda scope: constant
    inner, name = _compile(of, known), _plain_name(name)

    def select(scope: Scope) -> Any:
        value = inner(scope)
        if isinstance(value, Optional):
            if not value.present or (isinstance(value.value, dict) and name not in value.value):
                return NONE
            return Optional(True, _get(value.value, name))
        if optional:
            return Optional(True, field(value, name)) if isinstance(value, dict) and name in value else NONE
        return _get(value, name)

    chain = _chain(node, known)
    return select if chain is None else _select_chain(*chain, select)


def _select_chain(variable: str, names: tuple[str, ...], one_by_one: Program) -> Program:
    def select(scope: Scope) -> Any:
        value = scope[variable]
        return descend(value, names) if isinstance(value, Fields) else one_by_one(scope)

    return select


def _has(of: Node, name: str, known: frozenset[str]) -> Program:
    inner, chain = _compile(of, known), _chain(of, known)

    def has(scope: Scope) -> bool:
        value = scope[chain[0]] if chain is not None else None
        value = raw(value, chain[1]) if chain is not None and isinstance(value, Fields) else inner(scope)
        if isinstance(value, Optional):
            return value.present and name in value.value
        if not isinstance(value, dict):
            raise no_overload()
        return name in value and value[name] is not None

    return has


def _index(inner: Program, index: Program, optional: bool) -> Program:
    def at(scope: Scope) -> Any:
        value, key = inner(scope), index(scope)
        if isinstance(value, Optional):
            if not value.present:
                return NONE
            return _optional(value.value, key)
        return _optional(value, key) if optional else _item(value, key)

    return at


def _optional(value: Any, key: Any) -> Optional:
    try:
        return Optional(True, _item(value, key))
    except CelError:
        return NONE


def _item(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(key, list | dict) or key not in value:
            raise CelError(f"no such key: {key}")
        return field(value, key)
    if not isinstance(value, list) or not isinstance(key, int | float) or isinstance(key, bool):
        raise no_overload()
    if not 0 <= key < len(value):
        raise CelError(f"index out of bounds: {key}")
    return item(value, int(key))


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise no_overload()
    return value


def _conditional(test: Program, yes: Program, no: Program) -> Program:
    return lambda scope: yes(scope) if _boolean(test(scope)) else no(scope)


def _either(left: Node, right: Node, known: frozenset[str], decides: bool) -> Program:
    """`&&` and `||`. Either side may decide, even if the other fails, so a side without a loop is evaluated first."""
    logic = _logic(_compile(left, known), plain := _compile(right, known), decides)
    if not _loops(left) or _loops(right):
        return logic

    def plain_first(scope: Scope) -> Any:
        try:
            if plain(scope) is decides:
                return decides
        except CelError:
            pass
        return logic(scope)

    return plain_first


def _loops(node: Any) -> bool:
    """Whether an expression contains a comprehension macro."""
    if not isinstance(node, tuple | list):
        return False
    if len(node) == 4 and node[0] == "call" and node[1] in _MACROS:
        return True
    return any(_loops(part) for part in node)


def _logic(left: Program, right: Program, decides: bool) -> Program:
    def logic(scope: Scope) -> bool:
        try:
            if _boolean(left(scope)) is decides:
                return decides
        except CelError as error:
            if _boolean(right(scope)) is decides:
                return decides
            raise error from None
        return _boolean(right(scope))

    return logic


# --- calls ---------------------------------------------------------------------------------------------------


def _call(name: str, of: Node | None, arguments: list[Node], known: frozenset[str]) -> Program:
    if of is not None and name in _MACROS and len(arguments) >= 2 and arguments[0][0] == "id":
        return _macro(name, of, arguments, known)
    if of is not None and of[0] == "id" and of[1] not in known and f"{of[1]}.{name}" in NAMESPACED:
        return _apply(NAMESPACED[f"{of[1]}.{name}"], [_compile(part, known) for part in arguments])
    parts = [_compile(part, known) for part in ([of, *arguments] if of is not None else arguments)]
    function = (METHODS if of is not None else FUNCTIONS).get(name)
    if function is None:
        raise SyntaxProblem(f"undeclared reference to '{name}' (in container '')", 0)
    return _apply(function, parts)


def _apply(function: Callable[..., Any], parts: list[Program]) -> Program:
    def apply(scope: Scope) -> Any:
        scope.step()
        try:
            result = function(*[part(scope) for part in parts])
        except (TypeError, AttributeError):
            raise no_overload() from None
        except (OverflowError, ValueError, OSError) as error:  # times, numbers and texts beyond what can be computed
            raise CelError("range") from error
        if isinstance(result, str | bytes | list) and len(result) >= STEP_TEXT:
            scope.pay_for(len(result))
        return result

    return apply


def _macro(name: str, of: Node, arguments: list[Node], known: frozenset[str]) -> Program:
    count = 2 if len(arguments) > 2 and arguments[1][0] == "id" and name in _MACROS[:4] else 1
    variables = [str(node[1]) for node in arguments[:count]]
    inner = known | set(variables)
    over, bodies = _compile(of, known), [_compile(node, inner) for node in arguments[count:]]
    if name in ("optMap", "optFlatMap"):
        return _optional_map(over, variables[0], bodies[0], name == "optFlatMap")

    def scopes(scope: Scope) -> Iterator[tuple[Scope, Any]]:
        value = over(scope)
        if not isinstance(value, list | dict):
            raise no_overload()
        below = Scope(scope, scope.budget)
        for key, one in pairs(value):
            scope.step()
            if count == 2:
                below[variables[0]], below[variables[1]] = key, one
            else:
                below[variables[0]] = key if isinstance(value, dict) else one
            yield below, below[variables[0]]

    return _COMPREHENSIONS[name](scopes, bodies)


_Scopes = Callable[[Scope], Iterator[tuple[Scope, Any]]]


def _quantified(decides: bool) -> Callable[[_Scopes, list[Program]], Program]:
    def build(scopes: _Scopes, bodies: list[Program]) -> Program:
        def run(scope: Scope) -> bool:
            failed: CelError | None = None
            for below, _ in scopes(scope):
                try:
                    if _boolean(bodies[0](below)) is decides:
                        return decides
                except CelError as error:
                    failed = error
            if failed is not None:
                raise failed
            return not decides

        return run

    return build


def _one(scopes: _Scopes, bodies: list[Program]) -> Program:
    return lambda scope: sum(_boolean(bodies[0](below)) for below, _ in scopes(scope)) == 1


def _filter(scopes: _Scopes, bodies: list[Program]) -> Program:
    return lambda scope: [one for below, one in scopes(scope) if _boolean(bodies[0](below))]


def _map(scopes: _Scopes, bodies: list[Program]) -> Program:
    if len(bodies) == 1:
        return lambda scope: [bodies[0](below) for below, _ in scopes(scope)]
    return lambda scope: [bodies[1](below) for below, _ in scopes(scope) if _boolean(bodies[0](below))]


_COMPREHENSIONS: dict[str, Callable[[_Scopes, list[Program]], Program]] = {
    "all": _quantified(False),
    "exists": _quantified(True),
    "exists_one": _one,
    "existsOne": _one,
    "filter": _filter,
    "map": _map,
}


def _optional_map(over: Program, variable: str, body: Program, flat: bool) -> Program:
    def run(scope: Scope) -> Any:
        value = over(scope)
        if not isinstance(value, Optional):
            raise no_overload()
        if not value.present:
            return NONE
        below = Scope(scope, scope.budget)
        below[variable] = value.value
        found = body(below)
        return found if flat else Optional(True, found)

    return run
