"""Pods from start to end as the node agent runs and reports them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from queue_manager.api.api_resources import PODS
from tests.local.agent.world import World, condition, running, terminated, waiting
from tests.waiting import until


async def test_a_command_that_succeeds_makes_a_succeeded_pod(world: World) -> None:
    async with world.running():
        await world.create("echo hello")
        pod = await world.over()
    status = pod["status"]
    assert status["phase"] == "Succeeded"
    assert terminated(pod)["exitCode"] == 0
    assert terminated(pod)["reason"] == "Completed"
    assert terminated(pod)["startedAt"] <= terminated(pod)["finishedAt"]
    assert status["startTime"] <= terminated(pod)["startedAt"]
    assert (condition(pod, "Ready")["status"], condition(pod, "Ready")["reason"]) == ("False", "PodCompleted")
    assert condition(pod, "Initialized")["reason"] == "PodCompleted"
    assert condition(pod, "PodScheduled")["status"] == "True"
    assert condition(pod, "PodReadyToStartContainers")["status"] == "False"
    assert await world.output(pod) == "hello\n"


async def test_a_running_pod_is_ready_and_has_an_address(world: World) -> None:
    async with world.running():
        await world.create("sleep 1000")
        pod = await world.when(running)
    status = pod["status"]
    assert status["phase"] == "Running"
    assert status["podIP"] == status["hostIP"] == "127.0.0.1"
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"):
        assert condition(pod, kind)["status"] == "True"
    assert status["containerStatuses"][0]["ready"] is True
    assert status["containerStatuses"][0]["started"] is True
    assert status["containerStatuses"][0]["restartCount"] == 0


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -9 $$$$", 137), ("kill -15 $$$$", 143)])
async def test_a_failure_keeps_its_exit_code(world: World, script: str, code: int) -> None:
    async with world.running():
        await world.create(script)
        pod = await world.over()
    assert pod["status"]["phase"] == "Failed"
    assert (terminated(pod)["exitCode"], terminated(pod)["reason"]) == (code, "Error")
    assert condition(pod, "ContainersReady")["reason"] == "PodFailed"


@pytest.mark.parametrize(
    ("policy", "message"),
    [("File", "boom: no file"), ("FallbackToLogsOnError", "starts\nboom: no file\n")],
)
async def test_a_failed_container_leaves_the_end_of_its_log_as_message(world: World, policy: str, message: str) -> None:
    async with world.running():
        script = "echo starts; echo boom: no file >&2; echo; exit 3"
        await world.create(script, container={"terminationMessagePolicy": policy})
        pod = await world.over()
        assert terminated(pod)["message"] == message


@pytest.mark.parametrize(
    ("program", "unbuffered", "message"),
    [
        ('print("epoch 1"); open("x.csv")', "", "FileNotFoundError: [Errno 2] No such file or directory: 'x.csv'"),
        ('import sys; print("epoch 1"); sys.exit("cannot open x.csv")', None, "cannot open x.csv"),
        ('import sys; print("epoch 1"); sys.exit("cannot open x.csv")', "", "cannot open x.csv"),
    ],
)
async def test_the_message_of_a_python_program_is_its_error(
    world: World, program: str, unbuffered: str | None, message: str
) -> None:
    """Also of one that buffers its output, which it writes after the error."""
    env = [] if unbuffered is None else [{"name": "PYTHONUNBUFFERED", "value": unbuffered}]
    async with world.running():
        await world.create(container={"command": [sys.executable, "-c", program], "env": env})
        pod = await world.over()
        assert terminated(pod)["message"] == message


async def test_a_container_that_succeeds_leaves_no_message(world: World) -> None:
    async with world.running():
        await world.create("echo done")
        pod = await world.over()
        assert "message" not in terminated(pod)


async def test_a_pod_costs_two_status_writes_and_its_binding(world: World) -> None:
    async with world.running():
        await world.create("while ! [ -e stop ]; do sleep 0.02; done")
        first = await world.when(running)
        (world.files(first) / "work" / "stop").touch()
        last = await world.over()
    created_bound_running_over = 4
    assert world.writes_of(last) == created_bound_running_over


async def test_the_environment_has_only_variables_of_the_pod(world: World) -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "end", "value": "kept"},
        {"name": "my.var-1", "value": "a b=c"},
        {"name": "files", "value": "kept"},
        {"name": "B", "value": "$(A)2 $$(A) $(MISSING)"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ]
    container = {"env": env, "command": ["env"], "resources": {"limits": {"cpu": "1500m"}}}
    async with world.running():
        await world.create(container=container)
        pod = await world.over()
    seen = dict(line.split("=", 1) for line in (await world.output(pod)).splitlines())
    home = str(world.files(pod).resolve() / "work")
    assert seen.pop("SLUICE_POD_UID") == pod["metadata"]["uid"]
    assert seen.pop("SLUICE_POD_DIR") == str(world.files(pod).resolve().parent)
    assert seen.pop("PWD") == home  # set by the shell that starts it
    assert seen.pop("PATH").endswith("/usr/bin:/sbin:/bin")
    assert seen == {
        "HOME": home, "HOSTNAME": "pod", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1",
        "end": "kept", "files": "kept", "A": "1", "my.var-1": "a b=c",
        "B": "12 $(A) $(MISSING)",
        "NAME": "pod", "NODE": "node-1", "IP": "127.0.0.1", "CPU": "1500",
    }  # fmt: skip


async def test_arguments_expand_variables(world: World) -> None:
    container = {"command": ["echo"], "args": ["$(WHO)", "a b"], "env": [{"name": "WHO", "value": "me"}]}
    async with world.running():
        await world.create(container=container)
        pod = await world.over()
    assert await world.output(pod) == "me a b\n"


async def test_a_container_inherits_no_open_file_of_the_agents_parent(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    with secret.open("w") as file:
        os.set_inheritable(file.fileno(), True)
        async with world.running():
            await world.create("ls -l /proc/self/fd")
            pod = await world.over()
    assert str(secret) not in await world.output(pod)


async def test_a_container_starts_in_its_own_empty_directory(world: World) -> None:
    async with world.running():
        await world.create("pwd; ls -A")
        pod = await world.over()
    assert await world.output(pod) == f"{world.files(pod).resolve()}/work\n"


async def test_init_containers_run_in_order_before_the_others(world: World) -> None:
    shared = str(world.directory / "order")
    init = [{"name": n, "image": "x", "command": ["sh", "-c", f"echo {n} >>{shared}"]} for n in ("one", "two")]
    async with world.running():
        await world.create(f"echo main >>{shared}", initContainers=init)
        pod = await world.over()
    assert (world.directory / "order").read_text().split() == ["one", "two", "main"]
    assert pod["status"]["phase"] == "Succeeded"
    assert [terminated(pod, name)["reason"] for name in ("one", "two", "main")] == ["Completed"] * 3
    assert all(status["ready"] for status in pod["status"]["initContainerStatuses"])


async def test_a_failed_init_container_fails_the_pod(world: World) -> None:
    async with world.running():
        await world.create(initContainers=[{"name": "init", "image": "x", "command": ["false"]}])
        pod = await world.over()
    assert pod["status"]["phase"] == "Failed"
    assert waiting(pod)["reason"] == "PodInitializing"
    assert condition(pod, "Initialized")["reason"] == "ContainersNotInitialized"


async def test_a_sidecar_runs_beside_and_ends_after_the_others(world: World) -> None:
    sidecar = {"name": "side", "image": "x", "restartPolicy": "Always", "command": ["sleep", "1000"]}
    async with world.running():
        await world.create("echo done", initContainers=[sidecar])
        pod = await world.over()
    assert pod["status"]["phase"] == "Succeeded"
    assert terminated(pod, "side")["exitCode"] == 143


async def test_on_failure_restarts_in_place(world: World) -> None:
    async with world.running():
        await world.create("[ -e tried ] || { touch tried; exit 4; }; echo ok", restartPolicy="OnFailure")
        pod = await world.over()
    status = pod["status"]["containerStatuses"][0]
    assert pod["status"]["phase"] == "Succeeded"
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 4
    assert await world.output(pod) == "ok\n"


async def test_a_crash_loop_waits(world: World) -> None:
    async with world.running():
        await world.create("exit 1", restartPolicy="OnFailure")
        pod = await world.when(waiting)
        status = pod["status"]["containerStatuses"][0]
        uid = pod["metadata"]["uid"]
        message = f"back-off 10s restarting failed container=main pod=pod_default({uid})"
        assert status["state"]["waiting"] == {"reason": "CrashLoopBackOff", "message": message}
        assert pod["status"]["phase"] == "Running"
        assert condition(pod, "Ready")["message"] == "containers with unready status: [main]"
        assert await world.output(pod, previous=True) == ""


async def test_a_pod_past_its_deadline_fails(world: World) -> None:
    async with world.running():
        await world.create("sleep 1000", activeDeadlineSeconds=1)
        pod = await world.over()
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["reason"] == "DeadlineExceeded"
    assert pod["status"]["message"] == "Pod was active on the node longer than the specified deadline"
    assert terminated(pod)["exitCode"] == 143


async def test_a_container_without_command_waits_with_err_image_pull(world: World) -> None:
    async with world.running():
        await world.create(container={"command": None})
        pod = await world.when(lambda pod: waiting(pod).get("reason") == "ErrImagePull")
    assert pod["status"]["phase"] == "Pending"
    assert "runs `command` as a local process" in waiting(pod)["message"]


async def test_a_container_that_cannot_be_created_waits(world: World) -> None:
    container = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}]}
    async with world.running():
        await world.create(container=container)
        pod = await world.when(lambda pod: waiting(pod).get("reason") == "CreateContainerConfigError")
    assert waiting(pod)["message"] == 'configmap "cm" not found'
    assert pod["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"command": ["nosuch"]}, 'exec: "nosuch": executable file not found in $PATH'),
        ({"command": ["/no"]}, 'exec: "/no": stat /no: no such file or directory'),
        ({"command": ["/etc/passwd"]}, 'exec: "/etc/passwd": permission denied'),
        ({"workingDir": "/no/dir"}, 'workingDir "/no/dir": no such directory on this machine'),
    ],
)
async def test_a_container_that_cannot_be_executed_ends_with_start_error(
    world: World, container: dict[str, object], message: str
) -> None:
    async with world.running():
        await world.create(container=container)
        pod = await world.over()

        async def reported() -> bool:
            return ("Warning", "Failed", f"Error: {message}") in await world.events()

        await until(reported)
    assert pod["status"]["phase"] == "Failed"
    end = terminated(pod)
    assert (end["exitCode"], end["reason"], end["message"]) == (128, "StartError", message)


async def test_a_program_that_is_installed_later_is_started_by_the_restart_policy(world: World) -> None:
    """Failed starts count as restarts, also for a later agent."""
    program = world.directory / "program"
    async with world.running():
        await world.create(container={"command": [str(program)]}, restartPolicy="OnFailure")
        await world.when(lambda pod: waiting(pod).get("reason") == "CrashLoopBackOff")
    async with world.running():
        pod = await world.when(lambda pod: waiting(pod).get("reason") == "CrashLoopBackOff")
        (status,) = pod["status"]["containerStatuses"]
        assert (status["restartCount"], status["lastState"]["terminated"]["reason"]) == (1, "StartError")
        program.write_text("#!/bin/sh\necho installed\n")
        program.chmod(0o700)
        pod = await world.over()
        assert await world.output(pod) == "installed\n"
    assert pod["status"]["phase"] == "Succeeded"
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 2


async def test_a_working_directory_below_the_containers_own_is_created(world: World) -> None:
    async with world.running():
        await world.create("touch made; pwd", container={"workingDir": "sub/dir"})
        pod = await world.over()
        assert Path((await world.output(pod)).removesuffix("\n")).parts[-3:] == ("work", "sub", "dir")
    assert (world.files(pod) / "work" / "sub" / "dir" / "made").exists()


def probe(command: str, **more: int) -> dict[str, object]:
    return {"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1, **more}


async def test_a_container_is_ready_while_its_readiness_probe_succeeds(world: World) -> None:
    container = {"readinessProbe": probe("[ -e ready ]", failureThreshold=1)}
    async with world.running():
        await world.create("sleep 1000", container=container)
        pod = await world.when(running)
        assert pod["status"]["containerStatuses"][0]["ready"] is False
        assert condition(pod, "Ready")["reason"] == "ContainersNotReady"
        mark = world.files(pod) / "work" / "ready"
        mark.touch()
        await world.when(lambda pod: condition(pod, "Ready")["status"] == "True")
        mark.unlink()
        await world.when(lambda pod: condition(pod, "Ready")["status"] == "False")


async def test_a_startup_probe_keeps_a_container_unready_until_it_succeeds(world: World) -> None:
    async with world.running():
        await world.create("sleep 0.5; touch up; sleep 1000", container={"startupProbe": probe("[ -e up ]")})
        pod = await world.when(running)
        assert condition(pod, "Ready")["status"] == "False"
        await world.when(lambda pod: condition(pod, "Ready")["status"] == "True")


async def test_a_pod_with_a_readiness_gate_waits_for_its_condition(world: World) -> None:
    async with world.running():
        await world.create("sleep 1000", readinessGates=[{"conditionType": "example.com/warm"}])
        pod = await world.when(running)
        assert condition(pod, "ContainersReady")["status"] == "True"
        assert condition(pod, "Ready")["reason"] == "ReadinessGatesNotReady"
        warm = {"status": {"conditions": [{"type": "example.com/warm", "status": "True"}]}}
        await world.client.patch(
            PODS, "default", "pod", warm, subresource="status", content_type="application/strategic-merge-patch+json"
        )
        await world.when(lambda pod: condition(pod, "Ready")["status"] == "True")


async def test_a_probe_that_hangs_counts_as_failed(world: World) -> None:
    container = {"readinessProbe": probe("touch asked; sleep 1000", timeoutSeconds=1)}
    async with world.running():
        await world.create("while [ ! -e asked ]; do sleep 0.02; done; sleep 1.5", container=container)
        pod = await world.over()
    assert pod["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize(
    ("name", "asks", "message"),
    [
        ("readinessProbe", probe("echo not yet; exit 3"), "Readiness probe failed: not yet\n"),
        ("startupProbe", probe("echo no >&2; exit 1"), "Startup probe failed: no\n"),
        (
            "readinessProbe",
            probe("sleep 1000 & sleep 1000", timeoutSeconds=1),
            'Readiness probe failed: command timed out: "sh -c sleep 1000 & sleep 1000" timed out after 1s',
        ),
        (
            "readinessProbe",
            {"exec": {"command": ["/no/such/probe"]}},
            "Readiness probe errored and resulted in unknown state: "
            'exec: "/no/such/probe": stat /no/such/probe: no such file or directory',
        ),
        (
            "readinessProbe",
            {"exec": {"command": ["nosuchprobe"]}},
            "Readiness probe errored and resulted in unknown state: "
            'exec: "nosuchprobe": executable file not found in $PATH',
        ),
    ],
)
async def test_a_failing_probe_is_an_event_with_the_cause(
    world: World, name: str, asks: dict[str, object], message: str
) -> None:
    """In a kubelet's words, as `kubectl describe pod` shows them."""
    async with world.running():
        await world.create("sleep 1000", container={name: asks})
        await until(lambda: _has_event(world, ("Warning", "Unhealthy", message)))


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("echo warning; echo cannot reach db:5432; echo; exit 1", "Readiness probe failed: cannot reach db:5432"),
        ("exit 7", "Readiness probe failed: exit 7"),
    ],
)
async def test_the_status_of_an_unready_pod_has_the_failure_of_its_probe(
    world: World, script: str, failure: str
) -> None:
    message = f"containers with unready status: [main]; {failure}"
    async with world.running():
        await world.create("sleep 1000", container={"readinessProbe": probe(f"[ -e up ] && exit 0; {script}")})
        pod = await world.when(lambda pod: condition(pod, "ContainersReady").get("message") == message)
        (world.files(pod) / "work" / "up").touch()
        pod = await world.when(lambda pod: condition(pod, "ContainersReady")["status"] == "True")
        assert not condition(pod, "ContainersReady").get("message")


async def _has_event(world: World, event: tuple[str, str, str]) -> bool:
    return event in await world.events()


async def test_a_probe_that_keeps_failing_is_counted_on_one_event(world: World) -> None:
    async with world.running():
        await world.create("sleep 1000", container={"readinessProbe": probe("echo no; exit 1")})

        async def counted() -> bool:
            return [e["count"] for e in await world.raw_events() if e["reason"] == "Unhealthy"] == [3]

        await until(counted)
