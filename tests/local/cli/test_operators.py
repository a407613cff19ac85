"""Operators' commands on Jobs and queues, as processes, on a cluster of one machine."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from job_controller.model import Job, Pod
from queue_manager.api.api_resources import JOBS, LOCAL_QUEUES, PODS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.cli.login_name import login_name
from queue_manager.engine.transport_protocol import Request
from queue_manager.lifecycle.pod_causes import LATE_RETRY
from queue_manager.visibility.deactivated_jobs import job_name
from tests.local.cli.conftest import JOB, User
from tests.local.cluster.conftest import EMBEDDED, Up, sluice
from tests.local.cluster.test_stories import until_workload
from tests.waiting import until

MISSING = "[/no/such/program]"


@EMBEDDED
async def test_a_job_that_never_becomes_ready_is_listed_and_reactivated(user: Callable[..., User]) -> None:
    me = user("4s")
    me.submit("broken", command=MISSING)
    given_up = await me.until_state("broken", "Deactivated")
    assert given_up["reason"] == "DeactivatedDueToRequeuingLimitExceeded"
    assert [rung["number"] for rung in given_up["retries"]["attempts"]] == [1, 2]

    (row,) = me.json("deactivated")
    assert (row["name"], row["why"], row["budgetAttempts"]) == ("broken", "pods not ready", 2)
    assert "/no/such/program" in row["lastError"]
    for queue in ("user-queue", "cq/cluster-queue"):
        assert "submit it again (sluice cancel broken)" in me.says("deactivated", "-q", queue)
    for command in ("deactivated", "ps"):
        lost = me.run(command, "-q", "user-quee")
        assert (lost.returncode, lost.stdout) == (2, "")
        assert "LocalQueue user-quee does not exist; did you mean user-queue?" in lost.stderr

    would = me.says("reactivate", "broken", "--dry-run")
    assert would.startswith("default/broken would be reactivated: it would be requeued in user-queue")
    assert me.json("show", "broken")["state"] == "Deactivated"

    assert me.says("reactivate", "broken") == (
        "default/broken reactivated: requeued in user-queue, with a new budget of retries\n"
    )
    given_up = await me.until_state("broken", "Deactivated")
    assert [rung["number"] for rung in given_up["retries"]["attempts"]] == [1, 2, 3, 4]


@EMBEDDED
async def test_who_deactivated_a_job_is_named_until_the_next_change(user: Callable[..., User]) -> None:
    me = user()
    me.submit("parked")
    await me.until_state("parked", "Running")
    me.says("deactivate", "parked")
    async with me.up.client() as client:
        await until_workload(client, "parked", lambda w: w.status.admission is None, "its quota is free")
    shown = await me.until_state("parked", "Deactivated")
    (row,) = me.json("deactivated")
    assert (row["why"], row["cause"] == "by a user") == ("by a user", False)
    assert shown["message"] == f"The workload is deactivated {row['cause']}"
    assert row["cause"] in me.says("ps")
    if isinstance(me.up, Up):  # the history of another cluster is read from its own store
        assert row["cause"] == f"by {login_name()}"
        await until(lambda: row["cause"] in me.says("history", "parked"), "the history names the user")
    me.says("reactivate", "parked")
    if isinstance(me.up, Up):

        def by() -> list[str]:
            return [step["cause"] for step in me.json("history", "parked") if step["step"] == "Reactivated"]

        await until(lambda: by() == [f"by {login_name()}"], "the history names who reactivated it")
    async with me.up.client() as client:
        (workload,) = await client.list(WORKLOADS, "default", type=Workload)
        await client.patch(WORKLOADS, *workload.metadata.key, {"spec": {"active": False}})
    await me.until_state("parked", "Deactivated")
    assert [row["cause"] for row in me.json("deactivated")] == ["by a user"]


@EMBEDDED
async def test_a_crashing_job_is_listed_with_exit_code_and_last_log_line(user: Callable[..., User]) -> None:
    """The timeout is shorter than the wait before its retry."""
    me = user("4s")
    me.submit("crash", command='[sh, -c, "echo starts; echo no such column >&2; exit 3"]')
    given_up = await me.until_state("crash", "Deactivated")
    (row,) = me.json("deactivated")
    error = "exit 3: no such column"
    assert (row["why"], row["exitCode"], row["lastError"]) == ("late retry", 3, f"{error}{LATE_RETRY}")
    longer = "raise waitForPodsReady.timeout above the wait before a retry"
    assert row["action"] == f"fix what sluice logs crash --failed shows, or {longer}, then: sluice reactivate crash"
    assert given_up["lastError"] == error
    (listed,) = me.json("ps")
    assert (listed["cause"], listed["exitCode"], given_up["exitCode"]) == (row["lastError"], 3, 3)
    assert me.run("logs", "crash", "--failed").returncode == 0


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)  # others have a store of their own
async def test_the_history_of_a_released_queue_is_that_of_ps(user: Callable[..., User]) -> None:
    """The Job `wait` is held, deactivated while it is held, and reactivated before it was ever admitted."""
    me = user()
    me.submit("first", cpu="2")
    await me.until_state("first", "Running")

    def steps() -> list[tuple[str, int]]:
        return [(step["step"], step["attempt"]) for step in me.json("history", "wait")]

    def listed() -> tuple[str, str, int]:
        (row,) = [row for row in me.json("history") if row["name"] == "wait"]
        return row["state"], ": ".join(filter(None, (row["reason"], row["message"]))), row["attempts"]

    me.says("hold", "user-queue")
    me.submit("wait")
    await until(lambda: steps()[1:] == [("Held", 0)], "the Job is held before its first attempt")
    assert listed() == ("Held", "Suspended: LocalQueue user-queue is held", 0)
    held = "LocalQueue user-queue is held (sluice release user-queue)"
    assert me.json("show", "wait")["obstacle"] == held
    for command in (["ps"], ["show", "wait"], ["explain", "wait"]):
        assert held in me.says(*command)
    assert "is inactive" not in me.says("show", "wait").partition("HISTORY")[0]
    me.says("release", "user-queue")
    await until(lambda: steps()[1:] == [("Held", 0), ("Resumed", 0)], "the queue is released")
    assert listed() == ("Pending", "", 0)

    me.says("hold", "user-queue")
    await until(lambda: steps()[-1] == ("Held", 0), "the Job is held again")
    me.says("deactivate", "wait")
    await until(lambda: steps()[-1] == ("Deactivated", 0), "the Job is deactivated")
    assert listed()[0] == "Deactivated"
    me.says("reactivate", "wait")
    await until(lambda: steps()[-2:] == [("Reactivated", 0), ("Held", 0)], "the Job is held after its reactivation")
    me.says("release", "user-queue")
    me.says("cancel", "first")
    await until(lambda: steps()[-2:] == [("Admitted", 1), ("PodsReady", 1)], "the first attempt has number 1")


@EMBEDDED
async def test_all_deactivated_jobs_of_a_queue_are_reactivated_at_once_or_staggered(
    user: Callable[..., User],
) -> None:
    me = user()
    for name in ("one", "two"):
        me.submit(name)
    for name in ("one", "two"):
        await me.until_state(name, "Running")
    printed = me.says("deactivate", "one", "two")
    assert printed.count("its pods and logs are deleted, then its quota is released") == 2
    assert me.says("deactivate", "one").startswith("default/one unchanged: it is deactivated already")
    for name in ("one", "two"):
        assert (await me.until_state(name, "Deactivated"))["reason"] in ("Deactivated", "")
    done = me.json("reactivate", "--all", "-q", "user-queue", "--stagger", "10ms")
    assert sorted((row["name"], row["result"]) for row in done) == [("one", "reactivated"), ("two", "reactivated")]
    for name in ("one", "two"):
        await me.until_state(name, "Running")
    assert me.says("reactivate", "--all", "-q", "cq/cluster-queue") == (
        "no deactivated Jobs in ClusterQueue cluster-queue\n"
    )
    assert "it is active" in me.says("reactivate", "one")


@EMBEDDED
async def test_ctrl_c_between_two_changes_reports_the_first_and_skips_the_second(user: Callable[..., User]) -> None:
    me = user()
    for name in ("one", "two"):
        me.submit(name)
        me.says("deactivate", name)
    done = await me.interrupt("reactivate", "--all", "-q", "user-queue", "--stagger", "10m", "-o", "json")
    assert (done.returncode, done.stderr) == (130, "")
    row, other = json.loads(done.stdout)
    assert row["result"] in ("reactivated", "failed")  # "failed" if it was interrupted before the response
    (left,) = me.json("deactivated")
    assert (other["name"], other["result"]) == (left["name"], "not done")
    assert {row["name"], left["name"]} == {"one", "two"}


@EMBEDDED
async def test_a_staggered_reactivation_pauses_and_an_interruption_says_how_far_it_came(
    user: Callable[..., User],
) -> None:
    """The times are those at which the API server has the change; the pause is longer than their inaccuracy."""
    me, pause, names = user(), 2.0, ["a", "b", "c", "d"]
    for name in names:
        me.submit(name)
    me.says("deactivate", *names)
    for name in names:
        await me.until_state(name, "Deactivated")
    would = me.says("reactivate", "--all", "-q", "user-queue", "--stagger", "3s", "--dry-run")
    assert would.splitlines()[4:] == ["one every 3s, 9s in all"]
    assert len(me.json("reactivate", "--all", "-q", "user-queue", "--stagger", "3s", "--dry-run")) == 4
    active: dict[str, float] = {}
    async with me.up.client() as client:

        async def three_are_active() -> bool:
            for workload in await client.list(WORKLOADS, "default", type=Workload):
                if workload.spec.active:
                    active.setdefault(job_name(workload), time.monotonic())
            return len(active) >= 3

        command = ("reactivate", "--all", "-q", "user-queue", "--stagger", f"{pause:.0f}s", "-o", "json")
        with me.begin(*command) as process:
            await until(three_are_active, "three are reactivated")
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=60)
    times = list(active.values())
    assert all(pause - 0.5 < later - earlier < 3 * pause for earlier, later in pairwise(times))
    assert (process.returncode, error) == (130, "")
    results = {row["name"]: row["result"] for row in json.loads(out)}
    (left,) = [row["name"] for row in me.json("deactivated")]
    assert results.pop(left) == "not done"
    assert list(results) == list(active)
    assert set(results.values()) <= {"reactivated", "failed"}  # "failed" if it was interrupted before the response
    assert list(results.values())[:2] == ["reactivated", "reactivated"]


async def test_hold_drain_and_release_of_queues(
    user: Callable[..., User],
) -> None:
    me = user()
    me.submit("runs")
    await me.until_state("runs", "Running")
    assert me.says("hold", "user-queue") == (
        "LocalQueue default/user-queue held: no more Jobs start (0 pending, 1 running); "
        "running Jobs continue; undo: sluice release user-queue\n"
    )
    late = me.run("submit", "-f", "config/samples/hello.yaml")
    assert "LocalQueue user-queue is held (sluice release user-queue)" in late.stdout
    held = await me.until_state("hello", "Pending")
    assert "sluice release user-queue" in held["next"][0]["what"]
    assert me.json("show", "runs")["state"] == "Running"
    assert me.says("hold", "user-queue").startswith("LocalQueue default/user-queue unchanged: it is held already")

    assert "running Jobs are stopped" in me.says("drain", "cq/cluster-queue")
    await me.until_state("runs", "Pending")
    still = me.says("release", "user-queue")
    assert "ClusterQueue cluster-queue is drained (sluice release cq/cluster-queue)" in still
    again = me.says("release", "user-queue")
    assert again == (
        "LocalQueue default/user-queue unchanged: it is neither held nor drained; still no Jobs start: "
        "ClusterQueue cluster-queue is drained (sluice release cq/cluster-queue)\n"
    )
    assert "Jobs start again as quota allows" in me.says("release", "cluster-queue", "--cluster-queue")
    await me.until_state("runs", "Running")
    await me.until_state("hello", "Running", "Succeeded")


async def test_a_dry_run_is_checked_by_the_server_and_changes_nothing(user: Callable[..., User]) -> None:
    me = user()
    me.submit("runs")
    await me.until_state("runs", "Running")
    assert me.says("drain", "user-queue", "--dry-run") == (
        "LocalQueue default/user-queue would be drained: no more Jobs would start (0 pending, 1 running); "
        "running Jobs would be stopped and requeued, their logs deleted\n"
    )
    assert "would be deactivated: its pods and logs would be deleted" in me.says("deactivate", "runs", "--dry-run")
    assert "unchanged" in me.says("release", "user-queue")
    assert me.json("show", "runs")["state"] == "Running"


async def test_a_job_whose_local_queue_was_deleted_is_listed_and_counted(
    user: Callable[..., User],
) -> None:
    me = user()
    me.submit("runs")
    await me.until_state("runs", "Running")
    async with me.up.client() as client:
        await client.delete(LOCAL_QUEUES, "default", "user-queue")
    [row] = me.json("ps", "-q", "cq/cluster-queue")
    assert (row["name"], row["clusterQueue"]) == ("runs", "cluster-queue")
    for change in ("hold", "drain"):
        assert "(0 pending, 1 running)" in me.says(change, "cq/cluster-queue", "--dry-run")


@EMBEDDED
async def test_impossible_changes_and_unknown_names_are_refused_with_a_hint(user: Callable[..., User]) -> None:
    me = user()
    me.submit("ends", command="['true']")
    await me.until_state("ends", "Succeeded")
    for command in ("deactivate", "reactivate"):
        done = me.run(command, "ends")
        assert (done.returncode, done.stdout) == (2, "")
        assert "default/ends refused: it has ended" in done.stderr
    for arguments, hint in (
        (("explain", "end"), "no Job end in namespace default; did you mean ends?"),
        (("show", "end"), "no Job end in namespace default; did you mean ends?"),
        (("show", "elsewhere/ends"), "there is default/ends"),
        (("reactivate", "nothing-like-it"), "`sluice ps` lists them all"),
        (("deactivate", "nothing-like-it"), "`sluice ps` lists them all"),
        (("hold", "cq/cluster-quee"), "did you mean cq/cluster-queue?"),
        (("hold", "cluster-queue"), "did you mean cq/cluster-queue?"),
        (("hold", "cq/user-queue"), "did you mean user-queue?"),
        (
            ("reactivate", "--all", "-q", "nope"),
            "LocalQueue nope does not exist in namespace default; `sluice queues` lists them",
        ),
    ):
        done = me.run(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert hint in done.stderr
    for arguments in (("reactivate",), ("reactivate", "--all"), ("reactivate", "ends", "--all", "-q", "user-queue")):
        assert me.run(*arguments).returncode == 2


@EMBEDDED
async def test_show_prints_the_indexes_of_an_indexed_job_and_the_next_retry(user: Callable[..., User]) -> None:
    me = user()
    script = "case $JOB_COMPLETION_INDEX in 1) exit 3;; 3) sleep 600;; esac"
    spec = "completions: 4\n  parallelism: 4\n  completionMode: Indexed\n  backoffLimitPerIndex: 2"
    me.submit("many", command=f'[sh, -c, "{script}"]', spec=spec)

    async with me.up.client() as client:

        async def settled() -> bool:
            status = (await client.get(JOBS, "default", "many", type=Job)).status
            phases = [pod.status.phase for pod in await client.list(PODS, "default", type=Pod)]
            return (status.succeeded, status.ready, phases.count("Failed")) == (2, 1, 1)

        await until(settled, "two have succeeded, one has failed, one runs")
    (failed,) = me.json("show", "many")["indexes"]["troubled"]
    assert (failed["index"], failed["exitCodes"], failed["state"]) == (1, [3], "in backoff")
    shown = me.says("show", "many")
    assert "0  .b.r\n. 2 succeeded   r 1 running   b 1 in backoff" in shown
    assert "the next pod of index 1 is created" in shown


@EMBEDDED
async def test_show_names_the_deadline_that_the_manager_has_published(user: Callable[..., User]) -> None:
    me = user("10m")
    me.submit("broken", command=MISSING)
    await me.until_state("broken", "Backoff")
    for printed in (me.says("show", "broken"), me.says("show", "broken", "--config", str(me.config))):
        assert "the Job is evicted if its pods are not all ready (retry 1 of 1 follows)" in printed
        assert "/no/such/program" in printed


HELLO = Path("config/samples/hello.yaml").read_text()
NO_GPU_QUOTA = "cannot start: ClusterQueue cluster-queue has no quota for nvidia.com/gpu"


@EMBEDDED
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HELLO.replace("cpu: 500m", "cpu: 64"), "can never start: asks 64 cpu, queue limit 2"),
        (HELLO.replace("requests:", "limits: {nvidia.com/gpu: 1}\n            requests:"), NO_GPU_QUOTA),
        (
            HELLO.replace("labels:", "labels:\n    kueue.x-k8s.io/priority-class: urgnt"),
            "cannot start: WorkloadPriorityClass urgnt does not exist",
        ),
    ],
    ids=["too large", "a resource without quota", "a mistyped priority class"],
)
async def test_submit_and_show_agree_on_a_job_that_cannot_start(
    user: Callable[..., User], text: str, says: str
) -> None:
    me = user()
    done = me.run("submit", "-f", "-", "-o", "json", stdin=text)
    (row,) = json.loads(done.stdout)
    assert (done.returncode, row["note"], row["never"]) == (2, says, True)

    async def judged() -> bool:
        reasons = ("ExceedsMaxQuota", "NoMatchingFlavor", "WorkloadPriorityClassNotFound")
        return me.json("show", "hello")["reason"] in reasons

    await until(judged, "the queue has judged the Job")
    assert me.json("show", "hello")["next"][0]["what"].startswith(f"{says}; ")
    second = me.run("submit", "-f", "-", "-o", "json", stdin=text.replace("name: hello", "name: second"))
    assert (second.returncode, json.loads(second.stdout)[0]["note"]) == (2, says)
    assert me.json("show", "second")["next"][0]["what"].startswith(f"{says}; ")
    if "WorkloadPriorityClass" not in says:
        await until(lambda: waits_behind_hello(me), "ps names the first")


async def waits_behind_hello(me: User) -> bool:
    rows = {row["name"]: row for row in me.json("ps")}
    return str(rows["second"]["message"]) in {
        "can never start: asks 64 cpu, queue limit 2, like Job hello with the same requests",
        "can never start: queue has no quota for nvidia.com/gpu, like Job hello with the same requests",
    }


def test_check_config_prints_mistakes_with_lines_or_the_whole_configuration(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    good.write_text(head + "waitForPodsReady: {timeout: 30s}\nmultiKueue: {origin: here}\n")
    bad.write_text(head + "waitForPodsReady:\n  timeout: 5x\nfoo: 1\n")
    fine = sluice("check-config", str(good))
    assert fine.returncode == 0
    assert "  timeout: 30s\n" in fine.stdout
    assert "backoffBaseSeconds: 60" in fine.stdout
    assert fine.stdout.startswith(f"# {good} is valid. With defaults:\n")
    assert fine.stderr == f"{good}: ignored: multiKueue: Sluice does not dispatch to other clusters\n"
    piped = sluice("check-config", "-", stdin=good.read_text())
    assert (piped.returncode, piped.stdout) == (0, fine.stdout.replace(str(good), "<stdin>"))
    wrong = sluice("check-config", str(bad))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"{bad}:4: waitForPodsReady.timeout" in wrong.stderr
    assert f"{bad}:5: foo" in wrong.stderr
    assert f"{bad}: 2 mistakes" in wrong.stderr
    again = tmp_path / "again.yaml"
    again.write_text(fine.stdout)
    assert sluice("check-config", str(again)).returncode == 0


@EMBEDDED
async def test_explain_names_the_reason_the_holders_and_the_position(user: Callable[..., User]) -> None:
    """2 cpu: one Job holds 1500m, the next one waits for it, the last one can never start.

    On the embedded server the visibility API says the same of the positions.
    """
    u = user()
    u.submit("runs", cpu="1500m")
    await u.until_state("runs", "Running")
    u.submit("waits", cpu="1")
    u.run("submit", "-f", "-", stdin=JOB.format(name="huge", command="[sleep, '1']", spec="backoffLimit: 6", cpu="64"))
    await u.until_state("huge", "Pending")
    waits, huge = u.json("explain", "waits"), u.run("explain", "huge", "-o", "json")
    assert (waits["code"], waits["holders"][0]["jobs"]) == ("WAIT/WaitingForQuota", ["default/runs"])
    assert (huge.returncode, json.loads(huge.stdout)["code"]) == (2, "NEVER/ExceedsMaxQuota")
    assert (waits["position"]["clusterQueue"], waits["position"]["of"]) == (1, 2)
    if isinstance(u.up, Up):
        async with u.up.client() as client:
            path = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/cluster-queue/pendingworkloads"
            served = json.loads((await client.transport.request(Request("GET", path))).body)["items"]
        found = [(i["metadata"]["ownerReferences"][0]["name"], i["positionInClusterQueue"]) for i in served]
        assert found == [("waits", 0), ("huge", 1)]


@EMBEDDED
async def test_an_import_into_an_unknown_queue_fails_without_apply_too(user: Callable[..., User]) -> None:
    me = user()
    container = {"name": "main", "image": "local", "command": ["sleep", "600"]}
    pod = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}}
    async with me.up.client() as client:
        await client.create(JOBS, "default", {"metadata": {"name": "outside"}, "spec": {"template": pod}})
    for more in ((), ("--apply",)):
        done = me.run("import", "-n", "default", "--to-queue", "nope", *more)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "LocalQueue default/nope does not exist" in done.stdout
    assert "imported: 1" in me.says("import", "-n", "default", "--to-queue", "user-queue")


@EMBEDDED
async def test_a_job_between_two_tries_backs_off_until_its_next_pod(user: Callable[..., User]) -> None:
    me = user()
    me.submit("flaky", command="['false']", spec="backoffLimit: 3")
    shown = await me.until_state("flaky", "Backoff")
    (row,) = me.json("ps")
    assert (row["state"], row["exitCode"]) == ("Backoff", 1)
    assert "a pod is created in place of a failed one" in [step["what"] for step in shown["next"]]
    if isinstance(me.up, Up):  # whose manager publishes its configuration
        assert row["retryAt"] == next(step["at"] for step in shown["next"] if step["at"])
    assert "; retry at " in me.says("ps")
    assert "the next one is created when a backoff ends" in me.says("explain", "flaky")
    assert me.run("wait", "flaky", "--for", "admitted", "--timeout", "1m").returncode == 0
