"""Histories about one theme each, which a random mixture of everything reaches only rarely.

A theme generates a Job and chooses steps of its own field, so that seven steps are enough to reach rare states: an
elastic Job that shrinks while pods terminate, a Job that is deleted with each propagation policy and created again,
duplicates of an index. Where the first pod that ends may decide the Job's end, one pod ends at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.control_plane.jobs.history import Step, do
from tests.control_plane.jobs.snapshot import PREFIX

Spec = dict[str, Any]
Theme = tuple[Spec, list[Step], Spec]  # the Job's spec, what happens, its pods' spec

MAX_ROWS = 7  # steps
ONE = st.integers(0, 4)
SOME = st.lists(ONE, min_size=1, max_size=3, unique=True)
CODES = st.sampled_from([1, 2, 3, 42])
SELECTORS: tuple[Spec, ...] = (
    {"matchLabels": {"app": "work"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["work", "play"]}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["other"]}]},
    {"matchExpressions": [{"key": "app", "operator": "Exists"}, {"key": "away", "operator": "DoesNotExist"}]},
    {},
)
RUN = do("run")
DISRUPTION = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
ANY = {"among": "all"}


def steps_of(*choices: st.SearchStrategy[Any] | Step) -> st.SearchStrategy[list[Step]]:
    """A strategy of lists of steps. Each choice is a step, several that belong together, or a strategy for either."""
    drawn = [st.just(choice) if isinstance(choice, Step) else choice for choice in choices]

    def flat(found: Sequence[Any]) -> list[Step]:
        return [step for one in found for step in (one if isinstance(one, (list, tuple)) else [one])][:MAX_ROWS]

    return st.lists(st.one_of(drawn), min_size=2, max_size=MAX_ROWS).map(flat)


def at_one(verb: str, **options: Any) -> st.SearchStrategy[Step]:
    return ONE.map(lambda at: do(verb, at=at, **options))


def spec_change(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.fixed_dictionaries(fields).map(lambda changes: do("spec", **changes))


def manual() -> st.SearchStrategy[Spec]:
    """A selector chosen by the user; all of them select the template's labels."""
    return st.sampled_from(SELECTORS).map(lambda selector: {"manualSelector": True, "selector": selector})


def failure() -> st.SearchStrategy[Step]:
    return st.builds(lambda at, code: do("fail", at=at, code=code), ONE, CODES)


def indexed(draw: st.DrawFn, most: int = 4, *, elastic: bool = False) -> Spec:
    completions = draw(st.integers(1, most))
    parallelism = completions if elastic else draw(st.integers(1, most))
    spec: Spec = {"completionMode": "Indexed", "completions": completions, "parallelism": parallelism}
    if draw(st.booleans()):
        spec["backoffLimitPerIndex"] = draw(st.integers(0, 2))
        if draw(st.booleans()):
            spec["maxFailedIndexes"] = draw(st.integers(0, completions))
    return spec


@st.composite
def elastic(draw: st.DrawFn) -> Theme:
    """Indexed Jobs that grow and shrink, also while pods terminate."""
    spec = indexed(draw, elastic=True)
    if draw(st.integers(0, 3)):
        spec["podReplacementPolicy"] = "Failed"
    size = st.integers(0, 5).map(lambda n: do("spec", completions=n, parallelism=n))
    return (
        spec,
        draw(
            steps_of(
                size,
                size,
                st.builds(lambda n, m: do("spec", completions=n, parallelism=n, maxFailedIndexes=m), ONE, ONE),
                spec_change(parallelism=ONE),
                spec_change(suspend=st.booleans()),
                RUN,
                at_one("succeed"),
                failure(),
                st.builds(lambda at: [RUN, do("delete", at=at)], SOME),
                at_one("delete", grace=0),
                do("end"),
                at_one("end", phase="Succeeded"),
            )
        ),
        {},
    )


@st.composite
def success(draw: st.DrawFn) -> Theme:
    """successPolicy with ranges and counts, together with limits on failed indexes."""
    spec = indexed(draw, 6)
    last = spec["completions"] - 1

    def text(first: int, second: int) -> str:
        first, second = min(first, second, last), min(max(first, second), last)
        return str(first) if first == second else f"{first}-{second}"

    interval = st.builds(text, st.integers(0, last), st.integers(0, last))
    pair = st.integers(2, max(2, last)).map(lambda n: f"0,{n}-{last}" if n < last else "0")
    listed = st.one_of(interval, pair, st.just("")).map(lambda found: {"succeededIndexes": found})
    counted = st.integers(0, spec["completions"]).map(lambda n: {"succeededCount": n})
    both = interval.map(lambda found: {"succeededIndexes": found, "succeededCount": 1})
    spec["successPolicy"] = {"rules": draw(st.lists(st.one_of(listed, counted, both), min_size=1, max_size=3))}
    if draw(st.integers(0, 3)) == 0:
        spec["podReplacementPolicy"] = "Failed"
    return (
        spec,
        draw(
            steps_of(
                RUN,
                at_one("succeed"),
                at_one("succeed"),
                ONE.map(lambda index: do("succeed", index=index)),
                failure(),
                spec_change(suspend=st.booleans()),
                spec_change(maxFailedIndexes=ONE),
                spec_change(backoffLimit=ONE),
                spec_change(parallelism=ONE),
                st.integers(1, 6).map(lambda n: do("spec", completions=n, parallelism=n)),
                at_one("end"),
                at_one("end", phase="Succeeded"),
            )
        ),
        {},
    )


@st.composite
def suspension(draw: st.DrawFn) -> Theme:
    """Edits of a suspended Job, and its resumption. The Job does not end at that very moment, see
    job_controller/DIFFERENCES.md.
    """
    spec: Spec = indexed(draw) if draw(st.booleans()) else {"completions": draw(ONE), "parallelism": draw(ONE)}
    if draw(st.integers(0, 2)):
        spec["suspend"] = True
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = 3600
    if draw(st.integers(0, 2)) == 0:
        spec["podReplacementPolicy"] = "Failed"
    deadline = st.sampled_from(
        [3600, 9_223_372_036, None]
    )  # more overflows in the built-in one, see job_controller/DIFFERENCES.md
    return (
        spec,
        draw(
            steps_of(
                do("spec", suspend=True),
                do("spec", suspend=False),
                do("spec", suspend=False, parallelism=0),
                st.builds(lambda d, s: do("spec", activeDeadlineSeconds=d, suspend=s), deadline, st.booleans()),
                deadline.map(lambda d: do("spec", activeDeadlineSeconds=d)),
                spec_change(ttlSecondsAfterFinished=st.sampled_from([None, 3600, 2147483647])),
                spec_change(parallelism=ONE),
                spec_change(backoffLimit=ONE),
                st.integers(0, 4).map(lambda n: do("spec", completions=n, parallelism=n)),
                st.sampled_from(["a", "b"]).map(
                    lambda zone: do("spec", template={"spec": {"nodeSelector": {"zone": zone}}})
                ),
                RUN,
                at_one("succeed"),
                failure(),
                do("end"),
                at_one("end", phase="Succeeded"),
                at_one("strip"),
            )
        ),
        {},
    )


@st.composite
def adoption(draw: st.DrawFn) -> Theme:
    """Pods that are adopted and released, through labels, owner references, and a Job that is orphaned and created
    again.
    """
    spec: Spec = {"parallelism": draw(st.integers(0, 3)), **draw(manual())}
    kind = draw(st.sampled_from(["plain", "queue", "indexed"]))
    if kind != "queue":
        spec["completions"] = draw(st.integers(1, 4))
    if kind == "indexed":
        spec["completionMode"] = "Indexed"
        if draw(st.booleans()):
            spec["backoffLimitPerIndex"] = 1
    if draw(st.integers(0, 2)) == 0:
        spec["podReplacementPolicy"] = "Failed"
    names = st.sampled_from(["stray-a", "stray-b"])
    labels = st.sampled_from([{"app": "work"}, {"app": "work"}, {"app": "other"}, {"away": "1"}])
    return (
        spec,
        draw(
            steps_of(
                st.builds(
                    lambda name, found, tracked: do("stray", labels=found, name=name, tracked=tracked),
                    names,
                    labels,
                    st.booleans(),
                ),
                st.builds(lambda at, found: do("label", at=at, labels=found, **ANY), ONE, labels),
                st.builds(lambda at, found: do("label", at=at, labels=found, **ANY), ONE, labels),
                at_one("disown", **ANY),
                RUN,
                at_one("run"),
                at_one("succeed"),
                at_one("succeed"),
                failure(),
                st.just([do("remove", propagation="Orphan"), do("recreate")]),
                do("remove", propagation="Orphan"),
                do("recreate"),
                spec_change(suspend=st.booleans()),
                spec_change(parallelism=ONE),
            )
        ),
        {},
    )


@st.composite
def duplicates(draw: st.DrawFn) -> Theme:
    """Pods of the Job made by other clients, with an index and failure counts of their choice. None gets an index that
    is settled already, see job_controller/DIFFERENCES.md.
    """
    spec = indexed(draw) | draw(manual())
    if draw(st.integers(0, 2)) == 0:
        spec["podReplacementPolicy"] = "Failed"
    index = st.sampled_from(["0", "0", "1", "2", "7", "abc", "-1", "01", "+1", "2147483648", None])
    count = st.sampled_from([None, None, "0", "1", "2", "abc", "-3", "2147483648"])

    def made(name: str, index: str | None, failures: str | None, ignored: str | None) -> list[Step]:
        notes = {"completion-index": index, "index-failure-count": failures, "index-ignored-failure-count": ignored}
        annotations = {f"{PREFIX}job-{key}": text for key, text in notes.items() if text is not None}
        return [RUN, do("stray", name=name, labels={"app": "work"}, tracked=True, owned=True, annotations=annotations)]

    happenings = draw(
        steps_of(
            *[st.builds(made, st.sampled_from(["stray-a", "stray-b"]), index, count, count)] * 2,
            at_one("succeed"),
            failure(),
            at_one("succeed", among="deleting"),
            do("end"),
            spec_change(parallelism=ONE),
            st.integers(1, 4).map(lambda n: do("spec", completions=n, parallelism=n)),
        )
    )
    return spec, _before_the_first_end(happenings), {}


def _before_the_first_end(happenings: list[Step]) -> list[Step]:
    """The steps without pods of other clients after a pod may have ended."""
    ends = [number for number, step in enumerate(happenings) if step.verb in ("succeed", "fail", "end")]
    first = min(ends, default=len(happenings))
    return [step for number, step in enumerate(happenings) if number < first or step.verb != "stray"]


@st.composite
def policies(draw: st.DrawFn) -> Theme:
    """podFailurePolicy over several containers and conditions."""
    spec: Spec = indexed(draw) if draw(st.booleans()) else {"completions": draw(st.integers(1, 4)), "parallelism": 2}
    actions = ["FailJob", "Ignore", "Ignore", "Count"] + ["FailIndex"] * ("backoffLimitPerIndex" in spec) * 2
    codes = st.lists(st.sampled_from([1, 2, 3, 42]), min_size=1, max_size=3, unique=True).map(sorted)
    on_codes = st.builds(
        lambda operator, values, container: {
            "onExitCodes": {
                "operator": operator,
                "values": values,
                **({"containerName": container} if container else {}),
            }
        },
        st.sampled_from(["In", "NotIn"]),
        codes,
        st.sampled_from([None, "main", "side", "prepare"]),
    )
    pattern = st.builds(
        lambda kind, status: {"type": kind, "status": status},
        st.sampled_from(["DisruptionTarget", "Ready", "example.com/Odd"]),
        st.sampled_from(["True", "False", "Unknown"]),
    )
    on_conditions = st.lists(pattern, min_size=1, max_size=2).map(lambda found: {"onPodConditions": found})
    rule = st.builds(
        lambda action, what: {"action": action, **what}, st.sampled_from(actions), st.one_of(on_codes, on_conditions)
    )
    spec["podFailurePolicy"] = {"rules": draw(st.lists(rule, min_size=1, max_size=4))}
    odd = st.builds(
        lambda kind, status: {"type": kind, "status": status},
        st.sampled_from(["DisruptionTarget", "example.com/Odd"]),
        st.sampled_from(["True", "False", "Unknown"]),
    )
    maybe = st.sampled_from([0, 0, 1, 2, 42])

    def fail(at: int, code: int, side: int, prepare: int, conditions: list[Any]) -> Step:
        return do("fail", at=at, code=code, side=side, prepare=prepare, conditions=conditions)

    fails = st.builds(fail, ONE, maybe, maybe, maybe, st.lists(odd, max_size=1))
    main, side = ({"name": name, "image": "work"} for name in ("main", "side"))
    template = {"containers": [main, side], "initContainers": [{"name": "prepare", "image": "work"}]}
    return (
        spec,
        draw(
            steps_of(
                RUN,
                fails,
                fails,
                fails,
                at_one("succeed"),
                at_one("condition", type="DisruptionTarget"),
                at_one("condition", type="example.com/Odd", status="Unknown"),
                at_one("delete"),
                st.builds(lambda at: [RUN, do("delete", at=at)], SOME),
                at_one("end"),
                at_one("end", code=3),
                at_one("end", phase="Succeeded"),
                spec_change(backoffLimit=ONE),
            )
        ),
        template,
    )


@st.composite
def removal(draw: st.DrawFn) -> Theme:
    """Jobs that are deleted with each propagation policy and created again under the same name."""
    spec: Spec = indexed(draw) if draw(st.booleans()) else {"completions": draw(st.integers(1, 3)), "parallelism": 2}
    if draw(st.integers(0, 3)) == 0:
        spec["suspend"] = True
    ways = st.sampled_from(["Orphan", "Background", "Foreground", "Foreground"])
    return (
        spec,
        draw(
            steps_of(
                RUN,
                at_one("run"),
                at_one("succeed"),
                failure(),
                ways.map(lambda way: do("remove", propagation=way)),
                ways.map(lambda way: do("remove", propagation=way)),
                do("recreate"),
                do("recreate"),
                do("end"),
                at_one("end", phase="Succeeded"),
                at_one("strip", **ANY),
                spec_change(suspend=st.booleans()),
                spec_change(parallelism=ONE),
            )
        ),
        {},
    )


@st.composite
def restarts(draw: st.DrawFn) -> Theme:
    """Containers that are restarted in place."""
    spec: Spec = indexed(draw) if draw(st.booleans()) else {"completions": draw(st.integers(1, 3)), "parallelism": 2}
    spec["backoffLimit"] = draw(st.integers(0, 4))
    run = st.builds(lambda at, n, ready: do("run", at=at, restarts=n, ready=ready), ONE, ONE, st.booleans())
    return (
        spec,
        draw(
            steps_of(
                run,
                run,
                at_one("succeed"),
                failure(),
                spec_change(backoffLimit=st.integers(0, 6)),
                spec_change(suspend=st.booleans()),
                spec_change(parallelism=ONE),
                do("end", phase="Succeeded"),
            )
        ),
        {"restartPolicy": "OnFailure"},
    )


@st.composite
def tampering(draw: st.DrawFn) -> Theme:
    """A user writes into the status. A suspended Job does not get an end, see job_controller/DIFFERENCES.md."""
    spec: Spec = indexed(draw) if draw(st.booleans()) else {"completions": draw(st.integers(1, 4)), "parallelism": 2}

    def condition(kind: str) -> Step:
        entry = {"type": kind, "status": "True", "reason": "Custom", "message": "by user"}
        return do("status", conditions=[entry])

    happenings = draw(
        steps_of(
            RUN,
            at_one("succeed"),
            failure(),
            st.sampled_from(["FailureTarget", "SuccessCriteriaMet", "example.com/Odd"]).map(condition),
            st.sampled_from(["failed", "succeeded"]).map(
                lambda kind: do("status", uncountedTerminatedPods={kind: ["ghost"]})
            ),
            ONE.map(lambda n: do("status", active=n)),
            ONE.map(lambda n: do("status", terminating=n)),
            ONE.map(lambda n: do("status", failed=n)),
            do("end"),
            spec_change(suspend=st.booleans()),
            spec_change(parallelism=ONE),
        )
    )
    return spec, without_ends_while_suspended(happenings), {}


def without_ends_while_suspended(happenings: list[Step]) -> list[Step]:
    """The steps without verdicts that a user writes into a suspended Job."""
    kept: list[Step] = []
    suspended = False
    for step in happenings:
        suspended = step.options.get("suspend", suspended)
        ends = {"FailureTarget", "SuccessCriteriaMet", "Complete"} & {
            c["type"] for c in step.options.get("conditions") or ()
        }
        if not (suspended and ends):
            kept.append(step)
    return kept


THEMES: tuple[Callable[[], st.SearchStrategy[Theme]], ...] = (
    elastic,
    success,
    suspension,
    adoption,
    duplicates,
    policies,
    removal,
    restarts,
    tampering,
)
