"""One cause, from the creation of a Job to its pods: in the log of the manager, in audit events and in traces."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from queue_manager.api.api_resources import NAMESPACES
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from tests.collector import Collector, attributes, collecting
from tests.control_plane.audit import events
from tests.control_plane.conftest import ROOT, SLUICE, install_kinds
from tests.control_plane.manager.process import ALL_JOBS
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.manager.service_account import account, write_kubeconfig
from tests.control_plane.server import LEASH, ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, verbs: [create, patch]}]
"""
Line = dict[str, Any]


class Records:
    """What a manager and its API server wrote down about one Job."""

    def __init__(self, log: Path, audit: Path, collector: Collector, token: str) -> None:
        self.text = log.read_text()
        self.lines: list[Line] = [json.loads(line) for line in self.text.splitlines()]
        self.audit: list[Line] = list(events(audit))
        self.collector = collector
        self.token = token
        (admitted,) = [line for line in self.lines if line["msg"] == "admitted"]
        self.cause: str = admitted["cause"]

    def of_cause(self, message: str) -> list[Line]:
        return [line for line in self.lines if line["msg"] == message and line.get("cause") == self.cause]


@asynccontextmanager
async def manager(folder: Path, kubeconfig: Path, environment: dict[str, str]) -> AsyncIterator[None]:
    """A manager that logs JSON at level debug into the file `log`, from ready to its end."""
    (folder / "config.yaml").write_text(ALL_JOBS)
    flags = ("--config", str(folder / "config.yaml"), "--metrics-port", "0", "--log-format=json", "--log-level=debug")
    log = folder / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *[*LEASH, *SLUICE, "manager", "--kubeconfig", str(kubeconfig), *flags],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
        )
    try:
        await until(lambda: '"msg":"ready"' in log.read_text(), "the manager is ready")
        yield
        process.terminate()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    folder = tmp_path_factory.mktemp("trail")
    return asyncio.run(recorded(folder))


async def recorded(folder: Path) -> Records:
    """Admit and start a Job of two pods, with an audit log and a collector of traces."""
    (folder / "audit.yaml").write_text(AUDIT)
    audit = folder / "audit.log"
    flags = (f"--audit-policy-file={folder / 'audit.yaml'}", f"--audit-log-path={audit}", "--audit-log-mode=blocking")
    with ControlPlane.start(*flags) as plane, collecting() as collector:
        install_kinds(plane)
        transport = HttpTransport.from_kubeconfig(plane.kubeconfig)
        api = RestClient(transport)
        await api.create(NAMESPACES, "", {"metadata": {"name": "trail"}})
        token, _ = await (await account(api, "trail")).token()
        kubeconfig = write_kubeconfig(folder / "kubeconfig", plane.url, {"token": token}, plane)
        scenario = Scenario(api, "trail", until)
        await scenario.queues()
        async with manager(folder, kubeconfig, collector.environment()):
            await scenario.submit("train", parallelism=2, completions=2)

            await until(lambda: is_recorded(folder / "log"), "the Job has its pods, and an Event")
        await transport.close()
        return Records(folder / "log", audit, collector, token)


def is_recorded(log: Path) -> bool:
    """Whether the manager has read the answers to its creations of both pods and of an Event."""
    lines = [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    created = [line["resource"] for line in lines if line["msg"] == "wrote" and line["verb"] == "create"]
    return created.count("pods") == 2 and "events" in created


def test_one_cause_leads_from_the_job_to_its_pods(records: Records) -> None:
    (added,) = [line for line in records.of_cause("added") if line["resource"] == "jobs.batch"]
    assert added["key"] == "trail/train"
    assert records.cause.startswith(added["uid"] + "@")
    written = [(line["verb"], line["resource"]) for line in records.of_cause("wrote")]
    chain = [
        ("create", "workloads.kueue.x-k8s.io"),
        ("patch", "workloads.kueue.x-k8s.io/status"),
        ("patch", "jobs.batch"),
        ("create", "pods"),
    ]
    assert [step for step in dict.fromkeys(written) if step in chain] == chain
    assert written.count(("create", "pods")) == 2
    assert ("create", "events") in written


def test_the_audit_log_names_the_cause_of_each_write(records: Records) -> None:
    """Each request has an id of its own that begins with the cause."""
    ours = [event["auditID"] for event in records.audit if event["auditID"].startswith(records.cause + "/")]
    assert len(set(ours)) == len(ours) == len(records.of_cause("wrote")) + len(records.of_cause("write failed"))


def test_spans_of_one_cause_are_one_trace(records: Records) -> None:
    assert records.collector.problems == []
    assert {resource["service.name"] for resource in records.collector.resources} == {"sluice-manager"}
    spans = {span.span_id: span for span in records.collector.trace(records.cause)}
    assert len({span.trace_id for span in spans.values()}) == 1
    (pod, _) = [span for span in spans.values() if span.name == "POST /api/v1/namespaces/{namespace}/pods"]
    (workload,) = records.collector.named("POST /apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads")
    before_the_pod = origins(pod, spans)
    assert "PATCH /apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads/{name}/status" in before_the_pod
    assert workload.name in before_the_pod
    assert origins(workload, spans) == {"sync jobs-queue"}


def origins(span: Span, spans: Mapping[bytes, Span]) -> set[str]:
    """The names of all spans that a span follows from, by parents and links.

    Which of them is the parent depends on the order in which the answers of the API server arrive.
    """
    names, left = set(), [span]
    while left:
        each = left.pop()
        ids = (each.parent_span_id, *(link.span_id for link in each.links))
        found = [spans[span_id] for span_id in ids if span_id in spans]
        names |= {origin.name for origin in found}
        left += found
    return names


def test_a_write_is_a_span_of_an_http_client(records: Records) -> None:
    (span,) = records.collector.named("POST /apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads")
    found = attributes(list(span.attributes))
    assert span.kind == span.SPAN_KIND_CLIENT
    assert found["http.request.method"] == "POST"
    assert found["http.response.status_code"] == 201
    assert str(found["url.full"]).startswith(f"https://127.0.0.1:{found['server.port']}/apis/kueue.x-k8s.io/")


def test_an_admission_cycle_is_linked_with_what_it_decided(records: Records) -> None:
    cycles = [span for span in records.collector.named("admission cycle") if span.links]
    linked = [attributes(list(link.attributes))["sluice.cause"] for span in cycles for link in span.links]
    assert records.cause in linked


def test_log_lines_name_their_trace(records: Records) -> None:
    (line, _) = [line for line in records.of_cause("wrote") if line["resource"] == "pods"]
    assert line["trace_id"] in {span.trace_id.hex() for span in records.collector.trace(records.cause)}
    assert line["span_id"] in {span.span_id.hex() for span in records.collector.trace(records.cause)}


def test_each_line_of_the_manager_is_json(records: Records) -> None:
    """Those of libraries and the announcements of the command too."""
    assert all({"level", "ts", "logger", "msg"} <= line.keys() for line in records.lines)
    assert {"ready", "stopped"} <= {line["msg"] for line in records.lines}


def test_no_token_is_logged(records: Records) -> None:
    assert len(records.token) > 100
    assert records.token not in records.text
    assert records.token.rpartition(".")[2] not in records.text
