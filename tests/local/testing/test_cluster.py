"""`Cluster`: its options, its end, and what it says when it cannot start."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kubernetes.client import BatchV1Api, CoreV1Api, V1Namespace, V1ObjectMeta

from queue_manager.configuration import loads
from queue_manager.testing import Cluster, ClusterFailed
from tests.local.cluster.conftest import processes_of
from tests.waiting import until

OWNER = """\
import sys, time
from queue_manager.testing import Cluster
cluster = Cluster().start()
command = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done", sys.argv[1]]
main = {"name": "main", "image": "local", "command": command}
spec = {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [main]}}}
cluster.client.submit({"metadata": {"name": "busy"}, "spec": spec}, queue="user-queue")
print(cluster.kubeconfig, flush=True)
time.sleep(600)
"""


def job(command: list[str]) -> dict[str, object]:
    main = {"name": "main", "image": "local", "command": command}
    template = {"spec": {"restartPolicy": "Never", "containers": [main]}}
    return {"metadata": {"name": "busy"}, "spec": {"backoffLimit": 0, "template": template}}


def test_the_official_client_finds_the_nodes_that_were_asked_for() -> None:
    with Cluster(nodes=2, cpu="3", memory="5Gi") as cluster:
        nodes = CoreV1Api(cluster.api_client).list_node().items
        assert [node.status.capacity["cpu"] for node in nodes] == ["3", "3"]
        assert {node.status.capacity["memory"] for node in nodes} == {"5Gi"}
        assert cluster.kubeconfig.is_file()


def test_its_text_has_its_address() -> None:
    cluster = Cluster()
    assert repr(cluster) == "<Cluster that does not run>"
    with cluster:
        assert repr(cluster) == f"<Cluster {cluster.kubeconfig.parent.name} at {cluster.url}>"
    assert repr(cluster) == "<Cluster that does not run>"


async def test_a_coroutine_uses_it_with_async_with() -> None:
    async with Cluster() as cluster:
        assert CoreV1Api(cluster.api_client).list_node().items
    with pytest.raises(RuntimeError, match="does not run"):
        _ = cluster.url


def test_clusters_that_run_side_by_side_share_nothing() -> None:
    clusters = [Cluster(), Cluster()]
    with ThreadPoolExecutor() as pool:
        try:
            first, second = pool.map(Cluster.start, clusters)
            assert first.url != second.url
            assert first.kubeconfig.parent != second.kubeconfig.parent
            CoreV1Api(first.api_client).create_namespace(V1Namespace(metadata=V1ObjectMeta(name="mine")))
            names = [item.metadata.name for item in CoreV1Api(second.api_client).list_namespace().items]
            assert "mine" not in names
        finally:
            list(pool.map(Cluster.stop, clusters))


async def test_pods_that_ignore_sigterm_end_with_it() -> None:
    marker = str(uuid.uuid4())
    with Cluster(grace_seconds=0.2) as cluster:
        cluster.client.submit(job(["sh", "-c", "trap '' TERM; while :; do sleep 1; done", marker]), queue="user-queue")
        await until(lambda: processes_of(marker), "the pod runs")
        folder = cluster.kubeconfig.parent
    assert not processes_of(marker)
    assert not folder.exists()


async def test_it_ends_when_the_process_that_started_it_is_killed() -> None:
    marker = str(uuid.uuid4())
    with subprocess.Popen([sys.executable, "-c", OWNER, marker], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip()).parent
        await until(lambda: len(processes_of(marker)) > 1, "the pod runs")  # the owner is one of them
        owner.kill()
    await until(lambda: not processes_of(marker), "the pod has ended")
    await until(lambda: not folder.exists(), "the directory is removed")


def test_objects_stay_in_a_data_directory_that_was_named(tmp_path: Path) -> None:
    cluster = Cluster(data_dir=tmp_path / "data")
    with cluster:
        cluster.client.submit(job(["true"]), queue="user-queue")
    with cluster:
        assert [item.metadata.name for item in BatchV1Api(cluster.api_client).list_namespaced_job("default").items]


def test_a_configuration_is_accepted_in_each_form(tmp_path: Path) -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmanageJobsWithoutQueueName: true\n"
    (tmp_path / "config.yaml").write_text(text)
    for config in (text, {"manageJobsWithoutQueueName": True}, tmp_path / "config.yaml", loads(text)):
        with Cluster(config=config) as cluster:
            created = BatchV1Api(cluster.api_client).create_namespaced_job(
                "default", {"apiVersion": "batch/v1", "kind": "Job", **job(["true"])}
            )
            assert created.spec.suspend


def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^cpu: "):
        Cluster(cpu="many")
    with pytest.raises(ValueError, match=r"^grace_seconds: 'soon' is not a duration"):
        Cluster(grace_seconds="soon")
    with pytest.raises(ClusterFailed, match=r'configuration:1: waitForPodsReady.timeout: "soon" is not a duration'):
        Cluster(config={"waitForPodsReady": {"timeout": "soon"}}).start()
    (tmp_path / "file").touch()
    with pytest.raises(ClusterFailed, match="Not a directory"):
        Cluster(data_dir=tmp_path / "file" / "data").start()
    with pytest.raises(ClusterFailed, match=r"no answer within 0.001 s"):
        Cluster(start_seconds="1ms").start()


def test_a_data_directory_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path), pytest.raises(ClusterFailed, match=r"in use"):
        Cluster(data_dir=tmp_path).start()


def test_what_a_test_replaces_does_not_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory whose modules have the names of ours, and an environment without PATH."""
    (tmp_path / "queue_manager").mkdir()
    (tmp_path / "queue_manager/__init__.py").write_text("raise SystemExit('the wrong one')")
    (tmp_path / "aiohttp.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        monkeypatch.delenv(name)
    with Cluster() as cluster:
        assert cluster.url
        assert cluster.log == ""
