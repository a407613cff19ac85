"""What lists and groups say about Jobs whose pods fail, and what a reactivation of a group reports."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.client import Client, JobDeactivated, JobFailed, NeverStarts
from queue_manager.lifecycle.pod_causes import LATE_RETRY
from tests.conftest import kubectl
from tests.local.cli.conftest import JOB, User
from tests.local.cluster.conftest import EMBEDDED, Up
from tests.waiting import until

CANNOT_OPEN = '[sh, -c, "echo starts; echo cannot open {name}.csv >&2; exit 3"]'
NO_PROGRAM = "no such program: /no/such/program"
NO_CLASS = "no pod can be created: PriorityClass golden does not exist"


async def given_up(me: User) -> None:
    """Two Jobs whose program fails, and one that has no program, are deactivated.

    The pod of the last one restarts its container, so that it does not fail, and each eviction deletes it.
    """
    for name in ("sort-1", "sort-2"):
        me.submit(name, command=CANNOT_OPEN.format(name=name))
    missing = JOB.format(name="missing", command="[/no/such/program]", spec="backoffLimit: 6", cpu="100m")
    me.says("submit", "-f", "-", stdin=missing.replace("Never", "OnFailure"))
    for name in ("sort-1", "sort-2", "missing"):
        await me.until_state(name, "Deactivated")


@EMBEDDED
async def test_the_cause_survives_evictions_and_groups_the_jobs(user: Callable[..., User]) -> None:
    me = user("4s")
    await given_up(me)
    view = me.json("show", "missing")
    assert (view["pods"], view["cause"]) == ([], NO_PROGRAM)
    assert [attempt["podCause"] for attempt in view["retries"]["attempts"]] == [NO_PROGRAM, NO_PROGRAM]
    state = " Deactivated  no such program: /no/such/program; gave up after 2 attempts\n"
    assert state in me.says("show", "missing")
    rows = {row["name"]: row["cause"] for row in me.json("ps")}
    assert rows == {
        "sort-1": f"exit 3: cannot open sort-1.csv{LATE_RETRY}",
        "sort-2": f"exit 3: cannot open sort-2.csv{LATE_RETRY}",
        "missing": NO_PROGRAM,
    }
    assert me.says("explain", "missing").splitlines()[1] == NO_PROGRAM
    groups = me.json("deactivated", "--by", "cause")
    assert [(group["cause"], group["count"]) for group in groups] == [
        (f"exit 3: cannot open ….csv{LATE_RETRY}", 2),
        (NO_PROGRAM, 1),
    ]


@pytest.mark.parametrize(
    ("command", "said"), [("echo cannot reach db:5432; exit 1", "cannot reach db:5432"), ("exit 7", "exit 7")]
)
@EMBEDDED
async def test_what_a_probe_said_survives_evictions(user: Callable[..., User], command: str, said: str) -> None:
    me = user("10s")
    probe = json.dumps({"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1})
    job = JOB.format(name="web", command="[sleep, '600']", spec="backoffLimit: 6", cpu="100m")
    me.says("submit", "-f", "-", stdin=job.replace("image: local", f"image: local, readinessProbe: {probe}"))

    def cause() -> str:
        [row] = me.json("ps")
        return str(row["cause"])

    await until(lambda: cause() == f"readiness probe has not succeeded yet: {said}", "ps has what the probe said")
    view = await me.until_state("web", "Deactivated")
    assert [one["podCause"] for one in view["retries"]["attempts"]] == [f"readiness probe failed: {said}"] * 2
    assert cause() == f"readiness probe failed: {said}"
    assert me.says("explain", "web").splitlines()[1] == f"readiness probe failed: {said}"


@EMBEDDED
async def test_pods_without_a_node_are_the_reason_before_and_after_the_last_retry(user: Callable[..., User]) -> None:
    """The quota is free, and the only node has not the label that the affinity of the pods requires."""
    me = user("4s")
    picky = JOB.format(name="picky", command="[sleep, '600']", spec="backoffLimit: 6", cpu="100m")
    terms = "{nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}]}"
    affinity = f"affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {terms}}}}}"
    me.says("submit", "-f", "-", stdin=picky.replace("Never", f"Never\n      {affinity}"))
    change = "a node has the labels that the pods' node selector and affinity require"

    def found() -> tuple[str, list[str]]:
        said = me.json("explain", "picky")
        return said["code"], said["changes"]

    await until(lambda: found() == ("WAIT/Unschedulable", [change]), "its pods wait for a node")
    await me.until_state("picky", "Deactivated")
    assert found() == ("HOLD/DeactivatedDueToUnschedulable", [f"{change}; then it is reactivated"])
    lines = me.says("explain", "picky").splitlines()
    assert lines[1] == "0/1 nodes: node(s) didn't match Pod's node affinity/selector"
    assert "more         sluice explain --reason Unschedulable" in lines


async def quota_of(me: User, cpu: str) -> None:
    async with me.up.client() as client:
        for queue in await client.list(CLUSTER_QUEUES, type=dict):
            groups = queue["spec"]["resourceGroups"]
            for resource in (one for group in groups for flavor in group["flavors"] for one in flavor["resources"]):
                resource["nominalQuota"] = cpu if resource["name"] == "cpu" else resource["nominalQuota"]
            await client.patch(CLUSTER_QUEUES, "", queue["metadata"]["name"], {"spec": {"resourceGroups": groups}})


@EMBEDDED
async def test_pods_larger_than_each_node_name_the_largest_in_all_lists(user: Callable[..., User]) -> None:
    """The quota is larger than the only node, of 2 cpu, whose present pods do not matter."""
    me = user("4s")
    await quota_of(me, "64")
    big = JOB.format(name="big", command="[sleep, '600']", spec="backoffLimit: 6", cpu="48")
    assert me.run("submit", "-f", "-", stdin=big).returncode == 2

    def lists() -> tuple[str, str, bool]:
        (row,) = me.json("ps")
        done = me.run("explain", "big", "-o", "json")
        found = json.loads(done.stdout)
        assert done.returncode == (2 if found["code"].startswith("NEVER") else 0)
        return found["code"], row["noNode"], row["noNode"] in found["sentence"]

    lacks = "allocatable; a pod requests 48"
    await until(lambda: lists()[0] == "NEVER/ExceedsLargestNode", "its pods found no node")
    assert (lists()[1].endswith(lacks), lists()[2]) == (True, True)
    await me.until_state("big", "Backoff", "Deactivated")
    assert lists()[0] == "NEVER/ExceedsLargestNode"
    await me.until_state("big", "Deactivated")
    code, too_large, named = lists()
    assert (code, too_large.endswith(lacks), named) == ("NEVER/ExceedsLargestNode", True, True)
    assert "next         sluice submit --replace -f FILE" in me.run("explain", "big").stdout
    assert too_large in " ".join(me.says("show", "big").split())
    (listed,) = me.json("deactivated")
    assert listed["action"].startswith(f"{too_large}: request less (sluice submit --replace -f FILE)")
    problems = json.loads(me.run("doctor", "-o", "json").stdout)["problems"]
    assert [too_large in one["sentence"] for one in problems if one["code"] == "TooLargePods"] == [True]


def drain(me: User, node: str) -> None:
    tool = [kubectl() or "kubectl", "--kubeconfig", str(me.up.kubeconfig)]
    subprocess.run([*tool, "drain", node, "--force"], check=True, capture_output=True, timeout=60)


@pytest.mark.kubectl
@EMBEDDED
async def test_a_job_that_a_drain_ends_names_the_eviction(user: Callable[..., User]) -> None:
    me = user()
    me.submit("long", spec="backoffLimit: 0")
    view = await me.until_state("long", "Running")
    node = view["pods"][0]["node"]
    drain(me, node)
    await me.until_state("long", "Failed")
    cause = f"pod evicted from {node} (EvictionByEvictionAPI: Eviction API: evicting)"
    await until(lambda: me.json("show", "long")["cause"] == cause, "the cause is kept")
    (row,) = me.json("ps")
    assert (me.json("show", "long")["pods"], row["cause"]) == ([], cause)
    assert me.says("explain", "long").splitlines()[1] == cause
    if isinstance(me.up, Up):  # the history of another cluster is read from its own store
        ended = [(cause, "BackoffLimitExceeded")]
        await until(
            lambda: [(job["cause"], job["reason"]) for job in me.json("history")] == ended, "the history has the cause"
        )
        (pod,) = [step["cause"] for step in me.json("history", "long") if step["step"] == "PodDeleted"]
        assert f" on {node}: {cause}, cpu" in pod


@EMBEDDED
@pytest.mark.kubectl
async def test_the_cause_of_a_failed_job_outlives_its_workload_and_pods(user: Callable[..., User]) -> None:
    """The retention deletes the Workload, and the drain the pods."""
    me = user(retention="1s")
    me.submit("sort", command=CANNOT_OPEN.format(name="sort"), spec="backoffLimit: 0")
    view = await me.until_state("sort", "Failed")
    async with me.up.client() as client:

        async def gone() -> bool:
            return not await client.list(WORKLOADS, "default", type=Workload)

        await until(gone, "the Workload is deleted")
    drain(me, view["pods"][0]["node"])
    after, (row,) = me.json("show", "sort"), me.json("ps")
    cause = "exit 3: cannot open sort.csv"
    assert (after["pods"], after["cause"], row["cause"]) == ([], cause, cause)
    assert me.says("explain", "sort").splitlines()[1] == cause


@pytest.mark.kubectl
@EMBEDDED
async def test_the_cause_of_a_failed_job_survives_a_drain_of_its_node(user: Callable[..., User]) -> None:
    me = user()
    me.submit("sort", command=CANNOT_OPEN.format(name="sort"), spec="backoffLimit: 0")
    view = await me.until_state("sort", "Failed")
    cause = "exit 3: cannot open sort.csv"
    assert view["cause"] == cause
    drain(me, view["pods"][0]["node"])
    after, (row,) = me.json("show", "sort"), me.json("ps")
    assert after["pods"] == []
    assert (after["cause"], row["cause"]) == (cause, cause)


@EMBEDDED
async def test_logs_name_the_cause_for_which_no_pod_has_started(user: Callable[..., User]) -> None:
    me = user()
    me.submit("missing", command="[/no/such/program]")
    await until(lambda: me.json("ps")[0]["cause"] == NO_PROGRAM, "the cause is known")
    done = me.run("logs", "missing")
    assert done.returncode == 1
    assert NO_PROGRAM in done.stderr


@EMBEDDED
async def test_an_interrupted_reactivation_names_what_it_did_not_reach(user: Callable[..., User]) -> None:
    me = user("4s")
    await given_up(me)
    assert me.run("reactivate", "--why", "exit 3", "--all").returncode == 2
    nothing = me.run("reactivate", "--why", "exit 4")
    assert nothing.returncode == 1
    assert nothing.stdout.startswith("no deactivated Jobs whose cause contains 'exit 4'")
    would = me.json("reactivate", "--why", "CANNOT open ….csv", "--dry-run")
    assert sorted(row["name"] for row in would) == ["sort-1", "sort-2"]

    done = await me.interrupt("reactivate", "--why", "cannot", "--stagger", "10m")
    left = {row["name"] for row in json.loads(me.says("deactivated", "-o", "json"))} - {"missing"}
    assert done.returncode == 130
    # The reactivated one may have been deactivated again meanwhile.
    assert any(f"not done: 1: default/{name}" in done.stderr for name in left)
    again = me.json("reactivate", "--why", "cannot")
    assert left <= {row["name"] for row in again}
    assert "repeat the command: it reactivates the rest" in " ".join(me.says("reactivate", "--help").split())


@EMBEDDED
async def test_the_error_of_a_job_survives_a_preemption_and_a_drain(user: Callable[..., User]) -> None:
    me, error = user(), "exit 3: cannot open sort.csv"
    async with me.up.client() as client:
        await client.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 100})
        policy = {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
        await client.patch(CLUSTER_QUEUES, "", "cluster-queue", policy)

    def cause() -> str:
        return str(me.json("show", "sort")["cause"])

    async def stop(policy: str) -> None:
        async with me.up.client() as client:
            await client.patch(LOCAL_QUEUES, "default", "user-queue", {"spec": {"stopPolicy": policy}})

    me.submit("sort", command=CANNOT_OPEN.format(name="sort"), spec="backoffLimit: 100", cpu="2")
    await until(lambda: cause() == error, "its pod has failed")
    needs = JOB.format(name="needs", command="[sleep, '600']", spec="backoffLimit: 6", cpu=2)
    me.says("submit", "-f", "-", stdin=needs.replace("labels: {", "labels: {kueue.x-k8s.io/priority-class: high, "))
    await me.until_state("needs", "Running")
    view = await me.until_state("sort", "Pending")
    by = "for priority 100 of ClusterQueue cluster-queue"
    assert (view["cause"], [one["podCause"] for one in view["retries"]["attempts"]]) == (error, [error])
    assert f"preempted {by}; needs 2 more cpu (default-flavor); last attempt: {error}" in joined(me.says("ps"))
    assert f"Preempted {by} (before: {error})" in joined(me.says("show", "sort"))
    assert me.says("explain", "sort").splitlines()[1] == f"last attempt: {error}"
    me.says("cancel", "needs")

    def is_admitted_again() -> bool:
        return me.json("show", "sort")["retries"]["totalAttempts"] == 2

    await until(is_admitted_again, "its quota is free again")
    await stop("HoldAndDrain")
    await until(lambda: len(me.json("show", "sort")["retries"]["attempts"]) == 2, "the drain ends its attempt")
    view = await me.until_state("sort", "Pending")
    assert [one["podCause"] for one in view["retries"]["attempts"]] == [error] * 2
    assert f"LocalQueueStopped (before: {error})" in joined(me.says("show", "sort"))
    if isinstance(me.up, Up):
        steps = me.json("history", "sort")
        said = {step["step"]: step["cause"] for step in steps}
        assert said["Preempted"] == f"InClusterQueue: {by} (before: {error})"
        assert said["Evicted"] == f"LocalQueueStopped: The LocalQueue is stopped (before: {error})"


@EMBEDDED
async def test_a_failure_of_an_index_that_then_succeeded_is_not_the_cause(
    user: Callable[..., User], tmp_path: Path
) -> None:
    me, once = user(), tmp_path / "once"
    retried = f"test -e {once} && exit 0; touch {once}; sleep 3; exit 4"
    script = f"case $JOB_COMPLETION_INDEX in 2) echo boom >&2; exit 1;; 1) {retried};; esac"
    job = JOB.format(
        name="train",
        command=json.dumps(["sh", "-c", script]),
        spec="completionMode: Indexed\n  completions: 3\n  parallelism: 3\n  backoffLimitPerIndex: 1",
        cpu="100m",
    )
    me.says("submit", "-f", "-", stdin=job.replace('"600"', '"1"'))
    view = await me.until_state("train", "Failed")
    assert once.exists()
    assert (view["cause"], view["failedIndexes"], view["exitCode"]) == ("exit 1: boom", "index 2 failed", 1)
    [waited] = json.loads(me.run("wait", "train", "-o", "json").stdout)
    assert waited["reason"] == "index 2 failed: exit 1: boom"
    with pytest.raises(JobFailed, match="index 2 failed: exit 1: boom"):
        await asyncio.to_thread(Client.from_kubeconfig(me.up.kubeconfig).wait, "train", timeout=10)
    shown = "index 2 failed: exit 1: boom; FailedIndexes"
    assert shown in joined(me.says("ps"))
    if isinstance(me.up, Up):
        [row] = me.json("history")
        assert (row["cause"], row["failedIndexes"], row["exitCode"]) == ("exit 1: boom", "index 2 failed", 1)
        assert shown in joined(me.says("history"))
        assert joined(me.says("history", "train")).endswith("FailedIndexes: index 2 failed")


def joined(text: str) -> str:
    return " ".join(text.split())


@EMBEDDED
async def test_every_command_says_that_borrowed_quota_was_taken_back(user: Callable[..., User]) -> None:
    """Both queues have 1 cpu, and all Jobs the same priority, which explains nothing."""
    me = user()
    async with me.up.client() as client:
        for queue, preemption in (("owner", {"reclaimWithinCohort": "Any"}), ("guest", {})):
            cpu = {"name": "default-flavor", "resources": [{"name": "cpu", "nominalQuota": 1}]}
            spec = {
                "cohortName": "both",
                "namespaceSelector": {},
                "preemption": preemption,
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [cpu]}],
            }
            await client.create(CLUSTER_QUEUES, "", {"metadata": {"name": f"cq-{queue}"}, "spec": spec})
            local = {"metadata": {"name": queue}, "spec": {"clusterQueue": f"cq-{queue}"}}
            await client.create(LOCAL_QUEUES, "default", local)
    for name in ("guest-1", "guest-2"):
        submit_to(me, "guest", name)
        await me.until_state(name, "Running")
    submit_to(me, "owner", "owner-1")
    await me.until_state("owner-1", "Running")
    (victim,) = (row for row in me.json("ps") if row["state"] == "Pending")
    why = "for ClusterQueue cq-owner, to take back quota that cq-guest had borrowed"
    assert victim["preemptedFor"] == why
    commands = [["ps"], ["show", victim["name"]], ["explain", victim["name"]]]
    commands += [["history", victim["name"]]] if isinstance(me.up, Up) else []
    for command in commands:
        assert why in " ".join(me.says(*command).split()), command
    me.says("cancel", "owner-1")
    await me.until_state(victim["name"], "Running")
    page, line = me.says("show", victim["name"]), f"steps of earlier attempts: sluice history {victim['name']}\n"
    assert (line in page) == isinstance(me.up, Up)
    assert "JobUID" not in page.partition("EVENTS")[0]
    assert "steps of earlier attempts" not in me.says("show", "guest-1" if victim["name"] == "guest-2" else "guest-2")


def submit_to(me: User, queue: str, name: str) -> None:
    job = JOB.format(name=name, command="[sleep, '600']", spec="backoffLimit: 0", cpu="1")
    me.says("submit", "-f", "-", stdin=job.replace("user-queue", queue))


def golden(name: str) -> str:
    """A Job with a PriorityClass that does not exist."""
    text = JOB.format(name=name, command="['true']", spec="backoffLimit: 6", cpu="100m")
    return text.replace("restartPolicy: Never", "restartPolicy: Never\n      priorityClassName: golden")


@EMBEDDED
async def test_pods_that_cannot_be_created_are_the_cause_in_all_lists(user: Callable[..., User]) -> None:
    me = user("20s")
    me.says("hold", "user-queue")
    for name in ("gold-1", "gold-2"):
        submitted = me.run("submit", "-f", "-", "-o", "json", stdin=golden(name))
        assert submitted.returncode == 2
        assert json.loads(submitted.stdout)[0]["note"] == "can never start: PriorityClass golden does not exist"
    await me.until_state("gold-1", "Pending")
    waiting = me.run("explain", "gold-1", "-o", "json")
    assert json.loads(waiting.stdout)["code"] == "NEVER/Misconfigured"
    assert "PriorityClass golden does not exist" in me.says("show", "gold-1")
    held = "LocalQueue user-queue is held (sluice release user-queue)"
    missing = f"can never start: PriorityClass golden does not exist; {held}"
    await until(lambda: {row["obstacle"] for row in me.json("ps")} == {missing}, "ps names both")
    never = [
        one for one in json.loads(me.run("doctor", "-o", "json").stdout)["problems"] if one["code"] == "NeverStarts"
    ]
    assert ["PriorityClass golden does not exist" in one["sentence"] for one in never] == [True]
    assert me.run("wait", "gold-1").returncode == 2
    me.says("release", "user-queue")
    await me.until_state("gold-1", "Starting")

    async def is_named() -> bool:
        return all(row["cause"] == NO_CLASS for row in me.json("ps"))

    await until(is_named, "both are named")
    explained = json.loads(me.run("explain", "gold-1", "-o", "json").stdout)
    assert explained["code"] == "NEVER/Misconfigured"
    assert explained["sentence"] == "It holds its quota, but PriorityClass golden, which its pods name, does not exist."
    assert f" Starting  {NO_CLASS}\n" in me.says("show", "gold-1")
    waited = me.run("wait", "-o", "json", "gold-1")
    [outcome] = json.loads(waited.stdout)
    assert (waited.returncode, outcome["result"]) == (2, "never")
    with pytest.raises(NeverStarts, match="PriorityClass golden does not exist"):
        await asyncio.to_thread(Client.from_kubeconfig(me.up.kubeconfig).wait, "gold-1", timeout=10)
    assert NO_CLASS in me.run("logs", "gold-1").stderr
    for name in ("gold-1", "gold-2"):
        await me.until_state(name, "Deactivated")
    assert {row["cause"] for row in me.json("ps")} == {NO_CLASS}
    assert [(group["cause"], group["count"]) for group in me.json("deactivated", "--by", "cause")] == [(NO_CLASS, 2)]
    shown = me.says("show", "gold-1")
    assert f" Deactivated  {NO_CLASS}; gave up after 2 attempts\n" in shown
    assert [row["podCause"] for row in me.json("show", "gold-1")["retries"]["attempts"]] == [NO_CLASS, NO_CLASS]
    assert NO_CLASS in me.says("history", "--failed")
    explained = json.loads(me.run("explain", "gold-1", "-o", "json").stdout)
    assert explained["cause"] == NO_CLASS
    assert explained["changes"][1] == "an admin creates PriorityClass golden; then it is reactivated"
    assert {row["hasRun"] for row in me.json("ps")} == {False}
    with pytest.raises(NeverStarts, match="create it; then: sluice reactivate default/gold-1"):
        await asyncio.to_thread(Client.from_kubeconfig(me.up.kubeconfig).wait, "gold-1", timeout=10)


@pytest.mark.parametrize("before", ["", "sleep 1; "], ids=["never ready", "was ready"])
@EMBEDDED
async def test_the_cause_of_a_job_that_restarted_too_often_outlives_its_pod(
    user: Callable[..., User], before: str
) -> None:
    """With restartPolicy OnFailure no pod fails: the Job controller deletes the pod, which may be ready again."""
    me = user()
    command = f"[sh, -c, '{before}echo attempt failed >&2; exit 8']"
    text = JOB.format(name="again", command=command, spec="backoffLimit: 0", cpu="1")
    me.says("submit", "-f", "-", stdin=text.replace("restartPolicy: Never", "restartPolicy: OnFailure"))
    await me.until_state("again", "Failed")
    cause = "exit 8: attempt failed"
    assert [(row["cause"], row["exitCode"]) for row in me.json("ps")] == [(cause, 8)]
    assert me.json("explain", "again")["cause"] == cause
    assert f"Failed  {cause}; BackoffLimitExceeded" in me.says("show", "again")
    if isinstance(me.up, Up):
        assert [row["cause"] for row in me.json("history")] == [cause]
    with pytest.raises(JobFailed, match=cause) as failed:
        await asyncio.to_thread(Client.from_kubeconfig(me.up.kubeconfig).wait, "again", timeout=10)
    assert (failed.value.cause, failed.value.exit_code) == (cause, 8)


@EMBEDDED
async def test_the_history_names_a_failure_after_which_the_pod_lived_on(
    user: Callable[..., User], tmp_path: Path
) -> None:
    me, marker = user(), tmp_path / "tried"
    command = f"[sh, -c, '[ -e {marker} ] && exit 0; touch {marker}; echo first try >&2; exit 8']"
    text = JOB.format(name="twice", command=command, spec="backoffLimit: 3", cpu="1")
    me.says("submit", "-f", "-", stdin=text.replace("restartPolicy: Never", "restartPolicy: OnFailure"))
    await me.until_state("twice", "Succeeded")
    steps = {row["step"]: row["cause"] for row in me.json("history", "twice")}
    assert re.fullmatch(r"twice-\w+ on node-1: exit 8: first try \(restart 1\)", steps["ContainerFailed"])
    told = [step for step in steps if step != "PodsReady"]  # its first container may end before it is seen ready
    assert told[-3:] == ["ContainerFailed", "PodSucceeded", "Finished"]
    assert [(row["state"], row["cause"], row["exitCode"]) for row in me.json("history")] == [("Succeeded", "", None)]


FAILS_AND_IS_LATE = """'sh', '-c', 'echo cannot reach db >&2; exit 1'"""
ODD_FAILS = """'sh', '-c', 'if [ $((JOB_COMPLETION_INDEX % 2)) = 1 ]; then exit 4; fi'"""


@EMBEDDED
async def test_the_end_of_a_job_names_its_indexes_and_what_was_before_a_deadline(user: Callable[..., User]) -> None:
    me = user()
    indexed = "completionMode: Indexed\n  completions: 4\n  parallelism: 4\n  backoffLimitPerIndex: 0"
    me.submit("odd", command=f"[{ODD_FAILS}]", spec=indexed)
    me.submit("late", command=f"[{FAILS_AND_IS_LATE}]", spec="activeDeadlineSeconds: 4")
    waited = me.run("wait", "odd", "late", "-o", "json")
    deadline = "DeadlineExceeded: Job was active longer than specified deadline"
    assert {one["name"]: one["reason"] for one in json.loads(waited.stdout)} == {
        "odd": "indexes 1,3 failed, one with exit 4",
        "late": f"{deadline} (before: exit 1: cannot reach db)",
    }
    with pytest.raises(JobFailed, match=r"\(DeadlineExceeded\): Job was active .* \(before: exit 1: ") as failed:
        await asyncio.to_thread(Client.from_kubeconfig(me.up.kubeconfig).wait, "late", timeout=10)
    assert failed.value.cause == f"{deadline} (before: exit 1: cannot reach db)"
    assert {row["name"]: row["failedIndexes"] for row in me.json("ps")} == {"odd": "indexes 1,3 failed", "late": ""}
    assert "indexes 1,3 failed, one with exit 4; FailedIndexes" in me.says("ps")
    with pytest.raises(JobFailed, match=r"FailedIndexes\): indexes 1,3 failed, one with exit 4"):
        await asyncio.to_thread(Client.from_kubeconfig(me.up.kubeconfig).wait, "odd", timeout=10)


@EMBEDDED
async def test_a_pod_that_cannot_become_ready_names_its_dead_container(user: Callable[..., User]) -> None:
    me = user()
    half = JOB.format(name="half", command="[sleep, '600']", spec="backoffLimit: 0", cpu="100m")
    aside = "{name: aside, image: local, command: [sh, -c, exit 9]}"
    me.says("submit", "-f", "-", stdin=half.replace("containers: [", f"containers: [{aside}, "))

    def sentence() -> str:
        return str(me.json("explain", "half")["sentence"])

    await until(lambda: "container aside of a pod has failed" in sentence(), "explain names it")
    assert me.json("show", "half")["cause"] == "exit 9"


@EMBEDDED
async def test_a_job_that_ran_too_long_is_advised_to_run_longer_first(user: Callable[..., User]) -> None:
    me = user()
    endless = JOB.format(name="endless", command="[sleep, '600']", spec="backoffLimit: 0", cpu="100m")
    label = "kueue.x-k8s.io/max-exec-time-seconds"
    me.says("submit", "-f", "-", stdin=endless.replace("labels: {", f"labels: {{{label}: '1', "))
    view = await me.until_state("endless", "Deactivated")
    until_then = f"its label {label} is raised, and it is reactivated (sluice reactivate endless)"
    assert view["next"][-1]["what"] == f"the Job stays out until {until_then}"
    with pytest.raises(JobDeactivated, match=f"raise the Job's label {label}, then: sluice reactivate default/endless"):
        await asyncio.to_thread(Client.from_kubeconfig(me.up.kubeconfig).wait, "endless", timeout=10)
