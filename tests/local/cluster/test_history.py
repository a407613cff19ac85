"""`sluice history` and `sluice report` on the history of `sluice up`: what it says of Jobs that are gone."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES
from tests.local.cluster.conftest import Up, sluice
from tests.local.cluster.fleet import HEAD
from tests.local.cluster.test_stories import queue, submission, until_workload
from tests.local.cluster.work import ended, job, running
from tests.waiting import until

CONFIG = f"{HEAD}waitForPodsReady: {{timeout: 2m, overrides: {{minTimeout: 1s}}}}\n"
Tree = dict[str, Any]
MI = 1 << 20


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """`sluice history ARGUMENTS -o json`, as a user of the cluster in the test's data directory runs it."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "data" / "kubeconfig"))

    def read(*arguments: str, command: str = "history") -> Any:
        done = sluice(command, *arguments, "-o", "json")
        if "the history has no Job" in done.stderr:  # not yet: the writer is behind
            return []
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return read


def kinds(steps: list[Tree]) -> list[str]:
    return [step["step"] for step in steps]


def submit(name: str, *command: str, user: str = "", priority: str = "", **fields: Any) -> Tree:
    tree = submission(name, *command, annotations={"sluice/user": user} if user else {}, **fields)
    if priority:
        tree["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
    return {**tree, "spec": {**tree["spec"], "backoffLimit": 0}}


async def test_the_history_outlives_jobs_crashes_and_restarts(
    start: Callable[..., Up], history: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "up.yaml").write_text(CONFIG)
    flags = ("--cpu", "2", "--memory", "4Gi", "--config", str(tmp_path / "up.yaml"))
    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    up = start(*flags)
    async with up.client() as client:
        await queue(client, {"spot": {}}, "400m")
        lower = {"preemption": {"withinClusterQueue": "LowerPriority"}}
        await client.patch(CLUSTER_QUEUES, "", "story", {"spec": lower})
        await client.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 100})
        await client.create(JOBS, "default", submit("burns", "sh", "-c", burn, user="anna"))
        await client.create(JOBS, "default", submit("fails", "sh", "-c", "exit 7"))
        await ended(client, "burns")
        await ended(client, "fails", "Failed")
        await client.create(JOBS, "default", submit("victim", "sh", "-c", "sleep 3", cpu="400m"))
        await running(client, "victim")
        begun = time.time()  # conditions have times in whole seconds
        await until(lambda: time.time() > begun + 1, "the victim has held its quota for a second")
        await client.create(JOBS, "default", submit("urgent", "true", cpu="400m", priority="high"))
        await ended(client, "urgent")
        await ended(client, "victim")
        await client.patch(LOCAL_QUEUES, "default", "story", {"spec": {"stopPolicy": "Hold"}})
        await client.create(JOBS, "default", submit("held", "true"))
        await until_workload(
            client, "held", lambda w: any(c.reason == "Suspended" for c in w.status.conditions), "it is held"
        )
        await until(lambda: kinds(history("held")) == ["Submitted", "Held"], "the hold is in the history")
        for name in ("burns", "fails", "victim", "urgent"):
            await client.delete(JOBS, "default", name, propagation="Background")
    up.kill()
    before = history()
    up = start(*flags)
    async with up.client() as client:
        await client.patch(LOCAL_QUEUES, "default", "story", {"spec": {"stopPolicy": "None"}})
        await ended(client, "held")
        await until(lambda: "PodSucceeded" in kinds(history("held")), "its end is in the history")
    assert up.stop() == 0
    after = {job["name"]: job for job in history()}
    assert {job["name"]: job for job in before if job["name"] != "held"} == {
        name: job for name, job in after.items() if name != "held"
    }
    known = ["Submitted", "Held", "Resumed", "Admitted", "PodsReady", "Finished", "PodSucceeded"]
    assert sorted(kinds(history("held"))) == sorted(known)  # several within a second
    assert kinds(history("held"))[:2] == known[:2]
    assert (after["burns"]["state"], after["burns"]["user"], after["burns"]["flavor"]) == ("Succeeded", "anna", "spot")
    assert after["burns"]["cpuUsedSeconds"] > 0.01
    assert (after["fails"]["state"], after["fails"]["exitCode"]) == ("Failed", 7)
    assert (after["fails"]["cause"], after["fails"]["reason"]) == ("exit 7", "BackoffLimitExceeded")
    assert (after["victim"]["attempts"], after["victim"]["preemptions"]) == (2, 1)
    assert after["victim"]["wastedSeconds"]["preempted"] > 0
    assert [job["name"] for job in history("--failed")] == ["fails"]
    assert [job["name"] for job in history("--user", "anna")] == ["burns"]
    rows = {row["user"]: row for row in history("--by", "user", command="report")}
    assert (rows["anna"]["jobs"], rows["default"]["jobs"], rows["default"]["failed"]) == (1, 4, 1)


async def test_an_attempt_without_ready_pods_is_wasted_and_a_missed_deletion_found(
    start: Callable[..., Up], history: Callable[..., Any], tmp_path: Path
) -> None:
    """The Job is gone when the cluster starts again with an empty store."""
    (tmp_path / "up.yaml").write_text(CONFIG)
    flags = ("--cpu", "2", "--memory", "4Gi", "--config", str(tmp_path / "up.yaml"))
    up = start(*flags)
    async with up.client() as client:
        await queue(client, {"spot": {}}, "400m")
        slow = submit("slow", "sleep", "1000")
        slow["metadata"]["annotations"] = {"sluice/pods-ready-timeout": "3s"}  # its probe has run by then
        [container] = slow["spec"]["template"]["spec"]["containers"]
        container["readinessProbe"] = {"exec": {"command": ["false"]}, "periodSeconds": 1}
        await client.create(JOBS, "default", slow)
        await until(lambda: "Released" in kinds(history("slow")), "its eviction is in the history")
    assert "QuotaReleased" in sluice("history", "slow").stdout.split()
    [job] = history()
    assert (job["state"], job["evictions"], job["endedAt"]) == ("Pending", 1, None)
    assert job["wastedSeconds"]["notReady"] > 0
    assert (job["cause"], job["reason"]) == ("readiness probe failed: exit 1", "PodsReadyTimeout")
    assert up.stop() == 0
    (tmp_path / "data" / "objects.db").unlink()  # the cluster starts over, the history stays
    for name in ("kubeconfig", "serving.pem"):
        (tmp_path / "data" / name).unlink()
    start(*flags)
    await until(lambda: history()[0]["state"] == "Deleted", "the history knows that it is gone")


async def test_a_job_names_who_submitted_it_and_who_cancelled_it_before_it_ran(
    start: Callable[..., Up], history: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "carla")
    up = start("--cpu", "2", "--memory", "4Gi")
    async with up.client() as client:
        await queue(client, {"spot": {}}, "400m")
    never = submit("never")  # no command: its pod waits with ErrImagePull
    for manifest in (never, submit("bobs", "true", user="bob")):
        done = sluice("submit", "-f", "-", stdin=json.dumps({"apiVersion": "batch/v1", "kind": "Job", **manifest}))
        assert done.returncode == 0, done.stderr
    await until(lambda: "Admitted" in kinds(history("never")), "it has quota")
    begun = time.time()  # the admission has a time in whole seconds
    await until(lambda: time.time() > begun + 1, "it has held its quota for a second")
    assert sluice("cancel", "never").returncode == 0
    assert sluice("run", "-q", "story", "--cpu", "100m", "--name", "quick", "--", "true").returncode == 0
    await until(lambda: "Deleted" in kinds(history("never")), "its end is in the history")
    await until(lambda: "Finished" in kinds(history("quick")), "its end is in the history")
    jobs = {job["name"]: job for job in history("--user", "carla")}
    assert sorted(jobs) == ["never", "quick"]
    assert (jobs["never"]["state"], jobs["never"]["cause"]) == ("Deleted", "Cancelled by carla")
    assert jobs["never"]["wastedSeconds"]["notReady"] > 0
    assert jobs["never"]["wastedSeconds"]["other"] == 0
    assert {row["user"]: row["jobs"] for row in history("--by", "user", command="report")} == {"bob": 1, "carla": 2}


async def test_the_history_says_which_retention_deleted_a_job(
    start: Callable[..., Up], history: Callable[..., Any], tmp_path: Path
) -> None:
    kept = "objectRetentionPolicies: {workloads: {afterDeactivatedByKueue: 1s}}\n"
    late = "waitForPodsReady: {timeout: 1s, requeuingStrategy: {backoffLimitCount: 0}}\n"
    (tmp_path / "up.yaml").write_text(HEAD + late + kept)
    up = start("--cpu", "2", "--memory", "4Gi", "--config", str(tmp_path / "up.yaml"))
    async with up.client() as client:
        await queue(client, {"spot": {}}, "400m")
        ends = submit("ends", "true")
        await client.create(JOBS, "default", {**ends, "spec": {**ends["spec"], "ttlSecondsAfterFinished": 1}})
        retried = {"sluice/backoff-seconds": "600"}  # which outlasts the timeout of its pods
        await client.create(JOBS, "default", submission("broken", "/no/such/program", annotations=retried))
        for name in ("ends", "broken"):
            await until(lambda name=name: "Deleted" in kinds(history(name)), f"the deletion of {name} is a step")
    causes = {name: history(name)[-1]["cause"] for name in ("ends", "broken")}
    assert causes == {
        "ends": "ttlSecondsAfterFinished (1s) has passed",
        "broken": "objectRetentionPolicies.workloads.afterDeactivatedByKueue has passed",
    }
    assert {job["name"]: job["state"] for job in history()} == {"ends": "Succeeded", "broken": "Deactivated"}


async def test_the_history_is_read_where_the_configuration_of_the_running_cluster_puts_it(
    start: Callable[..., Up], history: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "up.yaml").write_text(f"{CONFIG}history: {{url: 'sqlite:///{tmp_path}/elsewhere.db'}}\n")
    up = start("--cpu", "2", "--memory", "4Gi", "--config", str(tmp_path / "up.yaml"))
    async with up.client() as client:
        await queue(client, {"spot": {}}, "400m")
        await client.create(JOBS, "default", submit("quick", "true"))
        await ended(client, "quick")
        await until(lambda: "Finished" in kinds(history("quick")), "its end is in the history")
    assert [row["jobs"] for row in history(command="report")] == [1]
    assert up.stop() == 0
    stopped = sluice("history")
    assert (stopped.returncode, stopped.stderr.count("history.url of the cluster, with --store URL")) == (3, 1)
    assert [job["name"] for job in history("--store", f"sqlite:///{tmp_path}/elsewhere.db")] == ["quick"]


async def test_the_history_has_cpu_time_and_peak_memory_of_what_a_job_ran(
    start: Callable[..., Up], history: Callable[..., Any]
) -> None:
    """The large one holds its memory until a sample was taken; both are smaller than the process of `sluice up`."""
    hold = "import time; held = bytearray(80 << 20); end = time.process_time() + 0.5\n"
    burn = "while time.process_time() < end: pass\ntime.sleep(3)"
    up = start("--cpu", "2", "--memory", "4Gi")
    async with up.client() as client:
        await queue(client, {"spot": {}}, "1")
        await client.create(JOBS, "default", submit("large", sys.executable, "-S", "-c", hold + burn))
        await client.create(JOBS, "default", submit("small", "sleep", "3"))
        await ended(client, "large")
        await ended(client, "small")

    def used() -> dict[str, Tree]:
        return {job["name"]: job for job in history() if job["memoryPeakBytes"] is not None}

    await until(lambda: "large" in used(), "its use is in the history")
    large, small = used()["large"], used().get("small")
    assert 80 * MI < large["memoryPeakBytes"] < 80 * MI + 40 * MI
    assert 0.5 <= large["cpuUsedSeconds"] < 5
    assert small is None or small["memoryPeakBytes"] < 40 * MI


async def test_the_time_between_a_stop_and_the_next_start_is_not_counted_as_running(
    start: Callable[..., Up], history: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sluice history` says so while the cluster is stopped, and with `ps` and `show` once it runs again."""
    up = start("--cpu", "2", "--memory", "4Gi")
    async with up.client() as client:
        await client.create(JOBS, "default", job("long", "sleep 600"))
        await running(client, "long")
    assert up.stop() == 0
    stopped = time.time()

    async def passed() -> bool:
        return time.time() > stopped + 3

    await until(passed, "the cluster is stopped for 3 seconds")
    (entry,) = history()
    admitted = datetime.fromisoformat(entry["startedAt"]).timestamp()
    assert entry["state"] == "Running"
    assert entry["runSeconds"] <= stopped + 1 - admitted
    start("--cpu", "2", "--memory", "4Gi")

    async def closed() -> bool:
        return "Continued" in kinds(history("long"))

    await until(closed, "the history has the next start")
    (row,), shown, (entry,) = history(command="ps"), history("long", command="show"), history()
    (one,) = shown["interruptions"]
    down = (datetime.fromisoformat(one["until"]) - datetime.fromisoformat(one["since"])).total_seconds()
    assert down >= 2
    for seconds in (row["runningSeconds"], shown["runningSeconds"], entry["runSeconds"]):
        assert seconds <= time.time() + 1 - admitted - down


async def test_doctor_finds_a_database_that_another_process_locks(start: Callable[..., Up], tmp_path: Path) -> None:
    up = start()
    file = tmp_path / "data" / "history.db"
    await until(file.exists, "the store is open")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with up.client() as client:
        await client.create(JOBS, "default", job("quick", "true"))

    def findings() -> list[str]:
        done = sluice("doctor", "-o", "json", "--kubeconfig", str(up.kubeconfig))
        return [problem["code"] for problem in json.loads(done.stdout)["problems"]]

    await until(lambda: findings() == ["HistoryStalled"], "the records wait for ten seconds")
    other.close()
    await until(lambda: not findings(), "they are written")
