"""When traces are on, what a process then sends to a collector, and what it sends to the API server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from queue_manager.api.api_resources import PODS
from queue_manager.engine import tracing
from queue_manager.engine.cause_ids import CURRENT, CauseId
from queue_manager.engine.otlp import trace_id_of
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Transport
from queue_manager.engine.workqueue import WorkQueue
from tests.collector import Collector, attributes, collecting
from tests.unit.engine.loopback import Loopback, pod, status

CAUSE = CauseId("uid-of-a", "7")
SAMPLED = 1  # a bit of the flags in traceparent
ON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    """A collector to which this process sends its spans until `tracing.close`."""
    with collecting() as collector:
        for name, value in collector.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "under-test")
        tracing.configure("by-default", os.environ)
        yield collector
        tracing.close()


async def spans_of_a_sync(client: RestClient) -> None:
    """One sync of a key that creates a pod, for CAUSE."""
    queue: WorkQueue[str] = WorkQueue("q")

    async def sync(key: str) -> None:
        queue.close()
        await client.create(PODS, "default", pod("x"))

    CURRENT.set(CAUSE)
    queue.add("default/a")
    await queue.run(sync)
    await asyncio.to_thread(tracing.close)


async def test_a_write_is_a_child_of_its_sync(collector: Collector, served: tuple[Loopback, Transport]) -> None:
    await spans_of_a_sync(RestClient(served[1], server="https://api.example:6443"))
    (sync,) = collector.named("sync q")
    (write,) = collector.named("POST /api/v1/namespaces/{namespace}/pods")
    assert (write.parent_span_id, sync.parent_span_id) == (sync.span_id, b"")
    assert write.trace_id == sync.trace_id == trace_id_of(CAUSE).to_bytes(16)
    assert attributes(list(sync.attributes)) == {
        "sluice.queue": "q",
        "sluice.key": "default/a",
        "sluice.cause": ["uid-of-a@7"],
    }
    assert attributes(list(write.attributes)) == {
        "http.request.method": "POST",
        "http.response.status_code": 201,
        "url.full": "https://api.example:6443/api/v1/namespaces/default/pods",
        "url.path": "/api/v1/namespaces/default/pods",
        "url.template": "/api/v1/namespaces/{namespace}/pods",
        "server.address": "api.example",
        "server.port": 6443,
        "sluice.resource": "pods",
        "sluice.cause": ["uid-of-a@7"],
    }
    assert collector.resources[0]["service.name"] == "under-test"


async def test_the_api_server_gets_the_span_of_the_write(
    collector: Collector, served: tuple[Loopback, Transport]
) -> None:
    """As the W3C specifies: version, trace, span, sampled."""
    await spans_of_a_sync(RestClient(served[1]))
    (write,) = collector.named("POST /api/v1/namespaces/{namespace}/pods")
    (sent,) = [headers["traceparent"].split("-") for headers in served[0].headers]
    assert sent[:3] == ["00", write.trace_id.hex(), write.span_id.hex()]
    assert int(sent[3], 16) & SAMPLED


async def test_a_refused_write_is_a_span_with_an_error(
    collector: Collector, served: tuple[Loopback, Transport]
) -> None:
    served[0].refusals.append(status(422, "Invalid", "no"))
    await spans_of_a_sync(RestClient(served[1]))
    (write,) = collector.named("POST /api/v1/namespaces/{namespace}/pods")
    (sync,) = collector.named("sync q")
    found = attributes(list(write.attributes))
    assert (found["http.response.status_code"], found["error.type"]) == (422, "422")
    assert write.status.code == sync.status.code == write.status.STATUS_CODE_ERROR


async def test_a_sync_is_linked_with_the_earlier_span_of_its_change(collector: Collector) -> None:
    """As a Job's pods from the write that unsuspended it, if the status of the Job was written at the same time."""
    assert tracing.tracer is not None
    queue: WorkQueue[str] = WorkQueue("q")
    CURRENT.set(CAUSE)
    for name in ("unsuspend", "status"):
        with tracing.tracer.sync(name, "a"):
            queue.add("a")

    async def sync(key: str) -> None:
        queue.close()

    await queue.run(sync)
    await asyncio.to_thread(tracing.close)
    ((unsuspend,), (status,), (span,)) = (collector.named(f"sync {name}") for name in ("unsuspend", "status", "q"))
    assert span.parent_span_id == status.span_id
    assert [(link.trace_id, link.span_id) for link in span.links] == [(unsuspend.trace_id, unsuspend.span_id)]


async def test_a_cycle_is_a_trace_of_its_own_with_links(collector: Collector) -> None:
    assert tracing.tracer is not None
    CURRENT.set(CAUSE)
    causes: list[CauseId | None] = []
    with tracing.tracer.sync("q", "a"):
        causes.append(CURRENT.get())
    CURRENT.set(None)
    with tracing.tracer.cycle(2) as span:
        span.decided({"admitted": 1, "refused": 1}, [*causes, None])
    await asyncio.to_thread(tracing.close)
    (cycle,) = collector.named("admission cycle")
    (sync,) = collector.named("sync q")
    assert [(link.trace_id, link.span_id) for link in cycle.links] == [(sync.trace_id, sync.span_id)]
    assert attributes(list(cycle.attributes)) == {"sluice.heads": 2, "sluice.admitted": 1, "sluice.refused": 1}
    assert cycle.trace_id != sync.trace_id


async def test_the_sampler_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, served: tuple[Loopback, Transport]
) -> None:
    """The API server learns that the trace is not sampled."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
        for name, value in collector.environment().items():
            monkeypatch.setenv(name, value)
        tracing.configure("x", os.environ)
        await spans_of_a_sync(RestClient(served[1]))
        assert collector.spans == []
    (sent,) = [headers["traceparent"] for headers in served[0].headers]
    assert not int(sent.rpartition("-")[2], 16) & SAMPLED


async def test_a_collector_that_does_not_answer_delays_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://192.0.2.1:4318")
    tracing.configure("x", os.environ)
    assert tracing.tracer is not None
    with tracing.tracer.sync("q", "a"):
        pass
    async with asyncio.timeout(10):
        await asyncio.to_thread(tracing.close)


@pytest.mark.parametrize(
    ("environment", "warning"),
    [
        ({}, ""),
        ({**ON, "OTEL_SDK_DISABLED": "true"}, ""),
        ({**ON, "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({**ON, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "traces are off: the only protocol is http/protobuf"),
    ],
)
def test_traces_are_off_unless_configured(
    environment: dict[str, str], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    tracing.configure("x", environment)
    assert tracing.tracer is None
    assert [record.message for record in caplog.records] == ([warning] if warning else [])


def test_missing_packages_are_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name in [name for name in sys.modules if name == "queue_manager.engine.otlp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    tracing.configure("x", ON)
    assert tracing.tracer is None
    assert [record.message for record in caplog.records] == [
        "traces are off: a package is missing, install sluice[otel]"
    ]


@pytest.mark.thorough
def test_without_configuration_nothing_of_opentelemetry_is_imported() -> None:
    program = """import os, sys
from queue_manager.cli import manager, up
from queue_manager.engine import tracing
tracing.configure("x", {})
print([name for name in sys.modules if name.startswith("opentelemetry")])"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


async def test_an_error_of_a_write_outside_of_any_sync_is_raised(
    collector: Collector, served: tuple[Loopback, Transport]
) -> None:
    served[0].refusals.append(status(422, "Invalid", "no"))
    with pytest.raises(ApiError):
        await RestClient(served[1]).create(PODS, "default", pod("x"))
    await asyncio.to_thread(tracing.close)
    (write,) = collector.spans
    assert "sluice.cause" not in attributes(list(write.attributes))
