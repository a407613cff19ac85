"""The nightly report of a data team, tested on a cluster of one cpu."""

from pathlib import Path

import pytest
from kubernetes.client import (
    V1Container,
    V1Job,
    V1JobSpec,
    V1ObjectMeta,
    V1PodSpec,
    V1PodTemplateSpec,
    V1ResourceRequirements,
)

from queue_manager.client import Client, JobFailed, JobState


def report(name: str, script: str) -> V1Job:
    main = V1Container(
        name="main",
        image="report",
        command=["sh", "-c", script],
        resources=V1ResourceRequirements(requests={"cpu": "1"}),
    )
    template = V1PodTemplateSpec(spec=V1PodSpec(restart_policy="Never", containers=[main]))
    return V1Job(metadata=V1ObjectMeta(name=name), spec=V1JobSpec(backoff_limit=0, template=template))


def test_the_report_is_written(sluice_client: Client, tmp_path: Path) -> None:
    job = sluice_client.submit(report("daily", f"echo 42 rows > {tmp_path}/report; echo written"), queue="user-queue")
    sluice_client.wait(job, timeout=60)
    assert (tmp_path / "report").read_text() == "42 rows\n"
    assert sluice_client.logs(job) == "written\n"


def test_a_report_without_data_says_why(sluice_client: Client) -> None:
    job = sluice_client.submit(report("daily", "cat /no/such/data.csv; exit 3"), queue="user-queue")
    with pytest.raises(JobFailed, match=r"exit 3: .*No such file") as failed:
        sluice_client.wait(job, timeout=60)
    assert failed.value.failure is not None
    assert failed.value.failure.exit_code == 3


def test_the_second_report_waits_for_the_first(sluice_client: Client) -> None:
    first = sluice_client.submit(report("first", "exec sleep 600"), queue="user-queue")
    assert any(update.state == JobState.RUNNING for update in sluice_client.watch(first, timeout=60))
    second = sluice_client.submit(report("second", "true"), queue="user-queue")
    assert sluice_client.get(second).state == JobState.PENDING
    sluice_client.cancel(first)
    sluice_client.wait(second, timeout=60)
