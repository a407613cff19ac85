"""podFailurePolicy and successPolicy."""

from __future__ import annotations

from typing import Any

from tests.control_plane.jobs.history import do, history
from tests.control_plane.jobs.scenarios.counting import indexed
from tests.control_plane.jobs.scenarios.limits import per_index


def on_codes(action: str, *values: int, operator: str = "In", container: str | None = None) -> dict[str, Any]:
    codes: dict[str, Any] = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": codes | ({"containerName": container} if container else {})}


def on_condition(action: str, type: str = "DisruptionTarget", status: str = "True") -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": type, "status": status}]}


def judged(*rules: dict[str, Any], **more: object) -> dict[str, object]:
    return {"podFailurePolicy": {"rules": list(rules)}, **more}


def met_by(*rules: dict[str, Any]) -> dict[str, object]:
    return {"successPolicy": {"rules": list(rules)}}


DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
THREE = {"completions": 3, "parallelism": 3}

SCENARIOS = (
    history(
        "a code that fails the Job",
        judged(on_codes("FailJob", 42), **THREE),
        do("run"),
        do("fail", at=0, code=42),
        do("end"),
    ),
    history("a code that does not", judged(on_codes("FailJob", 42), **THREE), do("fail", at=0, code=41), do("succeed")),
    history("a code that is not in the list", judged(on_codes("FailJob", 1, 2, operator="NotIn")), do("fail", code=3)),
    history(
        "zero is no failure", judged(on_codes("FailJob", 0, 1, operator="NotIn")), do("fail", code=0), do("succeed")
    ),
    history(
        "the first rule that fits decides",
        judged(on_codes("Ignore", 3), on_codes("FailJob", 3, 4)),
        do("fail", code=3),
        do("fail", code=4),
    ),
    history("a rule for one container", judged(on_codes("FailJob", 42, container="main")), do("fail", code=42)),
    history(
        "an ignored failure does not count",
        judged(on_codes("Ignore", 3), backoffLimit=0),
        do("fail", code=3),
        do("succeed"),
    ),
    history(
        "an ignored failure is waited for",
        judged(on_codes("Ignore", 3)),
        do("fail", code=3, ago=0),
        do("until", living=1),
    ),
    history("a counted failure counts", judged(on_codes("Count", 3), backoffLimit=0), do("fail", code=3)),
    history(
        "a disruption is ignored",
        judged(on_condition("Ignore"), backoffLimit=0, **THREE),
        do("run"),
        do("fail", at=0, conditions=DISRUPTED),
        do("succeed"),
    ),
    history(
        "a condition fails the Job",
        judged(on_condition("FailJob", "Config")),
        do("fail", conditions=[{"type": "Config", "status": "True"}]),
    ),
    history(
        "a condition of another status does not",
        judged(on_condition("FailJob", "Config", "False")),
        do("fail", conditions=[{"type": "Config", "status": "True"}]),
        do("succeed"),
    ),
    history(
        "a disrupted pod that is deleted is judged when it ends",
        judged(on_condition("Ignore"), backoffLimit=0, **THREE),
        do("run"),
        do("condition", at=0, type="DisruptionTarget"),
        do("delete", at=0),
        do("end"),
        do("until", living=3),
    ),
    history(
        "an index fails by its code",
        per_index(3, 5) | judged(on_codes("FailIndex", 42)),
        do("fail", index=1, code=42),
        do("succeed"),
    ),
    history(
        "an ignored failure is noted on the next pod of its index",
        per_index(2, 1) | judged(on_codes("Ignore", 3)),
        do("fail", index=1, code=3),
        do("fail", index=1, code=3),
        do("fail", index=1, code=1),
        do("fail", index=1, code=1),
        do("succeed"),
    ),
    history(
        "a code that fails the Job beats limits per index",
        per_index(3, 1) | judged(on_codes("FailJob", 42)),
        do("run"),
        do("fail", index=2, code=42),
        do("end"),
    ),
    history("a policy without rules", {"podFailurePolicy": {"rules": []}, "backoffLimit": 1}, do("fail"), do("fail")),
    history(
        "terminating pods are replaced late under a policy",
        judged(on_codes("FailJob", 42), **THREE),
        do("run"),
        do("delete", at=0),
        do("end"),
        do("until", living=3),
    ),
    history(
        "one index is enough",
        indexed(3) | met_by({"succeededIndexes": "1"}),
        do("run"),
        do("succeed", index=1),
        do("end"),
    ),
    history(
        "pending pods go when the policy is met", indexed(3) | met_by({"succeededIndexes": "1"}), do("succeed", index=1)
    ),
    history(
        "a number is enough",
        indexed(4) | met_by({"succeededCount": 2}),
        do("run"),
        do("succeed", index=3),
        do("succeed", index=0),
        do("end"),
    ),
    history(
        "some of a list are enough",
        indexed(5) | met_by({"succeededIndexes": "0-2", "succeededCount": 2}),
        do("succeed", index=[3, 0]),
        do("succeed", index=2),
    ),
    history(
        "the second rule is met",
        indexed(4) | met_by({"succeededIndexes": "0,1"}, {"succeededCount": 2}),
        do("succeed", index=[2, 3]),
    ),
    history("fewer than all are enough", indexed(2) | met_by({"succeededCount": 1}), do("succeed", index=1)),
    history("a policy that is never met", indexed(2) | met_by({"succeededIndexes": ""}), do("succeed")),
    history(
        "failures do not matter once the policy is met",
        indexed(3, backoffLimit=0) | met_by({"succeededIndexes": "1"}),
        do("run"),
        do("succeed", index=1),
        do("end"),
    ),
    history(
        "a success policy with limits per index",
        per_index(3, 0) | met_by({"succeededIndexes": "2"}),
        do("run"),
        do("fail", index=0),
        do("succeed", index=2),
        do("end"),
    ),
    history(
        "pods that succeed after the policy was met",
        indexed(3) | met_by({"succeededIndexes": "1"}),
        do("run"),
        do("succeed", index=1),
        do("end", phase="Succeeded"),
    ),
    history(
        "a user says that it is enough",
        {"completions": 3, "parallelism": 3},
        do("run"),
        do(
            "status",
            conditions=[
                {"type": "SuccessCriteriaMet", "status": "True", "reason": "Enough", "message": "says the user"}
            ],
        ),
        do("end"),
    ),
    history(
        "a user says that it has failed",
        {"completions": 3, "parallelism": 3},
        do("run"),
        do(
            "status", conditions=[{"type": "FailureTarget", "status": "True", "reason": "Custom", "message": "by user"}]
        ),
        do("end"),
    ),
    history(
        "wrong numbers are put right",
        {"completions": 2, "parallelism": 2},
        do("run", at=0),
        do("status", active=9, ready=7),
    ),
)
