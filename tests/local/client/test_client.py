"""The client for Python programs, on a cluster with real processes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import (
    ApiException,
    BatchV1Api,
    V1Container,
    V1Job,
    V1JobSpec,
    V1ObjectMeta,
    V1PodSpec,
    V1PodTemplateSpec,
)
from kubernetes.config import new_client_from_config

from job_controller.model import Key
from queue_manager.cli.login_name import login_name
from queue_manager.cli.main import main
from queue_manager.client import (
    Client,
    ClusterUnreachable,
    JobDeactivated,
    JobDeleted,
    JobFailed,
    JobNotFound,
    JobState,
    NeverStarts,
    NoLogs,
    RequestFailed,
    Timeout,
)
from queue_manager.client import client as client_module
from queue_manager.testing import Cluster
from tests.local.cluster.conftest import processes_of
from tests.waiting import until

QUEUE = "user-queue"
SECONDS = 60.0
EVICTING = {
    "waitForPodsReady": {"timeout": "5s", "requeuingStrategy": {"backoffLimitCount": 0, "backoffBaseSeconds": 1}}
}


def manifest(*command: str, name: str = "one", cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "local", "command": [*command], "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [main]}}
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": template, **spec}}


def test_a_v1job_comes_back_as_a_v1job_that_has_succeeded(sluice_client: Client) -> None:
    main = V1Container(name="main", image="local", command=["echo", "hello"])
    template = V1PodTemplateSpec(spec=V1PodSpec(restart_policy="Never", containers=[main]))
    job = V1Job(metadata=V1ObjectMeta(generate_name="hello-"), spec=V1JobSpec(template=template))
    created = sluice_client.submit(job, queue=QUEUE)
    assert created.metadata.labels["kueue.x-k8s.io/queue-name"] == QUEUE
    assert job.metadata.labels is None, "the argument is not changed"
    done = sluice_client.wait(created, timeout=SECONDS)
    assert isinstance(done, V1Job)
    assert done.status.succeeded == 1
    assert sluice_client.logs(done) == "hello\n"


def test_a_dict_is_not_changed_and_its_unknown_field_is_refused(sluice_client: Client) -> None:
    good, wrong = manifest("true"), manifest("true", name="two", paralelism=2)
    created = sluice_client.submit(good, queue=QUEUE)
    assert good == manifest("true")
    assert created.metadata.labels["kueue.x-k8s.io/queue-name"] == QUEUE
    with pytest.raises(RequestFailed, match=r"^400 BadRequest: .*spec\.paralelism") as refused:
        sluice_client.submit(wrong, queue=QUEUE)
    assert (refused.value.status, refused.value.fields) == (400, ("spec.paralelism",))


def test_an_invalid_job_and_a_taken_name_are_refused_by_the_server(sluice_client: Client) -> None:
    with pytest.raises(RequestFailed) as invalid:
        sluice_client.submit(manifest("true", parallelism=-1), queue=QUEUE)
    assert (invalid.value.status, invalid.value.reason, invalid.value.fields) == (422, "Invalid", ("spec.parallelism",))
    wrong = "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"
    assert str(invalid.value) == f'422 Invalid: Job.batch "one" is invalid: {wrong}'
    assert isinstance(invalid.value.__cause__, ApiException)
    sluice_client.submit(manifest("true"), queue=QUEUE)
    with pytest.raises(RequestFailed, match=r'jobs\.batch "one" already exists') as taken:
        sluice_client.submit(manifest("true"), queue=QUEUE)
    assert taken.value.status == 409


def test_each_method_raises_the_error_of_the_client_for_a_user_without_rights(sluice_cluster: Cluster) -> None:
    stranger = new_client_from_config(config_file=str(sluice_cluster.kubeconfig))
    stranger.configuration.refresh_api_key_hook = None  # it would restore the token of the file
    stranger.configuration.api_key["BearerToken"] = "Bearer wrong"
    client = Client(stranger)
    for ask in methods(client):
        with pytest.raises(RequestFailed, match=r"rejects the credentials \(401\)") as refused:
            ask()
        assert refused.value.status == 401


def methods(client: Client) -> list[Callable[[], object]]:
    """A call of each method that asks the server."""
    return [
        lambda: client.submit(manifest("true"), queue=QUEUE),
        lambda: client.get("one"),
        lambda: list(client.watch("one", timeout=1)),
        lambda: client.wait("one", timeout=1),
        lambda: client.logs("one"),
        lambda: list(client.follow_logs("one", timeout=1)),
        lambda: client.cancel("one"),
    ]


def test_a_job_that_names_another_queue_is_not_submitted(sluice_client: Client) -> None:
    tree = manifest("true")
    tree["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "other"}
    with pytest.raises(ValueError, match="the Job names queue other, the call names user-queue"):
        sluice_client.submit(tree, queue=QUEUE)


@pytest.mark.parametrize(("command", "end"), [("true", JobState.SUCCEEDED), ("false", JobState.FAILED)])
def test_watch_yields_the_states_of_a_job_in_order(sluice_client: Client, command: str, end: JobState) -> None:
    job = sluice_client.submit(manifest(command), queue=QUEUE)
    updates = list(sluice_client.watch(job, timeout=SECONDS))
    order = [JobState.PENDING, JobState.RESERVED, JobState.STARTING, JobState.RUNNING, end]
    places = [order.index(update.state) for update in updates]
    assert places == sorted(places)
    assert updates[-1].state == end
    assert (updates[-1].job.status.succeeded, updates[-1].job.status.failed).count(1) == 1


def test_a_failed_job_raises_with_exit_code_and_last_line(sluice_client: Client) -> None:
    job = sluice_client.submit(manifest("sh", "-c", "echo ok; echo cannot open /data/x.csv >&2; exit 3"), queue=QUEUE)
    with pytest.raises(JobFailed) as failed:
        sluice_client.wait(job, timeout=SECONDS)
    error = failed.value
    assert error.cause == "exit 3: cannot open /data/x.csv"
    assert (error.reason, error.failure and error.failure.exit_code) == ("BackoffLimitExceeded", 3)
    assert error.exit_code == 3
    assert error.job.status.failed == 1


def test_a_job_that_can_never_start_raises_at_once(sluice_client: Client) -> None:
    big = sluice_client.submit(manifest("true", cpu="5"), queue=QUEUE, check=False)
    with pytest.raises(NeverStarts, match=r"asks 5 cpu, queue limit 4") as never:
        sluice_client.wait(big, timeout=SECONDS)
    assert "request less" in never.value.remedy
    lost = sluice_client.submit(manifest("true", name="lost"), queue="no-such-queue", check=False)
    with pytest.raises(NeverStarts, match="LocalQueue no-such-queue does not exist"):
        sluice_client.wait(lost, timeout=SECONDS)


@pytest.mark.parametrize(
    ("queue", "cpu", "reason"),
    [
        ("no-such-queue", "1", "LocalQueue no-such-queue does not exist"),
        (QUEUE, "5", "asks 5 cpu, queue limit 4; also can never start: the only node, .*; a pod requests 5"),
    ],
)
def test_submit_raises_for_a_job_that_can_never_start_and_the_job_stays(
    sluice_client: Client, queue: str, cpu: str, reason: str
) -> None:
    with pytest.raises(NeverStarts, match=reason) as never:
        sluice_client.submit(manifest("true", name="lost", cpu=cpu), queue=queue)
    key = f"{sluice_client.namespace}/lost"
    first, *_, last = str(never.value).splitlines()
    assert first.startswith(f"Job {key} was created and stays: ")
    assert last == f"  to delete it: sluice cancel {key}, or client.cancel(error.job)"
    assert never.value.job.metadata.name == "lost"
    assert sluice_client.get(never.value.job).state == JobState.PENDING


def test_a_job_that_was_deactivated_raises_with_what_failed_in_it(start_sluice: Callable[..., Cluster]) -> None:
    client = start_sluice(config=EVICTING).client
    restarting = manifest("/no/such/program", backoffLimit=6)
    restarting["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"  # with Never the Job fails
    job = client.submit(restarting, queue=QUEUE)
    with pytest.raises(JobDeactivated) as lost:
        client.wait(job, timeout=SECONDS)
    again = "fix its command, then submit it again (sluice cancel default/one)"
    assert (lost.value.cause, lost.value.remedy) == ("no such program: /no/such/program", again)
    assert str(lost.value).splitlines() == [
        "Job default/one was deactivated: no such program: /no/such/program; gave up after 1 attempt",
        f"  {again}",
    ]


def test_a_job_that_ran_and_was_deactivated_by_a_user_is_not_said_to_never_start(
    sluice_client: Client, sluice_cluster: Cluster
) -> None:
    job = sluice_client.submit(manifest("sleep", "600"), queue=QUEUE)
    next(update for update in sluice_client.watch(job, timeout=SECONDS) if update.state == JobState.RUNNING)
    key = Key(job.metadata.namespace, "one")
    assert main(["deactivate", str(key), "--kubeconfig", str(sluice_cluster.kubeconfig)]) == 0
    with pytest.raises(JobDeactivated, match=f"^Job {key} was deactivated: by {login_name()}\n") as lost:
        sluice_client.wait(job, timeout=SECONDS)
    assert (lost.value.reason, lost.value.cause) == (f"by {login_name()}", "")


def test_a_job_is_annotated_with_the_user_who_submits_it_unless_it_names_one(sluice_client: Client) -> None:
    own = sluice_client.submit(manifest("true"), queue=QUEUE)
    assert own.metadata.annotations["sluice/user"] == login_name()
    others = manifest("true", name="two")
    others["metadata"]["annotations"] = {"sluice/user": "anna"}
    assert sluice_client.submit(others, queue=QUEUE).metadata.annotations["sluice/user"] == "anna"


def test_a_job_that_only_waits_for_quota_times_out_with_its_state(sluice_client: Client) -> None:
    sluice_client.submit(manifest("sleep", "600", cpu="4"), queue=QUEUE)
    waits = sluice_client.submit(manifest("true", name="two", cpu="4"), queue=QUEUE)
    for timeout in (3, "3s", timedelta(seconds=3)):
        with pytest.raises(Timeout, match="is Pending after 3 s") as late:
            sluice_client.wait(waits, timeout=timeout)
        assert isinstance(late.value, TimeoutError)
        assert late.value.update.state == JobState.PENDING


@pytest.mark.parametrize("prints", ["exec sleep 600", "echo one; exec sleep 600", "while echo one; do sleep 0.1; done"])
def test_a_log_that_goes_on_is_followed_until_the_timeout(sluice_client: Client, prints: str) -> None:
    """Whether the container prints nothing, or no more, or goes on."""
    job = sluice_client.submit(manifest("sh", "-c", prints), queue=QUEUE)
    next(update for update in sluice_client.watch(job, timeout=SECONDS) if update.state == JobState.RUNNING)
    lines: list[str] = []
    began = time.monotonic()
    with pytest.raises(Timeout, match="/one is Running after 2 s") as late:
        lines.extend(sluice_client.follow_logs(job, timeout="2s"))
    assert 2 <= time.monotonic() - began < SECONDS
    assert late.value.update.state == JobState.RUNNING
    assert set(lines) == ({"one"} if "echo" in prints else set())


def test_a_malformed_timeout_is_refused_by_the_call_itself(sluice_client: Client) -> None:
    for ask in (sluice_client.wait, sluice_client.watch, sluice_client.follow_logs):
        for timeout, why in (
            ("3", "'3' is not a duration such as"),
            ("-3s", "'-3s' is negative"),
            (-3, "-3 is negati"),
        ):
            with pytest.raises(ValueError, match=f"^timeout: {why}"):
                ask("one", timeout=timeout)


def test_what_is_no_job_is_refused_with_what_is_one(sluice_client: Client) -> None:
    with pytest.raises(TypeError, match="a Job is a V1Job or its name, not dict: pass what submit returned"):
        sluice_client.wait(manifest("true"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a Job is a V1Job or a mapping with the fields of a manifest, not str"):
        sluice_client.submit("one", queue=QUEUE)  # type: ignore[arg-type]
    for wrong, what in (({"spec": 1}, "spec"), ({"metadata": []}, "metadata"), ({"metadata": {"labels": 1}}, "labels")):
        with pytest.raises(TypeError, match=f"^{what} of a Job is a mapping, not"):
            sluice_client.submit(wrong, queue=QUEUE)


def test_a_manifest_with_empty_sections_is_submitted(sluice_client: Client) -> None:
    tree = manifest("true")
    tree["metadata"]["labels"] = None
    assert sluice_client.submit(tree, queue=QUEUE).metadata.labels["kueue.x-k8s.io/queue-name"] == QUEUE


async def test_cancel_ends_the_processes_of_a_job(sluice_client: Client) -> None:
    marker = str(uuid.uuid4())
    job = sluice_client.submit(manifest("sh", "-c", "exec sleep 600", marker), queue=QUEUE)
    running = sluice_client.submit(manifest("sh", "-c", "sleep 600; true", marker, name="two"), queue=QUEUE)
    await until(lambda: processes_of(marker), "a pod runs")
    for one in (job, running, "no-such-job"):
        sluice_client.cancel(one)
    with pytest.raises(JobDeleted):
        sluice_client.wait(running, timeout=SECONDS)
    await until(lambda: not processes_of(marker), "no pod runs")


@pytest.mark.parametrize("by_name", [True, False])
async def test_a_job_that_is_cancelled_names_who_cancels_it(sluice_client: Client, by_name: bool) -> None:
    """The Job exists until its pod has ended, which ignores SIGTERM."""
    marker = str(uuid.uuid4())
    tree = manifest("sh", "-c", "trap '' TERM; while :; do sleep 1; done", marker)
    tree["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    job = sluice_client.submit(tree, queue=QUEUE)
    await until(lambda: processes_of(marker), "the pod runs")
    sluice_client.cancel("one" if by_name else job)
    ending = BatchV1Api(sluice_client.api_client).read_namespaced_job("one", sluice_client.namespace)
    assert ending.metadata.annotations["sluice/cancelled-by"] == login_name()


def test_an_unknown_name_is_not_found_and_a_known_job_was_deleted(sluice_client: Client) -> None:

    def watched(name: str) -> list[object]:
        return [*sluice_client.watch(name)]

    def followed(name: str) -> list[str]:
        return [*sluice_client.follow_logs(name)]

    for ask in (sluice_client.logs, sluice_client.get, sluice_client.wait, watched, followed):
        with pytest.raises(JobNotFound, match=r"Job .*/no-such-job does not exist"):
            ask("no-such-job")
    job = sluice_client.submit(manifest("true"), queue=QUEUE)
    sluice_client.cancel(job)
    with pytest.raises(JobDeleted):
        sluice_client.wait(job, timeout=SECONDS)
    with pytest.raises(JobDeleted):
        sluice_client.logs(job)


def test_a_job_of_the_same_name_is_another_job(sluice_client: Client) -> None:
    first = sluice_client.submit(manifest("sleep", "600"), queue=QUEUE)
    sluice_client.cancel(first)
    with pytest.raises(JobDeleted):
        sluice_client.wait(first, timeout=SECONDS)
    second = sluice_client.submit(manifest("sleep", "600"), queue=QUEUE)
    with pytest.raises(JobDeleted, match="another one has its name"):
        sluice_client.get(first)
    sluice_client.cancel(first)
    assert sluice_client.get("one").job.metadata.uid == second.metadata.uid


def test_logs_are_those_of_the_index(sluice_client: Client) -> None:
    indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    job = sluice_client.submit(manifest("sh", "-c", "echo part $JOB_COMPLETION_INDEX", **indexed), queue=QUEUE)
    sluice_client.wait(job, timeout=SECONDS)
    assert [sluice_client.logs(job, index=index) for index in range(2)] == ["part 0\n", "part 1\n"]
    with pytest.raises(NoLogs, match="has no index 7; its indexes are 0 to 1"):
        sluice_client.logs(job, index=7)
    with pytest.raises(NoLogs, match="has no index -1"):
        sluice_client.logs(job, index=-1)


def test_the_log_of_a_failed_job_is_that_of_the_pod_that_failed(sluice_client: Client) -> None:
    """Of three indexes, the first fails, and the pod of another one is the newest."""
    limits = {"backoffLimit": 9, "backoffLimitPerIndex": 0}
    indexed = {"completionMode": "Indexed", "completions": 3, "parallelism": 1, **limits}
    job = sluice_client.submit(
        manifest(
            "sh", "-c", "echo part $JOB_COMPLETION_INDEX; test $JOB_COMPLETION_INDEX != 0 && sleep 1.1", **indexed
        ),
        queue=QUEUE,
    )
    with pytest.raises(JobFailed):
        sluice_client.wait(job, timeout=SECONDS)
    assert sluice_client.logs(job) == "part 0\n"


def test_a_job_without_indexes_has_no_log_of_one(sluice_client: Client) -> None:
    """It is not waited for either: the Job runs on when `follow_logs` raises."""
    job = sluice_client.submit(manifest("sleep", "600"), queue=QUEUE)
    with pytest.raises(NoLogs, match=r"^Job \S+/one is not indexed$"):
        sluice_client.logs(job, index=3)
    with pytest.raises(NoLogs, match=r"^Job \S+/one is not indexed$"):
        next(sluice_client.follow_logs(job, index=3, timeout=SECONDS))


def test_a_job_without_a_started_container_has_no_log(sluice_client: Client) -> None:
    pending = sluice_client.submit(manifest("true", cpu="5"), queue=QUEUE, check=False)
    with pytest.raises(NoLogs, match="no pods exist: Pending"):
        sluice_client.logs(pending)
    broken = sluice_client.submit(manifest("/no/such/program", name="other"), queue=QUEUE)
    with pytest.raises(JobFailed) as failed:
        sluice_client.wait(broken, timeout=SECONDS)
    assert failed.value.exit_code == (failed.value.failure and failed.value.failure.exit_code)
    with pytest.raises(NoLogs, match="no pods have started a container: no such program: /no/such/program"):
        sluice_client.logs(broken)


def test_a_job_that_is_deactivated_before_it_starts_has_no_log_to_follow(
    sluice_client: Client, sluice_cluster: Cluster
) -> None:
    job = sluice_client.submit(manifest("true", cpu="5"), queue=QUEUE, check=False)
    assert main(["deactivate", f"{job.metadata.namespace}/one", "--kubeconfig", str(sluice_cluster.kubeconfig)]) == 0
    began = time.monotonic()
    with pytest.raises(NoLogs, match="no pods exist: Deactivated"):
        list(sluice_client.follow_logs(job, timeout=SECONDS))
    assert time.monotonic() - began < SECONDS / 2


def test_pods_that_the_server_refuses_are_the_cause(sluice_client: Client) -> None:
    tree = manifest("true")
    tree["spec"]["template"]["spec"]["priorityClassName"] = "golden"
    job = sluice_client.submit(tree, queue=QUEUE, check=False)
    why = "no pod can be created: PriorityClass golden does not exist"
    assert next(update for update in sluice_client.watch(job, timeout=SECONDS) if update.cause).cause == why
    with pytest.raises(NeverStarts, match="PriorityClass golden does not exist"):
        sluice_client.wait(job, timeout=SECONDS)


def test_a_suspended_job_in_no_queue_is_not_waited_for(sluice_client: Client) -> None:
    tree = manifest("true")
    tree["spec"]["suspend"] = True
    with pytest.raises(NeverStarts, match="it is suspended and in no queue"):
        sluice_client.wait(sluice_client.submit(tree), timeout=SECONDS)


def test_a_job_with_several_obstacles_names_all(sluice_client: Client) -> None:
    tree = manifest("true", cpu="5")
    tree["spec"]["template"]["spec"]["priorityClassName"] = "golden"
    with pytest.raises(
        NeverStarts, match=r"PriorityClass golden does not exist; also .* limit 4; also .* the only node"
    ):
        sluice_client.submit(tree, queue=QUEUE)


def test_logs_are_followed_from_before_the_start_to_the_end(sluice_client: Client) -> None:
    script = "for i in 1 2 3; do echo line $i; sleep 0.1; done; printf rest"
    job = sluice_client.submit(manifest("sh", "-c", script), queue=QUEUE)
    lines = list(sluice_client.follow_logs(job, timeout=SECONDS))
    assert lines == ["line 1", "line 2", "line 3", "rest"]
    assert sluice_client.logs(job, tail_lines=1) == "rest"


async def test_calls_work_in_the_thread_of_an_event_loop(sluice_client: Client) -> None:
    job = sluice_client.submit(manifest("true"), queue=QUEUE)
    assert sluice_client.wait(job, timeout=SECONDS).status.succeeded == 1


def test_a_server_that_is_gone_is_reported_after_a_while(
    start_sluice: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start_sluice()
    client = cluster.client
    job = client.submit(manifest("sleep", "600"), queue=QUEUE)
    monkeypatch.setattr(client_module, "LOST_SECONDS", 0.5)
    server = cluster.url
    with stopped_soon(cluster), pytest.raises(ClusterUnreachable, match="does not answer") as lost:
        client.wait(job, timeout=SECONDS)
    assert lost.value.server == server
    for ask in methods(Client(client.api_client)):
        with pytest.raises(ClusterUnreachable, match=rf"^the cluster does not answer at {server} \(.*\): it is down"):
            ask()


@contextmanager
def stopped_soon(cluster: Cluster) -> Iterator[None]:
    """Stop the cluster while the caller goes on."""
    with ThreadPoolExecutor() as pool:
        stop = pool.submit(cluster.stop)
        yield
        stop.result()


def test_a_cluster_of_sluice_up_that_is_down_has_the_text_of_the_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(data_dir=tmp_path) as cluster:
        client = Client.from_kubeconfig(cluster.kubeconfig)
    assert main(["show", "one", "--kubeconfig", str(tmp_path / "kubeconfig")]) != 0
    printed = capsys.readouterr().err.removeprefix("sluice show: ").strip()
    with pytest.raises(ClusterUnreachable) as down:
        client.get("one")
    assert str(down.value) == printed
    assert printed.endswith(f"to start it: sluice up --data-dir {tmp_path}")


def test_jobs_of_a_kubeconfig_of_sluice_up_are_those_of_the_login_name(sluice_cluster: Cluster) -> None:
    created = Client.from_kubeconfig(sluice_cluster.kubeconfig).submit(manifest("true"), queue=QUEUE)
    assert created.metadata.annotations["sluice/user"] == login_name()


def test_a_kubeconfig_that_is_missing_or_wrong_is_an_error_of_python(sluice_cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none-such\); .* or name one with the argument `path`$"):
        Client.from_kubeconfig(tmp_path / "none-such")
    with pytest.raises(ValueError, match="contexts has no entry 'other'"):
        Client.from_kubeconfig(sluice_cluster.kubeconfig, context="other")
    tree = yaml.safe_load(sluice_cluster.kubeconfig.read_text())
    tree["clusters"] = []
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(tree))
    with pytest.raises(ValueError, match=f"^{tmp_path}/kubeconfig: "):
        Client.from_kubeconfig(tmp_path / "kubeconfig")


def test_a_kubeconfig_names_the_namespace(sluice_cluster: Cluster) -> None:
    client = Client.from_kubeconfig(sluice_cluster.kubeconfig)
    assert client.namespace == "default"
    assert BatchV1Api(client.api_client).list_namespaced_job("default") is not None
