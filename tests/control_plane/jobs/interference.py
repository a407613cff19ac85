"""Themes (themes.py) of what neither the Job's owner nor a kubelet does in an ordinary life of a pod, and of fields
that are rarely edited.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.control_plane.jobs.history import Step, do
from tests.control_plane.jobs.snapshot import PREFIX
from tests.control_plane.jobs.themes import (
    ANY,
    CODES,
    ONE,
    RUN,
    Spec,
    Theme,
    at_one,
    failure,
    indexed,
    manual,
    spec_change,
    steps_of,
    without_ends_while_suspended,
)

ENDED = {"among": "ended"}
DELETING = {"among": "deleting"}


def _any_spec(draw: st.DrawFn, most: int = 4) -> Spec:
    """An Indexed Job, a plain one or a work queue."""
    kind = draw(st.sampled_from(["indexed", "indexed", "plain", "queue"]))
    spec: Spec = indexed(draw, most) if kind == "indexed" else {"parallelism": draw(st.integers(0, 3))}
    if kind == "plain":
        spec["completions"] = draw(st.integers(0, most))
    if draw(st.integers(0, 2)) == 0:
        spec["podReplacementPolicy"] = draw(st.sampled_from(["Failed", "TerminatingOrFailed"]))
    return spec


@st.composite
def held(draw: st.DrawFn) -> Theme:
    """Pods and the Job itself, kept after their deletion by a foreign finalizer. Deletions happen only where they are
    no failures yet: the wait for a replacement would delay the later steps.
    """
    spec = _any_spec(draw)
    spec["podReplacementPolicy"] = "Failed"
    return (
        spec,
        draw(
            steps_of(
                RUN,
                at_one("hold", **ANY),
                at_one("hold"),
                do("hold"),
                do("free", **ANY),
                at_one("free", **DELETING),
                at_one("delete"),
                at_one("delete", grace=0),
                at_one("delete", grace=0, **ENDED),
                at_one("phase", phase="Failed", **DELETING),
                at_one("phase", phase="Succeeded", **DELETING),
                at_one("succeed"),
                failure(),
                do("keep"),
                st.sampled_from(["Background", "Foreground", "Orphan"]).map(lambda way: do("remove", propagation=way)),
                do("let"),
                spec_change(suspend=st.booleans()),
                spec_change(parallelism=ONE),
                st.integers(1, 4).map(lambda n: do("spec", completions=n, parallelism=n)),
            )
        ),
        {},
    )


@st.composite
def ownership(draw: st.DrawFn) -> Theme:
    """Edited owner references: no longer a controller, another owner's, one more; and pods with an owner reference that
    the Job never made. No suspension, see job_controller/DIFFERENCES.md.
    """
    spec = _any_spec(draw)
    if draw(st.booleans()):
        spec |= draw(manual())
    made = st.builds(
        lambda name, tracked, index: do(
            "stray",
            name=name,
            labels={"app": "work"},
            tracked=tracked,
            owned=True,
            annotations={PREFIX + "job-completion-index": index} if index is not None else {},
        ),
        st.sampled_from(["stray-a", "stray-b"]),
        st.booleans(),
        st.sampled_from([None, "0", "1", "3", "9"]),
    )
    return (
        spec,
        draw(
            steps_of(
                RUN,
                *(at_one("own", how=how, **ANY) for how in ("plain", "foreign", "extra", "job")),
                at_one("disown", **ANY),
                at_one("strip", **ANY),
                made,
                at_one("succeed"),
                failure(),
                do("end"),
                spec_change(parallelism=ONE),
            )
        ),
        {},
    )


@st.composite
def phases(draw: st.DrawFn) -> Theme:
    """Phases that a kubelet never reports: Unknown, a terminal phase without an ended container, a terminal phase that
    is reset or reversed. The phase of a settled index is not reset, see job_controller/DIFFERENCES.md.
    """
    spec = _any_spec(draw)
    ends = ["Succeeded", "Failed"]
    anything = st.sampled_from(["Pending", "Running", "Unknown", *ends])
    after = st.sampled_from(ends) if "completionMode" in spec else anything

    def phase(at: int, among: str, name: str) -> Step:
        return do("phase", at=at, among=among, phase=name)

    change = st.one_of(
        st.builds(phase, ONE, st.sampled_from(["living", "deleting"]), anything),
        st.builds(phase, ONE, st.sampled_from(["ended", "ended", "all"]), after),
    )
    return (
        spec,
        draw(
            steps_of(
                RUN,
                change,
                change,
                at_one("succeed"),
                failure(),
                at_one("fail", bare=True),
                at_one("hold"),
                at_one("delete", **ENDED),
                spec_change(suspend=st.booleans()),
                spec_change(parallelism=ONE),
            )
        ),
        {},
    )


@st.composite
def templates(draw: st.DrawFn) -> Theme:
    """What may be edited in the template of a suspended Job, when, and which pods it resumes with."""
    spec = _any_spec(draw)
    if draw(st.booleans()):
        spec["suspend"] = True
    zone = st.sampled_from(["a", "b"])
    toleration = {"key": "sluice", "operator": "Exists"}
    more = zone.map(lambda z: {"containers": [{"name": "main", "image": "work", "resources": {"limits": {"cpu": z}}}]})
    wide = {"containers": [{"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}]}
    other = {"containers": [{"name": "main", "image": "other"}]}
    pods = st.one_of(
        zone.map(lambda z: {"spec": {"nodeSelector": {"zone": z}}}),
        st.just({"spec": {"nodeSelector": None}}),
        st.just({"spec": {"tolerations": [toleration]}}),
        st.just({"spec": wide}),
        more.map(lambda found: {"spec": found}),
        st.just({"spec": other}),
        st.just({"spec": {"schedulingGates": [{"name": "example.com/gate"}]}}),
        zone.map(lambda z: {"metadata": {"labels": {"zone": z}}}),
        st.just({"metadata": {"labels": {"app": None}}}),
        zone.map(lambda z: {"metadata": {"annotations": {"zone": z, PREFIX + "job-completion-index": "7"}}}),
        st.just({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
    return (
        spec,
        draw(
            steps_of(
                pods.map(lambda found: do("spec", template=found)),
                pods.map(lambda found: do("spec", template=found)),
                st.builds(lambda found, flag: do("spec", template=found, suspend=flag), pods, st.booleans()),
                do("spec", suspend=True),
                do("spec", suspend=False),
                do("spec", suspend=False),
                RUN,
                at_one("succeed"),
                failure(),
                do("end"),
            )
        ),
        {},
    )


@st.composite
def forgeries(draw: st.DrawFn) -> Theme:
    """Status fields written by a user that only a controller should write: indexes, conditions, UIDs of real pods.

    Left out, see job_controller/DIFFERENCES.md: what makes the built-in controller write without end (Suspended=False),
    the number of completed indexes, which it corrects only with the next change, and UIDs of running pods.
    """
    spec = _any_spec(draw)
    if "completionMode" in spec and draw(st.integers(0, 2)) == 0:
        spec["successPolicy"] = {"rules": [{"succeededCount": draw(st.integers(1, spec["completions"]))}]}
    listed = st.sampled_from(["", "0", "1", "0,1", "0-2", "3", "7", "x"])

    def condition(kind: str) -> Step:
        return do("status", conditions=[{"type": kind, "status": "True", "reason": "Custom", "message": "by user"}])

    happenings = draw(
        steps_of(
            RUN,
            at_one("succeed"),
            at_one("succeed"),
            failure(),
            listed.map(lambda text: do("status", completedIndexes=text)),
            listed.map(lambda text: do("status", failedIndexes=text)),
            *([] if "completionMode" in spec else [ONE.map(lambda n: do("status", succeeded=n))]),
            ONE.map(lambda n: do("status", ready=n)),
            st.sampled_from(["Suspended", "Suspended", "SuccessCriteriaMet", "Complete"]).map(condition),
            st.builds(
                lambda at, kind: do("note", at=at, kind=kind, **ENDED), ONE, st.sampled_from(["succeeded", "failed"])
            ),
            do("status", conditions=None),
            do("status", terminating=None, ready=None),
            spec_change(suspend=st.booleans()),
            spec_change(parallelism=ONE),
            do("end"),
        )
    )
    return spec, without_ends_while_suspended(happenings), {}


@st.composite
def sidecars(draw: st.DrawFn) -> Theme:
    """Sidecars and init containers that restart or outlive the others, with limits of both kinds."""
    spec = _any_spec(draw)
    spec["backoffLimit"] = draw(st.integers(0, 4))
    main = {"name": "main", "image": "work"}
    beside = {"name": "beside", "image": "work", "restartPolicy": "Always"}
    template = {"containers": [main], "initContainers": [{"name": "prepare", "image": "work"}, beside]}
    if draw(st.booleans()):
        template["restartPolicy"] = "OnFailure"
    else:
        codes = st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=2, unique=True).map(sorted)
        rule = st.builds(
            lambda action, values, name: {
                "action": action,
                "onExitCodes": {"operator": "In", "values": values, "containerName": name},
            },
            st.sampled_from(["FailJob", "Ignore", "Count"]),
            codes,
            st.sampled_from(["main", "beside", "prepare"]),
        )
        spec.pop("podReplacementPolicy", None)
        spec["podFailurePolicy"] = {"rules": draw(st.lists(rule, min_size=1, max_size=3))}
    run = st.builds(
        lambda at, n, m, ready: do("run", at=at, restarts=n, init=m, ready=ready), ONE, ONE, ONE, st.booleans()
    )
    fail = st.builds(lambda at, code, prepare: do("fail", at=at, code=code, prepare=prepare), ONE, CODES, CODES)
    return (
        spec,
        draw(
            steps_of(
                run,
                run,
                fail,
                at_one("succeed"),
                spec_change(backoffLimit=st.integers(0, 6)),
                spec_change(suspend=st.booleans()),
                spec_change(parallelism=ONE),
                do("end", phase="Succeeded"),
            )
        ),
        template,
    )


@st.composite
def deadlines(draw: st.DrawFn) -> Theme:
    """Deadlines that pass while pods run, terminate or are replaced, during a suspension, and at the resumption."""
    spec = _any_spec(draw)
    if draw(st.integers(0, 2)) == 0:
        spec["suspend"] = True
    if draw(st.integers(0, 3)) == 0:
        spec["activeDeadlineSeconds"] = draw(st.integers(0, 2))
    soon = st.sampled_from([0, 1, 2, None])
    return (
        spec,
        draw(
            steps_of(
                RUN,
                at_one("succeed"),
                failure(),
                soon.map(lambda n: do("spec", activeDeadlineSeconds=n)),
                st.integers(1, 2).map(lambda n: do("spec", activeDeadlineSeconds=n, suspend=False)),
                soon.map(lambda n: do("spec", activeDeadlineSeconds=n, suspend=True)),
                do("spec", suspend=True),
                at_one("hold"),
                at_one("end"),
                do("end", phase="Succeeded"),
                do("free", **ANY),
            )
        ),
        {},
    )


INTERFERENCE: tuple[Callable[[], st.SearchStrategy[Theme]], ...] = (
    held,
    ownership,
    phases,
    templates,
    forgeries,
    sidecars,
    deadlines,
)
