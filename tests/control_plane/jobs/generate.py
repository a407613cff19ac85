"""Histories made up by hypothesis: any policy with any other, and whatever may happen to a Job.

What both controllers are free to do at different times is left out, so that each difference is one: waiting
for a backoff (failed pods ended long ago), deadlines that end in the middle, and two events of which one
controller may see the first alone.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.control_plane.jobs.history import History, Step, do
from tests.control_plane.jobs.meddling import MEDDLING
from tests.control_plane.jobs.themes import THEMES, Theme

SIZE = st.integers(1, 4)
MAX_STEPS = 7
CODES = st.sampled_from([1, 2, 3, 42])


def _rule() -> st.SearchStrategy[dict[str, Any]]:
    values = st.lists(CODES, min_size=1, max_size=3, unique=True).map(sorted)
    codes = st.builds(
        lambda action, operator, numbers: {
            "action": action,
            "onExitCodes": {"operator": operator, "values": numbers},
        },
        st.sampled_from(["FailJob", "Ignore", "Count", "FailIndex"]),
        st.sampled_from(["In", "In", "NotIn"]),
        values,
    )
    conditions = st.builds(
        lambda action: {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        st.sampled_from(["Ignore", "Count", "FailJob", "FailIndex"]),
    )
    return st.one_of(codes, codes, conditions)


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """A valid Job."""
    spec: dict[str, Any] = {"parallelism": draw(SIZE)}
    mode = draw(st.sampled_from(["queue", "plain", "plain", "indexed", "indexed", "perIndex", "perIndex"]))
    if mode != "queue":
        spec["completions"] = draw(st.integers(1, 5))
    if mode in ("indexed", "perIndex"):
        spec["completionMode"] = "Indexed"
        if draw(st.integers(0, 3)) == 0:
            spec["parallelism"] = spec["completions"]
    if mode == "perIndex":
        spec["backoffLimitPerIndex"] = draw(st.integers(0, 2))
        if draw(st.booleans()):
            spec["maxFailedIndexes"] = draw(st.integers(0, spec["completions"]))
    if mode != "perIndex" or draw(st.integers(0, 3)) == 0:
        spec["backoffLimit"] = draw(st.sampled_from([0, 1, 2, 3, 6]))
    if draw(st.integers(0, 2)) == 0:
        rules = draw(st.lists(_rule(), min_size=1, max_size=3))
        if mode != "perIndex":
            rules = [{**rule, "action": rule["action"].replace("FailIndex", "Count")} for rule in rules]
        spec["podFailurePolicy"] = {"rules": rules}
    elif draw(st.integers(0, 2)) == 0:
        spec["podReplacementPolicy"] = draw(st.sampled_from(["Failed", "TerminatingOrFailed"]))
    if mode in ("indexed", "perIndex") and draw(st.integers(0, 2)) == 0:
        spec["successPolicy"] = {"rules": draw(st.lists(_success_rule(spec["completions"]), min_size=1, max_size=2))}
    if draw(st.integers(0, 5)) == 0:
        spec["suspend"] = True
    return spec


def _success_rule(completions: int) -> st.SearchStrategy[dict[str, Any]]:
    numbers = st.lists(st.integers(0, completions - 1), min_size=1, max_size=3, unique=True).map(sorted)
    listed = numbers.map(lambda found: {"succeededIndexes": ",".join(map(str, found))})
    counted = st.integers(1, completions).map(lambda count: {"succeededCount": count})
    both = numbers.flatmap(
        lambda found: st.integers(1, len(found)).map(
            lambda count: {"succeededIndexes": ",".join(map(str, found)), "succeededCount": count}
        )
    )
    return st.one_of(listed, counted, both)


def steps() -> st.SearchStrategy[Step]:
    """One thing that happens."""
    one = st.integers(0, 4)
    disruption = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    return st.one_of(
        one.map(lambda at: do("run", at=at)),
        st.just(do("run")),
        st.just(do("run", ready=False)),
        one.map(lambda at: do("succeed", at=at)),
        one.map(lambda at: do("succeed", at=at)),
        st.just(do("succeed")),
        st.builds(lambda at, code: do("fail", at=at, code=code), one, CODES),
        st.builds(lambda at, code: do("fail", at=at, code=code), one, CODES),
        one.map(lambda at: do("fail", at=at, conditions=disruption)),
        one.map(lambda at: do("delete", at=at)),
        one.map(lambda at: do("condition", at=at, type="DisruptionTarget")),
        st.just(do("end")),
        st.just(do("end", phase="Succeeded")),
        one.map(lambda at: do("delete", at=at, among="ended")),
        one.map(lambda at: do("strip", at=at)),
        st.just(do("spec", suspend=True)),
        st.just(do("spec", suspend=False)),
        st.integers(0, 4).map(lambda number: do("spec", parallelism=number)),
        st.integers(1, 5).map(lambda number: do("spec", parallelism=number, completions=number)),
        st.integers(0, 3).map(lambda number: do("spec", backoffLimit=number)),
        st.integers(0, 3).map(lambda number: do("spec", maxFailedIndexes=number)),
        st.sampled_from(["Failed", "TerminatingOrFailed"]).map(lambda p: do("spec", podReplacementPolicy=p)),
        st.just(do("spec", activeDeadlineSeconds=0)),
        st.just(do("spec", activeDeadlineSeconds=3600)),
    )


def comparable(spec: dict[str, Any], happenings: list[Step]) -> list[Step]:
    """The steps up to what has to be waited for in earnest.

    A deleted pod has ended now, where deletions count at once: its replacement waits 10 s or more, which is in
    the way of what comes after. So such a deletion is among the last things that happen. Where a waiting index leaves
    its place to the next one here and not there (DIFFERENCES.md) it does not happen at all.
    """
    late = "podFailurePolicy" not in spec and spec.get("podReplacementPolicy") != "Failed"
    deleted = False
    kept: list[Step] = []
    for number, step in enumerate(happenings):
        policy = step.options.get("podReplacementPolicy")
        if policy == "TerminatingOrFailed" and deleted:
            continue
        if policy is not None and "podFailurePolicy" not in spec:
            late = policy != "Failed"
        kept.append(step)
        if step.verb == "delete" and "among" not in step.options:
            deleted = True
            if late and _is_short_of_places(spec, kept):
                return kept[:-1]
            if late:
                return kept + [s for s in happenings[number + 1 : number + 3] if s.verb in ("end", "succeed", "strip")]
    return kept


def _is_short_of_places(spec: dict[str, Any], happened: list[Step]) -> bool:
    """Not every index that is limited for itself may have had a pod at all times."""
    specs = [spec, *(step.options for step in happened if step.verb == "spec")]
    places = min(found["parallelism"] for found in specs if "parallelism" in found)
    indexes = max(found.get("completions") or 0 for found in specs)
    return "backoffLimitPerIndex" in spec and places < indexes


TEMPLATES = st.sampled_from([{}, {}, {}, {"restartPolicy": "OnFailure"}])


def mixtures() -> st.SearchStrategy[Theme]:
    """Anything with anything."""
    return st.tuples(specs(), st.lists(steps(), min_size=2, max_size=MAX_STEPS), TEMPLATES)


def histories(number: int, start: int) -> list[History]:
    """So many histories; the same `start` gives the same ones."""
    found: list[History] = []

    @seed(start)
    @settings(
        max_examples=number,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(mixtures(), *(theme() for theme in (*THEMES, *MEDDLING))))
    def collect(drawn: Theme) -> None:
        spec, happenings, template = drawn
        if "podFailurePolicy" in spec:
            template = {name: value for name, value in template.items() if name != "restartPolicy"}
        found.append(History(f"seed {start} number {len(found)}", spec, tuple(comparable(spec, happenings)), template))

    collect()
    return found
