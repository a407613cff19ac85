"""The JSONPath that printer columns use: `.spec.a`, `['a.b']`, `[0]`, `[*]`, `[?(@.type=="Ready")].status`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from job_controller.json_tree import Json

# Each space matches in one way only, which prevents exponential backtracking on long runs of spaces.
_STEP = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\])+)
      | \[(?P<index>-?\d+)\]
      | \[(?P<star>\*)\]
      | \[(?P<quote>['"])(?P<key>.*?)(?P=quote)\]
      | \[\?\(@(?P<left>[^=!<>)]*)(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<right>(?:'[^']*'|"[^"]*")\s*|[^)'"\s][^)'"]*))?\)\]
    """,
    re.VERBOSE,
)
Step = Callable[[Json], Iterable[Json]]
Path = tuple[Step, ...]


def compile_path(text: str) -> Path:
    """The steps of a path. Raises ValueError if the text is not a path."""
    steps: list[Step] = []
    at = 0
    text = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise ValueError(f"unrecognized JSONPath at {text[at:]!r}")
        steps.append(_step(match))
        at = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return _at(int(match["index"]))
    if match["star"] or match["name"] == "*":
        return lambda value: value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if match["left"] is not None:
        return _filter(compile_path(match["left"]), match["op"], match["right"])
    return _named(match["key"] if match["key"] is not None else re.sub(r"\\(.)", r"\1", match["name"]))


def _named(name: str) -> Step:
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _at(index: int) -> Step:
    return lambda value: (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def _filter(path: Path, operator: str | None, right: str | None) -> Step:
    wanted = _literal(right) if right is not None else None

    def keep(value: Json) -> Iterable[Json]:
        for item in value if isinstance(value, list) else ():
            found = find(path, item)
            if operator is None:
                if found:
                    yield item
            elif found and type(found[0]) is type(wanted) and _COMPARE[operator](found[0], wanted):
                yield item

    return keep


def _literal(text: str) -> Any:
    text = text.rstrip()
    if text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    return float(text) if "." in text else int(text)


def find(path: Path, value: Json) -> list[Json]:
    """All values at a path."""
    found = [value]
    for step in path:
        found = [below for item in found for below in step(item)]
    return found
