"""The pod status that the agent writes: container states, phase and conditions, in a kubelet's words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from job_controller.json_tree import Json
from queue_manager.local.agent.container_starts import Container, ContainerRun, Exit, containers_of
from queue_manager.local.agent.pod_status import (
    DEADLINE_EXCEEDED,
    PREEMPTED,
    SHUTDOWN,
    PodFacts,
    Termination,
    go_duration,
    phase,
    pod_status,
    status_patch,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATER = T0 + timedelta(seconds=90)


def view(
    containers: list[Container], policy: str = "Never", conditions: list[Json] | None = None, **more: Any
) -> PodFacts:
    spec = {
        "restartPolicy": policy,
        "containers": [c.spec for c in containers if not c.init],
        "readinessGates": [{"conditionType": gate} for gate in more.pop("gates", ())],
    }
    metadata = {"name": "p", "namespace": "n", "uid": "u", "generation": 2}
    pod = {"metadata": metadata, "spec": spec, "status": {"conditions": conditions or []}}
    return PodFacts(pod, containers, "10.0.0.1", LATER, T0, **more)


def pod_of(**states: Any) -> list[Container]:
    """Containers by name: "init..." and "side..." come first. None: not started; True: running; a number: its exit
    code.
    """
    spec: dict[str, Any] = {"initContainers": [], "containers": []}
    for name in states:
        sidecar = {"restartPolicy": "Always"} if name.startswith("side") else {}
        spec["initContainers" if name.startswith(("init", "side")) else "containers"].append({"name": name, **sidecar})
    containers = containers_of(spec)
    for container in containers:
        state = states[container.name]
        if state is not None:
            container.started(ContainerRun(0, T0))
            if state is not True:
                container.ended(Exit(state, T0 + timedelta(seconds=5)))
    return containers


def container(status: Json, name: str) -> Json:
    listed = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
    return next(c for c in listed if c["name"] == name)


def condition(status: Json, type: str) -> tuple[str, str, str]:
    found = next(c for c in status["conditions"] if c["type"] == type)
    return found["status"], found.get("reason", ""), found.get("message", "")


ENDED = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:05Z"}
LOST = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}
STATES: list[tuple[str, list[Container], dict[str, Any], Json]] = [
    ("not started", pod_of(a=None), {}, {"waiting": {"reason": "ContainerCreating"}}),
    ("initializing", pod_of(init=True, a=None), {}, {"waiting": {"reason": "PodInitializing"}}),
    ("running", pod_of(a=True), {}, {"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
    (
        "succeeded",
        pod_of(a=0),
        {},
        {"terminated": {"exitCode": 0, "reason": "Completed", "containerID": "process://u/a/0", **ENDED}},
    ),
    (
        "failed",
        pod_of(a=3),
        {},
        {"terminated": {"exitCode": 3, "reason": "Error", "containerID": "process://u/a/0", **ENDED}},
    ),
    ("running while its pod ends", pod_of(a=True), {"ending": True}, {"running": {"startedAt": ENDED["startedAt"]}}),
    ("never started when its pod ended", pod_of(a=None), {"ending": True}, {"terminated": LOST}),
    (
        "never initialized when its pod ended",
        pod_of(init=1, a=None),
        {"ending": True},
        {"waiting": {"reason": "PodInitializing"}},
    ),
    ("behind a sidecar that ended", pod_of(side=143, a=None), {"ending": True}, {"terminated": LOST}),
    (
        "behind a sidecar that never ran",
        pod_of(side=None, a=None),
        {"ending": True},
        {"waiting": {"reason": "PodInitializing"}},
    ),
]


@pytest.mark.parametrize(("containers", "more", "state"), [row[1:] for row in STATES], ids=[row[0] for row in STATES])
def test_the_state_of_a_container(containers: list[Container], more: dict[str, Any], state: Json) -> None:
    assert container(pod_status(view(containers, **more)), "a")["state"] == state


def test_a_refused_start_is_a_waiting_state_until_the_pod_ends() -> None:
    (a,) = containers = pod_of(a=None)
    a.refused("CreateContainerError", "no such file", T0)
    waiting = {"waiting": {"reason": "CreateContainerError", "message": "no such file"}}
    assert container(pod_status(view(containers)), "a")["state"] == waiting
    assert container(pod_status(view(containers, ending=True)), "a")["state"] == {"terminated": LOST}


def test_a_crash_loop_has_its_backoff_and_last_state() -> None:
    (a,) = containers = pod_of(a=1)
    a.started(ContainerRun(1, T0 + timedelta(seconds=5)))
    a.ended(Exit(2, LATER, "OOMKilled", "too much"))
    shown = container(pod_status(view(containers, "OnFailure")), "a")
    assert shown["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=a pod=p_n(u)",
    }
    ended = shown["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (2, "OOMKilled", "too much")
    assert (shown["restartCount"], shown["ready"], shown["started"]) == (1, False, False)
    assert shown["containerID"] == ended["containerID"] == "process://u/a/1"


def test_a_restarted_container_shows_the_end_of_the_run_before() -> None:
    (a,) = containers = pod_of(a=1)
    a.started(ContainerRun(1, LATER))
    shown = container(pod_status(view(containers, "OnFailure")), "a")
    assert shown["lastState"]["terminated"]["exitCode"] == 1
    assert shown["lastState"]["terminated"]["containerID"] == "process://u/a/0"
    assert (shown["restartCount"], shown["ready"], shown["started"]) == (1, True, True)


def test_an_init_container_is_ready_when_it_is_done_and_a_sidecar_while_it_runs() -> None:
    shown = pod_status(view(pod_of(init=0, side=True, a=True)))
    assert [c["ready"] for c in shown["initContainerStatuses"]] == [True, True]
    shown = pod_status(view(pod_of(init=True, side=None, a=None)))
    assert [c["ready"] for c in shown["initContainerStatuses"]] == [False, False]
    assert "initContainerStatuses" not in pod_status(view(pod_of(a=True)))


PHASES: list[tuple[str, list[Container], dict[str, Any], str]] = [
    ("an init container runs", pod_of(init=True, a=None), {}, "Pending"),
    ("between init containers", pod_of(init=0, init2=None, a=None), {}, "Pending"),
    ("an init container failed", pod_of(init=1, a=None), {}, "Failed"),
    ("an init container failed and runs again", pod_of(init=1, a=None), {"policy": "OnFailure"}, "Pending"),
    ("a sidecar crashed", pod_of(side=1, a=True), {}, "Running"),
    ("only the sidecar still runs", pod_of(side=True, a=0), {}, "Running"),
    ("all done beside an ended sidecar", pod_of(side=137, a=0), {}, "Succeeded"),
    ("one of two has not started", pod_of(a=0, b=None), {}, "Pending"),
    ("both run", pod_of(a=True, b=True), {}, "Running"),
    ("one of two has succeeded", pod_of(a=0, b=True), {}, "Running"),
    ("one of two has failed and the other runs", pod_of(a=1, b=True), {}, "Running"),
    ("both succeeded", pod_of(a=0, b=0), {}, "Succeeded"),
    ("one of two failed", pod_of(a=0, b=1), {}, "Failed"),
    ("one of two will restart", pod_of(a=0, b=1), {"policy": "OnFailure"}, "Running"),
    ("it always restarts", pod_of(a=0), {"policy": "Always"}, "Running"),
    ("both always restart", pod_of(a=0, b=0), {"policy": "Always"}, "Running"),
    ("it always restarts, but not any more", pod_of(a=0), {"policy": "Always", "ending": True}, "Succeeded"),
    ("deleted after a failure", pod_of(a=0, b=1), {"policy": "OnFailure", "ending": True}, "Failed"),
    ("deleted before its start", pod_of(a=None), {"ending": True}, "Failed"),
    ("ended by the agent", pod_of(a=0), {"verdict": DEADLINE_EXCEEDED, "ending": True}, "Failed"),
    ("still to be ended by the agent", pod_of(a=True), {"verdict": DEADLINE_EXCEEDED}, "Running"),
]


@pytest.mark.parametrize(
    ("containers", "more", "expected"), [row[1:] for row in PHASES], ids=[row[0] for row in PHASES]
)
def test_phases(containers: list[Container], more: dict[str, Any], expected: str) -> None:
    assert phase(view(containers, **more)) == expected


CONDITIONS: list[tuple[list[Container], dict[str, Any], str, tuple[str, str, str]]] = [
    (
        pod_of(init=0, init2=True, side=None, a=None),
        {},
        "Initialized",
        ("False", "ContainersNotInitialized", "containers with incomplete status: [init2 side]"),
    ),
    (pod_of(init=0, side=True, a=None), {}, "Initialized", ("True", "", "")),
    (pod_of(init=0, side=1, a=True), {}, "Initialized", ("True", "", "")),
    (pod_of(a=0), {}, "Initialized", ("True", "PodCompleted", "")),
    (pod_of(a=True, b=True), {}, "Ready", ("True", "", "")),
    (
        pod_of(init=0, side=True, a=True, b=True),
        {"unready": {"side": "", "b": ""}},
        "Ready",
        ("False", "ContainersNotReady", "containers with unready status: [side b]"),
    ),
    (pod_of(a=0), {}, "Ready", ("False", "PodCompleted", "")),
    (pod_of(a=1), {}, "ContainersReady", ("False", "PodFailed", "")),
    (pod_of(a=True), {}, "PodReadyToStartContainers", ("True", "", "")),
    (pod_of(a=1), {}, "PodReadyToStartContainers", ("False", "", "")),
    (pod_of(a=1), {}, "PodScheduled", ("True", "", "")),
    (
        pod_of(a=True),
        {"gates": ["x/y"]},
        "Ready",
        ("False", "ReadinessGatesNotReady", 'corresponding condition of pod readiness gate "x/y" does not exist.'),
    ),
    (pod_of(a=True), {"gates": ["x/y"]}, "ContainersReady", ("True", "", "")),
    (
        pod_of(a=True),
        {"gates": ["x/y"], "conditions": [{"type": "x/y", "status": "False"}]},
        "Ready",
        ("False", "ReadinessGatesNotReady", 'the status of pod readiness gate "x/y" is not "True", but False'),
    ),
    (pod_of(a=True), {"gates": ["x/y"], "conditions": [{"type": "x/y", "status": "True"}]}, "Ready", ("True", "", "")),
    (pod_of(a=1), {"gates": ["x/y"]}, "Ready", ("False", "PodFailed", "")),
]


@pytest.mark.parametrize(("containers", "more", "type", "expected"), CONDITIONS)
def test_conditions(
    containers: list[Container], more: dict[str, Any], type: str, expected: tuple[str, str, str]
) -> None:
    assert condition(pod_status(view(containers, **more)), type) == expected


@pytest.mark.parametrize(
    ("verdict", "disrupted"),
    [(SHUTDOWN, True), (PREEMPTED, True), (DEADLINE_EXCEEDED, False)],
    ids=lambda v: str(v)[:30],
)
def test_a_pod_ended_by_the_agent_has_the_cause_in_its_status(verdict: Termination, disrupted: bool) -> None:
    running = pod_status(view(pod_of(a=True), verdict=verdict))
    assert "reason" not in running
    assert len(running["conditions"]) == 5
    over = pod_status(view(pod_of(a=143), verdict=verdict, ending=True))
    assert (over["phase"], over["reason"], over["message"]) == ("Failed", verdict.reason, verdict.message)
    assert ("DisruptionTarget" in {c["type"] for c in over["conditions"]}) is disrupted
    if disrupted:
        assert condition(over, "DisruptionTarget") == ("True", "TerminationByKubelet", verdict.disruption)


@pytest.mark.parametrize(("stands", "written"), [("True", False), ("False", True)])
def test_the_agent_leaves_the_first_cause_of_a_disruption(stands: str, written: bool) -> None:
    """KEP-3329: a condition that is True already is not updated."""
    first = {"type": "DisruptionTarget", "status": stands, "reason": "Mine", "message": "first"}
    over = pod_status(view(pod_of(a=143), conditions=[first], verdict=SHUTDOWN, ending=True))
    assert ("DisruptionTarget" in {c["type"] for c in over["conditions"]}) is written


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    old = [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"},
        {"type": "Initialized", "status": "False", "lastTransitionTime": "2025-01-01T00:00:00Z"},
        {"type": "PodScheduled", "status": "True"},
    ]
    shown = {c["type"]: c for c in pod_status(view(pod_of(a=True), conditions=old))["conditions"]}
    assert shown["Ready"]["lastTransitionTime"] == "2025-01-01T00:00:00Z"
    assert shown["Initialized"]["lastTransitionTime"] == "2026-01-01T00:01:30Z"
    assert shown["PodScheduled"]["lastTransitionTime"] == "2026-01-01T00:01:30Z"
    assert {c["observedGeneration"] for c in shown.values()} == {2}


def test_an_equal_status_is_not_written() -> None:
    made = pod_status(view(pod_of(a=True)))
    assert status_patch(made, made) == {}
    assert status_patch({}, made) == made
    # An API server omits nulls and empty values; a generation and times of conditions are no change.
    stored = {**made, "observedGeneration": 1, "containerStatuses": [dict(made["containerStatuses"][0])]}
    del stored["containerStatuses"][0]["lastState"], stored["containerStatuses"][0]["imageID"]
    stored["conditions"] = [{**c, "lastTransitionTime": "2025-01-01T00:00:00Z"} for c in made["conditions"]]
    stored["conditions"].append({"type": "of/others", "status": "True"})
    assert status_patch(stored, made) == {}
    ended = pod_status(view(pod_of(a=0)))
    changed = status_patch(stored, ended)
    assert changed.keys() == {"phase", "containerStatuses", "conditions", "observedGeneration"}
    types = [c["type"] for c in changed["conditions"]]
    assert types == ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"]


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s")])
def test_durations_read_as_go_prints_them(seconds: int, text: str) -> None:
    assert go_duration(timedelta(seconds=seconds)) == text
