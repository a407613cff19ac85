"""Events are written as by client-go, counted, aggregated, and never hold up other writes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from job_controller.model import ObjectMeta, Pod
from queue_manager.api.api_resources import EVENTS
from queue_manager.engine import event_deferral
from queue_manager.engine import event_recorder as module
from queue_manager.engine.event_correlation import MAX_ENTRIES, Correlator
from queue_manager.engine.event_deferral import EventDeferral
from queue_manager.engine.event_recorder import EventRecorder
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.rest_client import RestClient
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.unit.engine.loopback import Loopback, status
from tests.waiting import until

Served = tuple[Loopback, HttpTransport]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = Pod(
    api_version="v1", kind="Pod", metadata=ObjectMeta(name="a", namespace="default", uid="u", resource_version="7")
)


class StoppedClock:
    def now(self) -> datetime:
        return NOW


async def delivered(recorder: EventRecorder) -> None:
    run = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    await recorder.drain(5)
    await run


async def test_an_event_is_written_as_by_client_go(served: Served) -> None:
    server, transport = served
    recorder = EventRecorder(RestClient(transport), StoppedClock(), "job-controller")
    recorder.event(POD, "Normal", "Started", "x" * 2000)
    await delivered(recorder)
    assert server.requests[0][:2] == ("POST", "/api/v1/namespaces/default/events")
    assert server.bodies == [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"a.{int(NOW.timestamp()) * 10**9:x}", "namespace": "default"},
            "involvedObject": {
                "kind": "Pod",
                "namespace": "default",
                "name": "a",
                "uid": "u",
                "apiVersion": "v1",
                "resourceVersion": "7",
            },
            "type": "Normal",
            "reason": "Started",
            "message": "x" * 1024,
            "source": {"component": "job-controller"},
            "reportingComponent": "job-controller",
            "reportingInstance": "",
            "eventTime": None,
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "count": 1,
        }
    ]


async def test_a_repeated_event_increments_the_count(served: Served) -> None:
    server, transport = served
    recorder = EventRecorder(RestClient(transport), StoppedClock(), "c")
    for _ in range(3):
        recorder.event(POD, "Normal", "Started", "again")
    await delivered(recorder)
    assert [method for method, _, _ in server.requests] == ["POST", "PATCH", "PATCH"]
    assert next(iter(server.objects.values()))["count"] == 3


async def test_an_expired_event_is_created_again(served: Served) -> None:
    server, transport = served
    recorder = EventRecorder(RestClient(transport), StoppedClock(), "c")
    run = asyncio.create_task(recorder.run())
    recorder.event(POD, "Normal", "Started", "again")
    await until(lambda: len(server.objects) == 1)
    server.objects.clear()
    recorder.event(POD, "Normal", "Started", "again")
    await recorder.drain(5)
    await run
    assert [obj["count"] for obj in server.objects.values()] == [2]


async def test_a_refused_event_is_counted_as_lost_and_the_next_is_delivered(served: Served) -> None:
    server, transport = served
    server.refusals.append(status(403, "Forbidden", "namespace is being terminated"))
    recorder = EventRecorder(RestClient(transport), StoppedClock(), "c")
    recorder.event(POD, "Normal", "First", "one")
    recorder.event(POD, "Normal", "Second", "two")
    await delivered(recorder)
    assert recorder.dropped == 1
    assert [obj["reason"] for obj in server.objects.values()] == ["Second"]


async def test_a_failed_delivery_is_repeated_in_order(served: Served, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "RETRY_DELAYS_SECONDS", (0.01, 0.01))
    server, transport = served
    server.refusals.append(status(500, "InternalError", "etcd is away"))
    recorder = EventRecorder(RestClient(transport), StoppedClock(), "c")
    recorder.event(POD, "Normal", "First", "one")
    recorder.event(POD, "Normal", "Second", "two")
    await delivered(recorder)
    assert [obj["reason"] for obj in server.objects.values()] == ["First", "Second"]


async def test_too_many_waiting_events_are_dropped_and_counted(served: Served, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "MAX_PENDING", 2)
    recorder = EventRecorder(RestClient(served[1]), StoppedClock(), "c")
    for number in range(5):
        recorder.event(POD, "Normal", f"Reason{number}", "text")
    await delivered(recorder)
    assert (recorder.dropped, len(served[0].objects)) == (3, 2)


@pytest.mark.parametrize(
    ("backlog", "deferred", "written"),
    [
        (False, event_deferral.MAX_DEFERRED, range(20, 21)),
        (True, event_deferral.MAX_DEFERRED, range(10, 11)),  # two batches
        (True, 16, range(14, 19)),  # the first four are more than may be deferred, and so may be those beside them
    ],
)
def test_events_wait_for_other_writes_unless_too_many_are_pending(
    backlog: bool, deferred: int, written: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_deferral, "MAX_DEFERRED", deferred)
    monkeypatch.setattr(event_deferral, "BATCH", 5)

    async def scenario() -> int:
        async with World() as world:
            pace = EventDeferral(lambda: backlog)
            recorder = EventRecorder(world.client, world.clock, "c", pace=pace)
            for number in range(20):
                recorder.event(_pod(number), "Normal", "Started", "text")
            run = asyncio.create_task(recorder.run())
            await asyncio.sleep(1.5 * event_deferral.BATCH_SECONDS)
            known = len(await world.client.list(EVENTS, "default"))
            await recorder.drain(5)
            await run
            assert len(await world.client.list(EVENTS, "default")) == 20
            assert pace.pending == 0
            return known

    assert run_virtual(scenario()) in written


async def test_recorders_of_one_pace_share_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_deferral, "IN_FLIGHT", 2)
    pace, client = EventDeferral(), _SlowClient()
    recorders = [EventRecorder(client, StoppedClock(), name, pace=pace) for name in "abc"]  # type: ignore[arg-type]
    for recorder in recorders:
        for number in range(5):
            recorder.event(_pod(number), "Normal", "Started", "text")
    async with asyncio.TaskGroup() as group:
        for recorder in recorders:
            group.create_task(recorder.run())
            group.create_task(recorder.drain(5))
    assert (client.created, client.most) == (15, 2)


class _SlowClient:
    """Counts how many creations are under way at the same time."""

    def __init__(self) -> None:
        self.created = self.most = self._running = 0

    async def create(self, *_: object, **__: object) -> None:
        self._running += 1
        self.most = max(self.most, self._running)
        for _ in range(10):
            await asyncio.sleep(0)
        self._running -= 1
        self.created += 1


def _pod(number: int) -> Pod:
    meta = ObjectMeta(name=f"pod-{number}", namespace="default", uid=f"u{number}")
    return Pod(api_version="v1", kind="Pod", metadata=meta)


async def test_the_version_of_the_object_is_not_part_of_an_events_identity(served: Served) -> None:
    server, transport = served
    recorder = EventRecorder(RestClient(transport), StoppedClock(), "c")
    for version in ("7", "8"):
        meta = msgspec.structs.replace(POD.metadata, resource_version=version)
        recorder.event(msgspec.structs.replace(POD, metadata=meta), "Warning", "FailedCreate", "again")
    await delivered(recorder)
    assert [event["count"] for event in server.objects.values()] == [2]


async def test_many_lost_events_are_few_log_lines(served: Served, monkeypatch, caplog) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "MAX_PENDING", 0)
    recorder = EventRecorder(RestClient(served[1]), StoppedClock(), "c")
    for number in range(1000):
        recorder.event(POD, "Normal", "Started", f"number {number}")
    assert recorder.dropped == 1000
    assert [line.lost for line in caplog.records] == [2**n for n in range(10)]


def test_the_tenth_similar_event_starts_an_aggregate() -> None:
    correlator = Correlator()
    recorded = [correlator.take(("c", "u"), "Normal", "Created", f"pod {n}", NOW) for n in range(12)]
    messages = [occurrence.message for occurrence in recorded if occurrence]
    assert messages[:9] == [f"pod {n}" for n in range(9)]
    assert recorded[10] is recorded[9]
    assert recorded[11] is not None
    assert (recorded[11].message, recorded[11].count) == ("(combined from similar events): pod 11", 3)
    again = correlator.take(("c", "u"), "Normal", "Created", "pod 3", NOW)
    assert again is recorded[3]
    assert again is not None
    assert (again.message, again.count) == ("pod 3", 2)


def test_similar_events_far_apart_are_not_aggregated() -> None:
    correlator = Correlator()
    for number in range(20):
        now = NOW + number * timedelta(minutes=11)
        occurrence = correlator.take(("c", "u"), "Normal", "Created", f"pod {number}", now)
        assert occurrence is not None
        assert occurrence.message == f"pod {number}"


def test_events_of_an_object_are_limited_to_25_and_one_per_five_minutes() -> None:
    correlator = Correlator()

    def recorded(count: int, now: datetime) -> int:
        return sum(correlator.take(("c", "u"), "Normal", "Created", f"pod {n}", now) is not None for n in range(count))

    assert recorded(40, NOW) == 25
    assert recorded(40, NOW + timedelta(minutes=10)) == 2
    assert correlator.take(("c", "u"), "Normal", "Completed", "Job completed", NOW) is not None


class TickingClock:
    """A clock that advances by a minute from one Event to the next."""

    def __init__(self) -> None:
        self.minutes = -1

    def now(self) -> datetime:
        self.minutes += 1
        return NOW + timedelta(minutes=self.minutes)


async def test_a_count_updates_the_last_time_and_an_aggregate_the_message(served: Served) -> None:
    server, transport = served
    recorder = EventRecorder(RestClient(transport), TickingClock(), "c")
    for number in range(11):
        recorder.event(POD, "Normal", "Created", f"pod {number}")
    await delivered(recorder)
    combined = list(server.objects.values())[-1]
    assert (combined["count"], combined["message"]) == (2, "(combined from similar events): pod 10")
    assert (combined["firstTimestamp"], combined["lastTimestamp"]) == ("2026-01-01T00:09:00Z", "2026-01-01T00:10:00Z")


async def test_an_event_of_an_object_without_namespace_is_written_to_the_default_one(served: Served) -> None:
    server, transport = served
    recorder = EventRecorder(RestClient(transport), StoppedClock(), "c")
    node = Pod(api_version="v1", kind="Node", metadata=ObjectMeta(name="n"))
    for _ in range(2):
        recorder.event(node, "Warning", "Full", "no room")
    await delivered(recorder)
    assert server.requests[0][1] == "/api/v1/namespaces/default/events"
    (event,) = server.objects.values()
    assert (event["metadata"]["namespace"], event["count"]) == ("default", 2)
    assert event["involvedObject"] == {"kind": "Node", "name": "n", "apiVersion": "v1"}


async def test_an_event_whose_name_is_in_use_gets_the_next_name(served: Served) -> None:
    """The recorders of the Job controller and of the queue manager, at the same time, about one Job."""
    server, transport = served
    for component in ("a", "b"):
        recorder = EventRecorder(RestClient(transport), StoppedClock(), component)
        recorder.event(POD, "Normal", "Started", "text")
        await delivered(recorder)
        assert recorder.dropped == 0
    assert [event["source"]["component"] for event in server.objects.values()] == ["a", "b"]


@pytest.mark.parametrize("code", [500, 429])
async def test_an_undeliverable_event_is_counted_and_logged_and_dropped(
    served: Served, code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_DELAYS_SECONDS", (0.01, 0.01))
    server, transport = served
    server.refusals.extend(status(code, "InternalError", "etcd is away") for _ in range(3))
    metrics = MetricRegistry()
    recorder = EventRecorder(RestClient(transport), StoppedClock(), "c", metrics=metrics)
    recorder.event(POD, "Normal", "First", "one")
    recorder.event(POD, "Normal", "Second", "two")
    await delivered(recorder)
    assert [event["reason"] for event in server.objects.values()] == ["Second"]
    assert metrics.value("events_dropped_total", {"component": "c"}) == 1
    (line,) = [line for line in caplog.records if line.message == "an Event is lost"]
    assert (line.key, line.reason) == ("default/a", "First")  # type: ignore[attr-defined]
    assert "etcd is away" in line.error  # type: ignore[attr-defined]


async def test_events_beyond_the_limit_of_a_reason_are_counted(served: Served) -> None:
    metrics = MetricRegistry()
    recorder = EventRecorder(RestClient(served[1]), StoppedClock(), "c", metrics=metrics)
    for _ in range(27):
        recorder.event(POD, "Normal", "Started", "again")
    await delivered(recorder)
    assert metrics.value("events_suppressed_total", {"component": "c"}) == 2
    assert recorder.dropped == 0


async def test_events_that_a_stop_leaves_unsent_are_logged(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_DELAYS_SECONDS", (3600.0,))
    server, transport = served
    server.refusals.append(status(500, "InternalError", "etcd is away"))
    recorder = EventRecorder(RestClient(transport), StoppedClock(), "c")
    recorder.event(POD, "Normal", "Started", "one")
    run = asyncio.create_task(recorder.run())
    await until(lambda: not server.refusals)
    await recorder.drain(0.01)
    run.cancel()
    assert [(line.message, line.count) for line in caplog.records] == [("Events not delivered before the stop", 1)]  # type: ignore[attr-defined]


def test_similar_events_are_one_group_until_ten_minutes_after_the_last() -> None:
    correlator = Correlator()
    times = [NOW + number * timedelta(minutes=9) for number in range(10)]
    recorded = [correlator.take(("c", "u"), "Normal", "Created", f"pod {n}", now) for n, now in enumerate(times)]
    assert recorded[-1] is not None
    assert recorded[-1].message == "(combined from similar events): pod 9"


def test_the_correlator_forgets_the_least_recently_used_events() -> None:
    """Its memory is bounded."""
    correlator = Correlator()

    def count(name: str) -> int:
        occurrence = correlator.take(("c", name), "Normal", "Started", "text", NOW)
        return occurrence.count if occurrence else 0

    for name in ("kept", "forgotten"):
        count(name)
    for number in range(MAX_ENTRIES - 2):
        count(f"other {number}")
    assert count("kept") == 2  # used again: now the other one is the oldest
    count("one too many")
    assert (count("kept"), count("forgotten")) == (3, 1)


async def test_an_event_about_a_cluster_object_is_only_logged_without_the_right(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    server, transport = served
    recorder = EventRecorder(RestClient(transport), StoppedClock(), "queue", cluster_wide=False)
    with caplog.at_level("INFO"):
        recorder.event(Pod(kind="ClusterQueue", metadata=ObjectMeta(name="cq", uid="u")), "Warning", "Why", "a text")
    recorder.event(POD, "Normal", "Started", "x")
    await delivered(recorder)
    assert [body["involvedObject"]["kind"] for body in server.bodies] == ["Pod"]
    assert "a text" in caplog.messages
