"""Suspending and resuming, alone and with everything else."""

from __future__ import annotations

from tests.control_plane.jobs.history import do, history
from tests.control_plane.jobs.scenarios.counting import indexed
from tests.control_plane.jobs.scenarios.limits import per_index

TWO = {"completions": 2, "parallelism": 2}
suspend, resume = do("spec", suspend=True), do("spec", suspend=False)

SCENARIOS = (
    history("born suspended", {"suspend": True, **TWO}, resume, do("succeed")),
    history("suspended while pending", TWO, suspend, resume, do("succeed")),
    history("suspended while running", TWO, do("run"), suspend, do("end"), resume, do("succeed")),
    history("resumed while pods terminate", TWO, do("run"), suspend, resume, do("end"), do("succeed")),
    history("suspended twice", TWO, suspend, resume, suspend, resume, do("succeed")),
    history("suspended after a success", TWO, do("succeed", at=0), suspend, resume, do("succeed")),
    history(
        "suspended after a failure", {"backoffLimit": 1, **TWO}, do("fail", at=0), suspend, resume, do("fail", at=0)
    ),
    history("suspended pods are no failures", {"backoffLimit": 0, **TWO}, do("run"), suspend, do("end"), resume),
    history("suspended with nothing to do", {"suspend": True, "completions": 0}),
    history("suspended with a deadline", {"activeDeadlineSeconds": 20, **TWO}, suspend, do("pass", seconds=18), resume),
    history(
        "the deadline starts again on resume",
        {"suspend": True, "activeDeadlineSeconds": 12, **TWO},  # both have their pods before that on a busy machine too
        resume,
        do("until", living=0),
    ),
    history("suspended work queue", {"parallelism": 3}, do("succeed", at=0), suspend, resume),
    history("suspended Indexed Job", indexed(3), do("succeed", index=1), suspend, resume, do("succeed")),
    history(
        "suspended while an index waits",
        per_index(3, 2),
        do("fail", index=0, ago=0),
        suspend,
        resume,
        do("until", living=3),
    ),
    history(
        "suspended while the Job waits", {"backoffLimit": 4}, do("fail", ago=0), suspend, resume, do("until", living=1)
    ),
    history(
        "parallelism changed while suspended",
        {"suspend": True, **TWO},
        do("spec", parallelism=1),
        resume,
        do("succeed"),
    ),
    history(
        "a template changed while suspended",
        {"suspend": True, **TWO},
        do("spec", template={"metadata": {"labels": {"tier": "one"}, "annotations": {"note": "two"}}}),
        do("spec", template={"spec": {"nodeSelector": {"disk": "ssd"}}}),
        resume,
        do("succeed"),
    ),
    history(
        "a template of a running Job does not change",
        TWO,
        do("spec", template={"spec": {"nodeSelector": {"disk": "ssd"}}}),
    ),
    history(
        "suspended with replacement of failed pods only",
        {"podReplacementPolicy": "Failed", **TWO},
        do("run"),
        suspend,
        resume,
        do("end"),
        do("until", living=2),
    ),
    history("suspended and deleted", TWO, do("run"), suspend, do("remove"), do("end", among="all")),
    history(
        "suspended and finished by an elastic change",
        indexed(2),
        do("succeed", index=0),
        suspend,
        resume,
        do("spec", completions=1, parallelism=1),
    ),
)
