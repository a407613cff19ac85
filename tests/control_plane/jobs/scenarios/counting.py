"""How many pods a Job has, which ones, and how they are counted."""

from __future__ import annotations

from tests.control_plane.jobs.history import Step, do, history
from tests.control_plane.jobs.snapshot import PREFIX


def indexed(completions: int, parallelism: int | None = None, **more: object) -> dict[str, object]:
    wanted = completions if parallelism is None else parallelism
    return {"completionMode": "Indexed", "completions": completions, "parallelism": wanted, **more}


MANUAL = {"manualSelector": True, "selector": {"matchLabels": {"app": "work"}}}


def duplicate(index: str, **counts: str) -> Step:
    """A pod of the Job that another client made; keys of `counts` are annotations without prefix, in snake case."""
    notes = {PREFIX + "job-completion-index": index}
    notes |= {f"{PREFIX}job-{name.replace('_', '-')}": text for name, text in counts.items()}
    return do("stray", labels={"app": "work"}, tracked=True, owned=True, annotations=notes)


PENDING_REPLACED = {"podReplacementPolicy": "Failed"}

SCENARIOS = (
    history("one pod succeeds", {}, do("run"), do("succeed")),
    history("three pods succeed at once", {"completions": 3, "parallelism": 3}, do("run"), do("succeed")),
    history("pods succeed one by one", {"completions": 3, "parallelism": 1}, *[do("succeed")] * 3),
    history("more wanted than may run at once", {"completions": 5, "parallelism": 2}, *[do("succeed")] * 3),
    history("nothing wanted", {"completions": 0}),
    history("nothing may run", {"completions": 2, "parallelism": 0}, do("spec", parallelism=2), do("succeed")),
    history("nothing wanted of an Indexed Job", indexed(0)),
    history("ready pods are counted", {"completions": 3, "parallelism": 3}, do("run", at=0), do("run", ready=False)),
    history(
        "bound pods that do not run",
        {"completions": 2, "parallelism": 2},
        do("bind", at=0),
        do("condition", type="PodScheduled"),
    ),
    history("parallelism is raised", {"completions": 4, "parallelism": 1}, do("spec", parallelism=3)),
    history("parallelism is lowered", {"completions": 4, "parallelism": 4}, do("spec", parallelism=1)),
    history(
        "of pods that are too many those that run stay",
        {"completions": 4, "parallelism": 4},
        do("run", at=[0, 1]),
        do("spec", parallelism=2),
        do("succeed"),
    ),
    history(
        "bound pods that are too many terminate",
        {"completions": 3, "parallelism": 3},
        do("run"),
        do("spec", parallelism=1),
        do("end"),
        do("succeed"),
    ),
    history("a work queue ends with its last pod", {"parallelism": 3}, do("succeed", at=0), do("succeed")),
    history(
        "a work queue replaces failures before its first success",
        {"parallelism": 2},
        do("fail", at=0),
        do("succeed", at=0),
        do("fail"),
    ),
    history(
        "a work queue is not resized after its first success",
        {"parallelism": 3},
        do("succeed", at=0),
        do("spec", parallelism=1),
        do("spec", parallelism=5),
        do("succeed"),
    ),
    history("each index succeeds", indexed(3), do("run"), do("succeed", index=1), do("succeed")),
    history("lowest free indexes run", indexed(5, 2), do("succeed", index=1), do("succeed", index=[0, 2])),
    history("a failed index runs again", indexed(3), do("fail", index=1), do("succeed")),
    history("an elastic Job grows", indexed(2), do("succeed", index=0), do("spec", completions=4, parallelism=4)),
    history(
        "an elastic Job shrinks",
        indexed(4),
        do("succeed", index=[0, 3]),
        do("spec", completions=2, parallelism=2),
        do("succeed"),
    ),
    history(
        "an elastic Job shrinks to what has succeeded",
        indexed(3),
        do("succeed", index=[0, 1]),
        do("spec", completions=2, parallelism=2),
    ),
    history(
        "an index dropped and taken again runs again",
        indexed(3),
        do("succeed", index=2),
        do("spec", completions=2, parallelism=2),
        do("spec", completions=3, parallelism=3),
        do("succeed"),
    ),
    history(
        "completions of an Indexed Job move only with parallelism", indexed(3), do("spec", completions=5), do("succeed")
    ),
    history(
        "of two pods of one index one goes", indexed(2, **MANUAL), do("run", index=0), duplicate("0"), do("succeed")
    ),
    history("a pod whose index is too large goes", indexed(2, **MANUAL), duplicate("7"), do("succeed")),
    history("a pod whose index cannot be read goes", indexed(2, **MANUAL), duplicate("x"), do("succeed")),
    history(
        "a deleted pod is a failure and is replaced",
        {"completions": 2, "parallelism": 2},
        do("run"),
        do("delete", at=0),
        do("end"),
        do("succeed"),
    ),
    history("an unbound pod that is deleted is a failure", {"completions": 2, "parallelism": 2}, do("delete", at=0)),
    history(
        "a deleted pod is replaced only when it has ended",
        {"completions": 2, "parallelism": 2, **PENDING_REPLACED},
        do("run"),
        do("delete", at=0),
        do("end"),
        do("until", total=2),
    ),
    history(
        "a terminating pod is replaced when the policy changes",
        {"completions": 1, **PENDING_REPLACED},
        do("run"),
        do("delete"),
        do("spec", podReplacementPolicy="TerminatingOrFailed"),
    ),
    history(
        "a deleted pod that succeeds in the end",
        {"completions": 2, "parallelism": 2, **PENDING_REPLACED},
        do("run"),
        do("delete", at=0),
        do("end", phase="Succeeded"),
        do("succeed"),
    ),
    history(
        "an index whose pod is deleted runs again",
        indexed(2),
        do("run"),
        do("delete", index=0),
        do("end"),
        do("succeed"),
    ),
    history("a pod without finalizer is not counted", {"completions": 2}, do("run"), do("strip"), do("succeed")),
    history(
        "a pod whose label was changed is released",
        {"completions": 1, **MANUAL},
        do("run"),
        do("label", labels={"app": "other"}),
        do("succeed"),
    ),
    history(
        "a stray pod is adopted",
        {"completions": 2, "parallelism": 1, **MANUAL},
        do("stray", labels={"app": "work"}),
        do("succeed"),
    ),
    history(
        "a stray pod that no Job selects is left alone",
        {"completions": 1, **MANUAL},
        do("stray", labels={"app": "other"}),
    ),
    history(
        "a tracked stray pod is freed", {"completions": 1, **MANUAL}, do("stray", labels={"app": "other"}, tracked=True)
    ),
    history("a disowned pod is adopted again", {"completions": 1, **MANUAL}, do("run"), do("disown"), do("succeed")),
    history(
        "a Job that is deleted takes its pods along",
        {"completions": 2, "parallelism": 2},
        do("run", at=0),
        do("remove"),
        do("end", among="all"),
    ),
    history(
        "a Job deleted as an orphanage leaves its pods",
        {"completions": 2, "parallelism": 2},
        do("run", at=0),
        do("succeed", at=0),
        do("remove", propagation="Orphan"),
    ),
    history(
        "a Job deleted in the foreground waits for its pods",
        {"completions": 2, "parallelism": 2},
        do("run"),
        do("remove", propagation="Foreground"),
        do("end", among="all"),
    ),
    history(
        "a Job made again under the same name starts anew",
        {"completions": 1, "backoffLimit": 2},
        do("fail", ago=0),
        do("remove", propagation="Background"),
        do("recreate"),
        do("succeed"),
    ),
    history("a finished Job rests", {}, do("succeed"), do("spec", parallelism=4), do("delete", among="all")),
    history(
        "an init container gets its index too",
        indexed(1),
        do("succeed"),
        template={
            "initContainers": [{"name": "first", "image": "work"}],
            "hostname": "of-the-template",
        },
    ),
)
