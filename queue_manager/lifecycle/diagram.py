"""The phases of a Workload and the arrows between them, as LIFECYCLE.md shows them.

The arrows are not written by hand: every move of `state_space` is played from a new Workload on, in all states that
can be reached, and each move that changes the phase is an arrow. `jobs.lifecycle_page` renders the page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from queue_manager.api import condition_types
from queue_manager.api.types import Workload
from queue_manager.lifecycle.rules import RULES, Rule
from queue_manager.lifecycle.state_space import MOVES, PHASES, LifeState, new_life, phase, step

FILE = Path(__file__).with_name("LIFECYCLE.md")
SHOWN = (
    condition_types.FINISHED,
    condition_types.EVICTED,
    condition_types.REQUEUED,
    condition_types.QUOTA_RESERVED,
    condition_types.ADMITTED,
)


class Arrow(NamedTuple):
    """A change of phase. `rule` is the lifecycle rule that makes it, or the key in `MOVES` of another actor's move."""

    before: str
    after: str
    rule: str
    change: str


@cache
def arrows() -> tuple[Arrow, ...]:
    """Every change of phase that is possible, in the order of the phases."""
    found: dict[Arrow, None] = {}
    todo = deque([new_life(), new_life(("check",))])
    seen = {_outline(life) for life in todo}
    while todo:
        life = todo.popleft()
        for move, after in _moves(life):
            if phase(life.workload) != phase(after.workload):
                found[_arrow(life, move, after)] = None
            if _outline(after) not in seen:
                seen.add(_outline(after))
                todo.append(after)
    return tuple(sorted(found, key=lambda arrow: (_rank(arrow.before), _rank(arrow.after), *arrow[2:])))


def _moves(life: LifeState) -> Iterator[tuple[str, LifeState]]:
    """Each possible move, "" for a step of the lifecycle rules, and the state after it."""
    due = _due(life)
    own = step(due)
    if own is not None:
        yield "", own
    for name, move in MOVES.items():
        after = move(life)
        if after is not None:
            yield name, after


def _due(life: LifeState) -> LifeState:
    """The state at the time of the next step: now, or when a wait ends."""
    after = step(life)
    return after if after is not None and after.workload is life.workload else life


def _arrow(life: LifeState, move: str, after: LifeState) -> Arrow:
    before, now = phase(life.workload), phase(after.workload)
    if move:
        return Arrow(before, now, move, "")
    return Arrow(before, now, deciding_rule(_due(life)).__name__, changed_condition(life.workload, after.workload))


def deciding_rule(life: LifeState) -> Rule:
    """The lifecycle rule that gives the next step. Raises StopIteration if none does."""
    return next(rule for rule in RULES if rule(life.workload, life.context, life.settings, life.now) is not None)


def changed_condition(before: Workload, after: Workload) -> str:
    """Describe a write by the most important condition that it changes, such as `Evicted=True`."""
    if before.spec.active != after.spec.active:
        target = before.condition(condition_types.DEACTIVATION_TARGET)
        return f"DeactivationTarget {target.reason}" if target is not None else "spec.active"
    for name in SHOWN:
        old, new = before.condition(name), after.condition(name)
        if new is not None and (old is None or (old.status, old.reason) != (new.status, new.reason)):
            return f"{name} {new.reason}" if new.is_true else f"{name}=False {new.reason}"
    return ""


def _outline(life: LifeState) -> tuple[object, ...]:
    """Return a key of the state that decides which moves are possible next; times and messages are left out."""
    w = life.workload
    state = w.status.requeue_state
    at = state.requeue_at if state is not None else None
    return (
        w.spec.active,
        frozenset((c.type, c.status, c.reason) for c in w.status.conditions),
        (state.count or 0) if state is not None else 0,
        at is not None and life.now < at,
        at is not None,
        tuple(check.state for check in w.status.admission_checks),
        (w.status.accumulated_past_execution_time_seconds or 0) >= 3600,
        life.context.cluster_queue_stop,
        life.context.checks,
        life.job_runs,
    )


def _rank(name: str) -> int:
    return len(PHASES) - [each for each, _, _ in PHASES].index(name)


def place(function: Callable[..., object]) -> str:
    """File and name of a rule, as the page prints them."""
    module = function.__module__.removeprefix("queue_manager.").replace(".", "/")
    return f"{module}.py {function.__name__.strip('_')}"


def phase_table() -> list[str]:
    """The phases with their meaning, as lines of Markdown."""
    return ["| phase | |", "|---|---|", *(f"| {name} | {meaning} |" for name, meaning, _ in reversed(PHASES))]


def phase_diagram(places: dict[str, str]) -> list[str]:
    """The state diagram, as lines of Markdown.

    `places`: by move of a user, a Job or the scheduler (`state_space.MOVES`), the file and function that makes it.
    """
    rules = {rule.__name__: place(rule) for rule in RULES}
    labels: dict[tuple[str, str], dict[str, list[str]]] = {}
    for arrow in arrows():
        place_of = rules.get(arrow.rule) or f"{places[arrow.rule]}, {arrow.rule}"
        labels.setdefault((arrow.before, arrow.after), {}).setdefault(place_of, []).append(arrow.change)
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> Pending"]
    for (before, after), made in labels.items():
        label = "<br/>".join(_label(where, changes) for where, changes in made.items())
        lines.append(f"    {before} --> {after}: {label}")
    return [*lines, "    Finished --> [*]", "```"]


def _label(where: str, changes: Iterable[str]) -> str:
    text = ", ".join(filter(None, changes))
    return f"{where}, {text}" if text else where


def rule_list(rules: Iterable[Callable[..., object]]) -> list[str]:
    """Rules in their order with their docstrings, as lines of Markdown."""
    return [f"{n}. `{place(rule)}`{_meaning(rule.__doc__)}" for n, rule in enumerate(rules, 1)]


def _meaning(doc: str | None) -> str:
    return f": {' '.join(doc.split())}" if doc else ""
