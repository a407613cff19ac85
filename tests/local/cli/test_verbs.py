"""The commands of every day: run, submit --replace and --wait, logs, wait, cancel; on real clusters with processes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from job_controller.model import Job, Pod
from queue_manager.api.api_resources import JOBS, LOCAL_QUEUES, PODS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.cli.exit_codes import EXIT_UNEXPECTED
from queue_manager.cli.login_name import login_name
from queue_manager.local.kubeconfig_file import write_kubeconfig
from tests.conftest import kubectl
from tests.local.cli.conftest import JOB, User
from tests.local.cluster.conftest import EMBEDDED, SLUICE, Up, sluice
from tests.waiting import until

Begin = Callable[..., User]
IMAGE = ("--image", "busybox")
INDEXED = "echo index $JOB_COMPLETION_INDEX; test $JOB_COMPLETION_INDEX != 1"


def embedded(me: User) -> bool:
    """Whether logs can be read: the real server gets none from our node."""
    return isinstance(me.up, Up)


def ran(me: User, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`sluice run`: its options come before the command."""
    return sluice("run", "--kubeconfig", str(me.up.kubeconfig), *IMAGE, *arguments)


async def names(me: User) -> list[str]:
    async with me.up.client() as client:
        return [job.metadata.name for job in await client.list(JOBS, "default", type=Job)]


async def test_run_prints_the_log_and_ends_with_the_exit_code_of_the_command(user: Begin) -> None:
    me = user()
    done = ran(me, "--name", "good", "--env", "WHO=me", "--", "sh", "-c", "echo hello $WHO $(echo you)")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("sluice run: Job good in queue user-queue\n")
    bad = ran(me, "--name", "bad", "sh", "-c", "echo boom >&2; exit 7")
    assert bad.returncode == 7, bad.stderr
    if embedded(me):
        assert (done.stdout, bad.stdout) == ("hello me you\n", "boom\n")
        assert bad.stderr.endswith("sluice run: Job bad failed: exit 7: boom\n")
    assert sorted(await names(me)) == ["bad", "good"]


@EMBEDDED
async def test_run_says_that_its_retries_are_not_all_used(user: Begin) -> None:
    """The second pod would come 10 s after the first; the pods have 3 s to be ready, twice."""
    me = user(timeout="3s")
    done = ran(me, "--name", "cut", "--retries", "5", "--", "sh", "-c", "echo boom >&2; exit 7")
    assert done.returncode == EXIT_UNEXPECTED, done.stderr
    said = " ".join(done.stderr.split())
    assert (
        "sluice run: --retries 5: the Job may be deactivated after 0: retry 1 comes 10 s after the first failure, and "
        "waitForPodsReady waits 3 s for ready pods, 2 times (backoffLimitCount 1)"
    ) in said
    assert said.endswith("; waitForPodsReady gave up after 0 of the Job's 5 retries")
    none = ran(me, "--name", "none", "-d", "--retries", "0", "--", "true")
    assert "waitForPodsReady" not in none.stderr


@pytest.mark.parametrize(
    ("program", "code", "cause"),
    [
        ("/no/such/program", 127, "no such program: /no/such/program"),
        ("/etc/passwd", 126, "not executable: /etc/passwd"),
    ],
)
@EMBEDDED
async def test_run_of_what_cannot_be_executed_ends_with_the_code_of_a_shell(
    user: Begin, program: str, code: int, cause: str
) -> None:
    me = user()
    done = ran(me, "--name", "lost", "--", program)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr == f"sluice run: Job lost in queue user-queue\nsluice run: Job lost failed: {cause}\n"
    shown = me.run("logs", "lost")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert cause in shown.stderr


@EMBEDDED
async def test_a_job_killed_for_its_memory_says_its_limit_and_why_it_printed_nothing(user: Begin) -> None:
    me = user()
    hog = "held = b'x' * (100 << 20); print(len(held)); import time; time.sleep(1000)"
    buffered = ("--env", "PYTHONUNBUFFERED=")
    done = ran(me, "--name", "hog", "--memory", "64Mi", *buffered, "--", sys.executable, "-S", "-c", hog)
    assert done.returncode == 137, done.stderr
    memory = "container main: limits.memory 64Mi, request 64Mi, peak "
    explained = me.says("explain", "hog")
    assert memory in explained
    assert "raise limits.memory, and the request with it, above 64Mi" in explained
    if embedded(me):
        printed = me.run("logs", "hog")
        assert (printed.returncode, printed.stdout) == (0, "")
        assert re.match(rf"sluice logs: pod hog-\w+ printed nothing: OOMKilled \({memory}", printed.stderr)
        assert me.run("logs", "-f", "hog").stderr == printed.stderr


NO_NODE = "Job huge also can never start: the only node, node-1, has 2 cpu allocatable; a pod requests 64"


async def test_run_tells_a_job_that_never_starts_from_one_that_was_refused(user: Begin) -> None:
    me = user()
    never = ran(me, "--name", "huge", "--cpu", "64", "true")
    assert never.returncode == 2
    *_, first, further = never.stderr.splitlines()
    assert first.startswith("sluice run: Job huge was created and stays: can never start: asks 64 cpu, queue limit 2")
    assert further == f"sluice run: {NO_NODE}"
    assert await names(me) == ["huge"]
    for arguments, says in (
        (("--name", "Bad_", "true"), "--name: metadata.name: Invalid value"),
        (("-q", "user-quee", "true"), "did you mean user-queue?"),
        (("--cpu", "many", "true"), "'many' is not a quantity"),
        (("--name", "huge", "true"), "--name: jobs.batch"),
        ((), "name a command"),
    ):
        refused = ran(me, *arguments)
        assert refused.returncode == 4, refused.stderr
        assert says in refused.stderr
    assert await names(me) == ["huge"]


@EMBEDDED
async def test_run_without_a_queue_takes_the_only_one_or_names_all(user: Begin) -> None:
    me = user()
    assert "in queue user-queue" in ran(me, "true").stderr
    before = await names(me)
    async with me.up.client() as client:
        spec = {"clusterQueue": "cluster-queue"}
        await client.create(LOCAL_QUEUES, "default", {"metadata": {"name": "another"}, "spec": spec})
    refused = ran(me, "true")
    assert refused.returncode == 4
    assert "namespace default has 2 LocalQueues: choose one with -q: another, user-queue" in refused.stderr
    assert await names(me) == before
    assert "in queue another" in ran(me, "-q", "another", "true").stderr


@EMBEDDED
async def test_an_indexed_run_labels_its_lines_and_logs_chooses_among_them(user: Begin) -> None:
    me = user()
    done = ran(me, "--name", "many", "--completions", "3", "--cpu", "100m", "--", "sh", "-c", INDEXED)
    assert done.returncode == 1, done.stderr
    refused = me.run("logs", "many", "--index", "3")
    assert (refused.returncode, refused.stderr) == (
        2,
        "sluice logs: Job default/many has no index 3; its indexes are 0 to 2\n",
    )
    if not embedded(me):
        assert me.run("logs", "many").returncode == 3
        return
    assert sorted(done.stdout.splitlines()) == ["[0] index 0", "[1] index 1", "[2] index 2"]
    assert me.says("logs", "many") == "[0] index 0\n[1] index 1\n[2] index 2\n"
    assert me.says("logs", "many", "--index", "2") == "index 2\n"
    assert me.says("logs", "many", "--failed") == "index 1\n"
    assert me.run("logs", "many", "--previous").returncode == 1


SEVERAL = """\
apiVersion: batch/v1
kind: Job
metadata: {name: several, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      initContainers: [{name: setup, image: local, command: [echo, prepared]}]
      containers:
      - {name: main, image: local, command: [echo, of main], resources: {requests: {cpu: 100m}}}
      - {name: second, image: local, command: [echo, of second]}
"""


@EMBEDDED
async def test_logs_of_a_pod_with_several_containers_name_the_others(user: Begin) -> None:
    me = user()
    me.says("submit", "-f", "-", "--wait", stdin=SEVERAL)
    for follow in ((), ("-f",)):
        done = me.run("logs", "several", *follow)
        if embedded(me):
            assert (done.returncode, done.stdout) == (0, "of main\n")
        assert "defaulted container main; the pod also has: second, setup (init) (choose with -c)" in done.stderr
    unknown = me.run("logs", "several", "-c", "nope")
    assert unknown.returncode == 1
    assert "no container nope of default/several has started; its containers are setup, main, second" in unknown.stderr
    chosen = me.run("logs", "several", "-c", "second")
    assert "defaulted" not in chosen.stderr
    if embedded(me):
        assert chosen.stdout == "of second\n"


async def test_logs_follow_a_job_through_its_retries(user: Begin, tmp_path: Path) -> None:
    """The first attempt ends once its log is followed: of earlier attempts nothing is printed."""
    me, gate = user(), tmp_path / "gate"
    script = f"echo try; until [ -e {gate} ]; do sleep 0.05; done; exit 3"
    detached = ran(me, "-d", "--name", "again", "--retries", "1", "--", "sh", "-c", script)
    assert detached.returncode == 0, detached.stderr
    with me.begin("logs", "-f", "again") as process:
        assert process.stdout is not None
        first = process.stdout.readline() if embedded(me) else ""
        gate.touch()
        rest, err = process.communicate(timeout=60)
    if not embedded(me):
        assert process.returncode == 3, err
        return
    assert (process.returncode, first, rest) == (0, "try\n", "try\n"), err
    assert me.says("logs", "again", "--previous") == "try\n"


@EMBEDDED
async def test_logs_do_not_follow_a_job_that_needs_an_operator(user: Begin) -> None:
    """As `sluice wait` ends for it; a Job that is deactivated while its log is followed ends that, too."""
    me = user()
    ran(me, "-d", "--name", "huge", "--cpu", "64", "true")
    never = me.run("logs", "-f", "huge")
    assert never.returncode == 2
    why = "can never start: asks 64 cpu, queue limit 2"
    assert never.stderr == f"sluice logs: Job huge is pending: {why}; sluice explain huge\n"
    me.submit("long", cpu="2")
    me.submit("late", cpu="2")
    await me.until_state("late", "Pending")
    with me.begin("logs", "-f", "late") as process:
        assert process.stderr is not None
        assert process.stderr.readline().endswith("; waiting for one\n")
        me.says("deactivate", "late")
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith("sluice logs: Job late is deactivated: ")
    assert err.endswith("; sluice reactivate late\n")
    again = me.run("logs", "-f", "late")
    assert (again.returncode, again.stderr) == (1, err)


@EMBEDDED
async def test_logs_that_wait_notice_that_nobody_reads_them(user: Begin) -> None:
    me = user()
    me.submit("long", cpu="2")
    me.submit("late", cpu="2")
    await me.until_state("late", "Pending")
    with me.begin("logs", "-f", "late") as process:
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 141


@pytest.mark.parametrize("removed", [False, True], ids=["it keeps running", "--rm"])
@EMBEDDED
async def test_ctrl_c_of_run_says_what_happens_to_the_job(user: Begin, removed: bool) -> None:
    me = user()
    options = ["--rm"] if removed else []
    with me.begin("run", "--name", "long", *options, *IMAGE, "--", "sleep", "600") as process:
        await me.until_state("long", "Running")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    if removed:
        assert err.endswith("sluice run: Job long deleted (--rm)\n")
        assert await names(me) == []
        return
    assert "Job long keeps running; its log: sluice logs -f long; to stop it: sluice cancel long" in err
    assert me.json("show", "long")["state"] == "Running"


@EMBEDDED
async def test_why_no_pod_starts_is_reported_while_run_waits(user: Begin) -> None:
    """A pod outside of all queues has the node's cpu."""
    me = user()
    container = {"name": "main", "image": "x", "command": ["sleep", "600"], "resources": {"requests": {"cpu": "1"}}}
    async with me.up.client() as client:
        await client.create(PODS, "default", {"metadata": {"name": "other"}, "spec": {"containers": [container]}})
    with me.begin("run", "--name", "typo", "--rm", "--cpu", "2", *IMAGE, "--", "true") as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert lines[1].endswith(": Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.\n")
    until_when = r"until (\S+ )?\S+, in 29m\d+s"  # with the date, if it is tomorrow
    assert re.fullmatch(
        rf"sluice run: waits for ready pods {until_when}; to stop it now: sluice cancel typo\n", lines[2]
    )


async def test_cancel_returns_when_pods_and_quota_are_released(user: Begin) -> None:
    me = user()
    me.submit("runs")
    me.submit("waits", cpu="2")
    me.submit("ended", command="['true']", cpu="50m")
    await me.until_state("runs", "Running")
    await me.until_state("ended", "Succeeded")
    await me.until_state("waits", "Pending")
    assert "would be cancelled" in me.says("cancel", "runs", "--dry-run")
    printed = me.says("cancel", "waits", "runs", "ended").splitlines()
    assert sorted(printed) == [
        "default/ended unchanged: it has ended (Complete); its pods and logs stay",
        "default/runs cancelled: its pods have ended and its quota is released",
        "default/waits cancelled: it has left its queue",
    ]
    async with me.up.client() as client:
        assert [job.metadata.name for job in await client.list(JOBS, "default", type=Job)] == ["ended"]
        pods = await client.list(PODS, "default", type=Pod)
        assert all(pod.metadata.name.startswith("ended-") for pod in pods)

        async def released() -> bool:
            left = await client.list(WORKLOADS, "default", type=Workload)
            return [workload.metadata.name.rpartition("-")[0] for workload in left] == ["job-ended"]

        await until(released, "the Workloads are gone")


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)  # others have a store of their own
async def test_a_deleted_job_is_named_with_what_the_history_knows(user: Begin) -> None:
    me = user()
    me.submit("gone")
    await me.until_state("gone", "Running")
    me.says("cancel", "gone")
    said = rf"no Job gone in namespace default; it was deleted \d+s ago \(Cancelled by {login_name()}\): sluice history"

    def answer(*command: str) -> str:
        done = me.run(*command)
        assert done.returncode == 2
        return " ".join(done.stderr.split())

    await until(lambda: re.search(said, answer("show", "gone")) is not None, "the history has the deletion")
    assert [re.search(said, answer(command, "gone")) is not None for command in ("explain", "logs")] == [True, True]
    assert "`sluice ps` lists them all" in answer("show", "never-was")


@EMBEDDED
async def test_wait_says_who_cancelled_a_job(user: Begin) -> None:
    me = user()
    me.submit("held")
    await me.until_state("held", "Running")
    async with me.up.client() as client:
        await client.patch(JOBS, "default", "held", {"metadata": {"finalizers": ["example.com/held"]}})
        with me.begin("wait", "held") as waiting:
            assert waiting.stderr is not None
            assert waiting.stderr.readline() == "default/held Running\n"
            assert me.run("cancel", "held", "--timeout", "1s").returncode == EXIT_UNEXPECTED
            said = f"Cancelled by {login_name()}"
            assert waiting.stderr.readline() == f"default/held Deleting: {said}\n"
            assert {row["name"]: row["message"] for row in me.json("ps", "--all")} == {"held": said}
            await client.patch(JOBS, "default", "held", {"metadata": {"finalizers": []}})
            out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, " ".join(out.splitlines()[-1].split())) == (1, f"default held deleted gone {said}")


@EMBEDDED
async def test_wait_ends_with_the_outcome_of_the_jobs(user: Begin) -> None:
    me = user()
    me.submit("good", command="['true']")
    me.submit("bad", command="['false']", spec="backoffLimit: 0")
    me.submit("long")
    assert me.run("wait", "good", "long", "--for", "started", "--timeout", "1m").returncode == 0
    done = me.run("wait", "good", "bad", "-o", "json")
    assert (done.returncode, [(row["name"], row["result"]) for row in json.loads(done.stdout)]) == (
        1,
        [("good", "reached"), ("bad", "failed")],
    )
    assert me.says("wait", "good").split()[-2:] == ["Succeeded", "reached"]
    me.submit("missing", command="[/no/such/program]", spec="backoffLimit: 0")
    started = me.run("wait", "good", "bad", "missing", "--for", "started", "-o", "json")
    assert (started.returncode, [(row["name"], row["result"]) for row in json.loads(started.stdout)]) == (
        1,
        [("good", "reached"), ("bad", "reached"), ("missing", "failed")],
    )
    me.submit("behind", cpu="2")
    await me.until_state("behind", "Pending")
    behind = me.run("wait", "behind", "--timeout", "3s", "-o", "json")
    printed = behind.stderr.removeprefix("default/behind Pending: ").rstrip("\n")
    assert printed
    assert json.loads(behind.stdout)[0]["reason"] == printed
    late = me.run("wait", "long", "--timeout", "200ms", "-o", "json")
    assert (late.returncode, json.loads(late.stdout)[0]["result"]) == (1, "timeout")
    me.says("deactivate", "long")
    stopped = me.run("wait", "long", "-o", "json")
    assert (stopped.returncode, json.loads(stopped.stdout)[0]["result"]) == (1, "stopped")


@EMBEDDED
async def test_each_failed_try_is_reported_with_the_cause_of_its_pods_and_the_next(user: Begin, tmp_path: Path) -> None:
    """The words are those of `ps`; a Job that fails again is reported again."""
    me, gate = user(), tmp_path / "gate"
    cause = r"exit 5: boom" if embedded(me) else r"exit 5(: boom)?"
    backoff = rf"Backoff: {cause}; retry (at (\S+ )?\S+, in \ds|now)\n"
    command = ("sh", "-c", "echo boom >&2; exit 5")
    with me.begin("run", "--name", "flaky", "--rm", "--retries", "1", "--cpu", "100m", *IMAGE, "--", *command) as run:
        assert run.stderr is not None
        line = next(line for line in run.stderr if " Backoff" in line)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
    assert re.fullmatch(f"sluice run: {backoff}", line)
    script = f"until [ -e {gate} ]; do sleep 0.05; done; echo boom >&2; exit 5"
    job = JOB.format(name="again", command=f"[sh, -c, '{script}']", spec="backoffLimit: 2", cpu="100m")
    me.says("submit", "-f", "-", stdin=job.replace('"600"', '"4"'))
    with me.begin("wait", "again") as wait:
        assert wait.stderr is not None
        first = wait.stderr.readline()  # it waits before the first try fails
        gate.touch()
        _, rest = wait.communicate(timeout=60)
    reported = [line for line in rest.splitlines(keepends=True) if " Backoff" in line]
    assert len(reported) == 2, first + rest
    assert all(re.fullmatch(f"default/again {backoff}", line) for line in reported), reported


async def test_replace_deletes_the_old_job_only_for_one_that_is_valid(user: Begin) -> None:
    me = user()
    text = JOB.format(name="one", command="[sleep, '600']", spec="backoffLimit: 0", cpu="100m")
    me.says("submit", "-f", "-", stdin=text)
    await me.until_state("one", "Running")
    before = me.run("submit", "-f", "-", stdin=text)
    assert before.returncode == 4
    assert "already exists; --replace deletes that one first" in before.stderr
    invalid = me.run("submit", "-f", "-", "--replace", stdin=text.replace("Policy: Never", "Policy: Always"))
    assert invalid.returncode == 4
    assert me.json("show", "one")["state"] == "Running"
    new = text.replace("sleep, '600'", "sh, -c, exit 0")
    done = me.run("submit", "-f", "-", "--replace", "--wait", stdin=new)
    assert done.returncode == 0, done.stderr
    assert "replaced the old Job" in done.stdout
    if isinstance(me.up, Up):  # the history of another cluster is read from its own store
        cause = f"Replaced by {login_name()} (submit --replace)"
        await until(lambda: cause in [job["cause"] for job in me.json("history")], "the history names the user")
    assert me.json("show", "one")["state"] == "Succeeded"


@EMBEDDED
async def test_submit_and_wait_ends_with_two_if_one_job_can_never_start(user: Begin) -> None:
    me = user()
    jobs = [
        JOB.format(name=name, command=f"[sh, -c, 'exit {code}']", spec="backoffLimit: 0", cpu=cpu)
        for name, code, cpu in (("good", 0, "100m"), ("bad", 1, "100m"), ("huge", 0, "64"))
    ]
    done = me.run("submit", "-f", "-", "--wait", "-o", "json", stdin="---\n".join(jobs))
    results = {row["name"]: row["result"] for row in json.loads(done.stdout)}
    assert (done.returncode, results) == (2, {"good": "reached", "bad": "failed", "huge": "never"})
    advice = "1 Job was created that can never start as it is; to delete it: sluice cancel huge\n"
    further = f"sluice {{}}: {NO_NODE}\n"
    assert done.stderr.endswith(f"{further.format('submit')}sluice submit: {advice}")
    plain = me.run("submit", "-f", "-", "--replace", "-o", "name", stdin=jobs[2])
    assert (plain.stdout, plain.stderr) == ("job/huge\n", f"{further.format('submit')}sluice submit: {advice}")
    detached = ran(me, "-d", "--replace", "--name", "huge", "--cpu", "64", "true")
    assert (detached.returncode, detached.stderr) == (2, f"{further.format('run')}sluice run: {advice}")


@EMBEDDED
async def test_submit_waits_no_longer_than_it_is_told(user: Begin) -> None:
    me = user()
    job = JOB.format(name="long", command="[sleep, '600']", spec="backoffLimit: 0", cpu="100m")
    done = me.run("submit", "-f", "-", "--wait", "1s", "-o", "json", stdin=job)
    assert (done.returncode, [row["result"] for row in json.loads(done.stdout)]) == (1, ["timeout"])
    assert me.json("ps")[0]["name"] == "long"


async def test_kubectl_sees_the_job_of_run_and_its_log(user: Begin) -> None:
    me = user()
    ran(me, "--name", "seen", "--cpu", "100m", "--", "echo", "hello")
    tool = [kubectl() or "kubectl", "--kubeconfig", str(me.up.kubeconfig)]
    found = subprocess.run([*tool, "get", "job", "seen", "-o", "json"], capture_output=True, check=True, text=True)
    tree = json.loads(found.stdout)
    assert tree["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "user-queue"
    assert [c["type"] for c in tree["status"]["conditions"]][-1] == "Complete"
    if embedded(me):
        log = subprocess.run([*tool, "logs", "job/seen"], capture_output=True, check=True, text=True)
        assert log.stdout == "hello\n"


async def test_an_unknown_job_has_the_same_exit_code_in_every_command(user: Begin) -> None:
    me = user()
    for command in ("explain", "show", "logs", "wait", "cancel", "deactivate", "reactivate"):
        done = me.run(command, "nosuch")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"sluice {command}: no Job nosuch in namespace default; ")


@EMBEDDED
async def test_an_unknown_job_among_several_says_that_none_was_changed(user: Begin) -> None:
    me = user()
    me.submit("runs")
    await me.until_state("runs", "Running")
    for command, change in (("cancel", "cancelled"), ("deactivate", "deactivated"), ("reactivate", "reactivated")):
        done = me.run(command, "runs", "nosuch")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith(f"; nothing was {change}\n")
        assert "nothing was" not in me.run(command, "nosuch").stderr
    assert "nothing was" not in me.run("wait", "runs", "nosuch").stderr
    assert me.json("show", "runs")["state"] == "Running"


async def test_the_history_of_another_cluster_is_refused_with_the_option_to_type(user: Begin, tmp_path: Path) -> None:
    """The kubeconfig of a cluster that `sluice up` did not write has no store beside it."""
    me = user()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config").write_bytes(me.up.kubeconfig.read_bytes())
    for command in ("history", "report"):
        done = sluice(command, "--kubeconfig", str(elsewhere / "config"))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"sluice {command}: the history is read from its store, not from the cluster; ")
        assert "history.url" in done.stderr
        assert f"sluice {command} --store " in done.stderr


def test_ctrl_c_of_submit_before_it_has_read_its_file_says_that_nothing_was_created(tmp_path: Path) -> None:
    fifo = tmp_path / "jobs.yaml"
    os.mkfifo(fifo)
    argv = [*SLUICE, "submit", "-f", str(fifo)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process, fifo.open("w"):  # once it reads
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "sluice submit: interrupted: nothing was created\n")


def test_ctrl_c_of_run_before_the_job_is_created_says_that_nothing_was_created(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        write_kubeconfig(tmp_path / "config", f"http://127.0.0.1:{server.getsockname()[1]}", "token", "")
        argv = [*SLUICE, "run", "--kubeconfig", str(tmp_path / "config"), *IMAGE, "true"]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
            server.accept()  # of the first request, which is never answered
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "sluice run: interrupted: nothing was created\n")


@EMBEDDED
async def test_a_wait_names_the_job_with_equal_requests_that_does_not_fit(user: Begin) -> None:
    me = user()
    for name in ("holder", "first", "second"):
        me.submit(name, cpu="2")
    await me.until_state("holder", "Running")
    like = "like Job first with the same requests"

    async def is_behind() -> bool:
        return like in " ".join(me.says("ps").split())

    await until(is_behind, "the scheduler has tried the first")
    (outcome,) = json.loads(me.run("wait", "second", "--timeout", "1s", "-o", "json").stdout)
    assert outcome["result"] == "timeout"
    assert re.fullmatch(rf"needs 2 more cpu \(.*\), {like}", outcome["reason"])
