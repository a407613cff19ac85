"""Which change a sync, a write or an Event follows from."""

from __future__ import annotations

import random
from functools import reduce

import pytest

from job_controller.model import Key, ObjectMeta, Pod
from queue_manager.api.api_resources import PODS
from queue_manager.engine.cache import Cache
from queue_manager.engine.cause_ids import CURRENT, MAX_JOINED, CauseId, join
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.engine.write_trail import AUDIT_ID
from tests.unit.engine.loopback import Loopback, pod
from tests.waiting import until

A, B, C = (CauseId(letter, "1") for letter in "abc")


def cached(name: str, revision: int, uid: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="default", uid=uid or name, resource_version=str(revision)))


class Recording(Relay):
    """Keeps the requests, and lets a test act between a request and its response."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.requests: list[Request] = []
        self.before_response = lambda: None

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        answer = await super().request(request)
        self.before_response()
        return answer


def seen_by(cache: Cache[Pod]) -> list[str]:
    """The causes of the changes that a subscriber sees from now on."""
    seen: list[str] = []
    cache.subscribe(lambda old, new: seen.append(str(CURRENT.get())))
    return seen


def test_a_change_of_somebody_else_is_its_own_cause() -> None:
    cache: Cache[Pod] = Cache("pods")
    seen = seen_by(cache)
    cache.observe(cached("a", 7))
    cache.observe_deleted(cached("a", 9))
    assert seen == ["a@7", "a@9"]
    assert CURRENT.get() is None


async def test_the_response_to_a_write_has_the_cause_of_the_write(served: tuple[Loopback, Transport]) -> None:
    client, cache = RestClient(served[1]), Cache[Pod]("pods")
    client.attach_cache(cache, PODS, Pod)
    seen = seen_by(cache)
    CURRENT.set(A)
    await client.create(PODS, "default", pod("x"))
    assert seen == ["a@1"]


async def test_a_watch_that_is_faster_than_the_response_changes_no_cause(served: tuple[Loopback, Transport]) -> None:
    recording = Recording(served[1])
    client, cache = RestClient(recording), Cache[Pod]("pods")
    client.attach_cache(cache, PODS, Pod)
    seen = seen_by(cache)

    def by_watch() -> None:
        CURRENT.set(None)  # as in the task of a reflector
        cache.observe(cached("x", served[0].revision, uid="by-watch"))
        CURRENT.set(A)

    recording.before_response = by_watch
    CURRENT.set(A)
    await client.create(PODS, "default", pod("x"))
    assert set(seen) == {"a@1"}
    CURRENT.set(None)
    cache.observe(cached("y", served[0].revision + 1))
    assert seen[-1] == f"y@{served[0].revision + 1}"


async def test_a_write_sends_its_cause_as_the_audit_id(served: tuple[Loopback, Transport]) -> None:
    """With a number: the audit ids of two writes differ. It fits into the 64 characters that the API server logs."""
    recording = Recording(served[1])
    client = RestClient(recording)
    CURRENT.set(CauseId("0b3c1f9e-6a5c-4d7e-9c5f-1f2e3d4c5b6a", "1234567890123"))
    await client.create(PODS, "default", pod("x"))
    await client.delete(PODS, "default", "x")
    first, second = (dict(request.headers)[AUDIT_ID] for request in recording.requests)
    assert first.startswith(f"{CURRENT.get()}/")
    assert first != second
    assert len(first) <= 64


async def test_without_a_cause_the_api_server_chooses_the_audit_id(served: tuple[Loopback, Transport]) -> None:
    recording = Recording(served[1])
    await RestClient(recording).create(PODS, "default", pod("x"))
    assert recording.requests[0].headers == ()


async def synced(queue: WorkQueue[str]) -> dict[str, CauseId | None]:
    """Process the queued keys; returns the cause of each sync."""
    found: dict[str, CauseId | None] = {}

    async def sync(key: str) -> None:
        found[key] = CURRENT.get()

    queue.finish()
    await queue.run(sync)
    return found


async def test_a_sync_follows_from_each_change_since_the_key_was_queued() -> None:
    queue: WorkQueue[str] = WorkQueue("q")
    for cause in (A, B, A, None):
        CURRENT.set(cause)
        queue.add("x")
    queue.add("y")
    found = await synced(queue)
    assert found["x"] is not None
    assert (str(found["x"]), found["x"].others) == ("a@1", (B,))
    assert found["y"] is None


async def test_a_delayed_sync_has_the_cause_of_what_set_the_delay() -> None:
    queue: WorkQueue[str] = WorkQueue("q")
    CURRENT.set(A)
    queue.add_after("x", 0.01)
    CURRENT.set(B)
    await until(lambda: len(queue), "the delay is over")
    assert await synced(queue) == {"x": A}


async def test_a_repeated_sync_has_the_cause_of_the_failed_one() -> None:
    queue: WorkQueue[str] = WorkQueue("q", first_delay=0.001)
    causes: list[CauseId | None] = []

    async def fails_once(key: str) -> None:
        causes.append(CURRENT.get())
        if len(causes) == 1:
            raise OSError
        queue.close()

    CURRENT.set(A)
    queue.add("x")
    await queue.run(fails_once)
    assert causes == [A, A]


async def test_an_event_is_written_with_the_cause_with_which_it_was_recorded(
    served: tuple[Loopback, Transport],
) -> None:
    recording = Recording(served[1])
    runtime = Runtime(recording, SystemClock(), random.Random(0), silence=None)
    recorder = runtime.recorder("test")
    async with runtime:
        CURRENT.set(A)
        recorder.event(cached("x", 1), "Normal", "Because", "of a")
        CURRENT.set(B)
        recorder.event(cached("x", 1), "Normal", "Because", "of b")
        await until(lambda: len(recording.requests) >= 2, "both Events are written")
    ids = [dict(request.headers)[AUDIT_ID].rpartition("/")[0] for request in recording.requests]
    assert list(dict.fromkeys(ids)) == ["a@1", "b@1"]


def test_work_names_a_limited_number_of_causes() -> None:
    many = join([None, *(CauseId("u", str(number)) for number in range(20))])
    assert many is not None
    assert (str(many), len(many.others)) == ("u@0", MAX_JOINED - 1)
    assert join([None]) is None
    assert join([A.joined(B), C]) == CauseId("a", "1", (B, C))


@pytest.mark.parametrize(
    ("key", "text"), [(Key("ns", "a"), "ns/a"), (Key("", "a"), "a"), (("lq", Key("ns", "a")), "lq/ns/a"), ("x", "x")]
)
async def test_a_failed_sync_is_logged_with_its_key_and_cause(
    key: object, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue: WorkQueue[object] = WorkQueue("q")

    async def fails(key: object) -> None:
        queue.close()
        raise OSError

    CURRENT.set(A)
    queue.add(key)
    await queue.run(fails)
    assert [record.__dict__["key"] for record in caplog.records] == [text]


def test_work_that_serves_a_change_twice_follows_from_the_later_span() -> None:
    """A Job is added, and unsuspended before its first sync: the pods follow from the write that unsuspended it."""
    added, unsuspended = CauseId("a", "1"), CauseId("a", "1", span="of a write")
    assert added.joined(unsuspended).span == "of a write"
    assert unsuspended.joined(added).span == "of a write"
    assert added.joined(unsuspended).earlier_spans == unsuspended.joined(added).earlier_spans == ()
    assert CauseId("a", "1", (B,), span="earlier").joined(unsuspended) == CauseId(
        "a", "1", (B,), span="of a write", earlier_spans=("earlier",)
    )


def test_work_keeps_the_latest_spans_of_a_change() -> None:
    writes = [CauseId("a", "1", span=number) for number in range(MAX_JOINED + 3)]
    followed = reduce(CauseId.joined, [*writes, writes[-1]])
    assert (followed.span, followed.earlier_spans) == (MAX_JOINED + 2, tuple(range(2, MAX_JOINED + 2)))


def test_a_write_of_several_transitions_follows_from_the_first() -> None:
    reserved, counted = CauseId("a", "1", span="of the Workload"), CauseId("a", "1", span="of a sync")
    assert join([reserved, counted]) == reserved
    assert join([CauseId("a", "1"), counted]) == counted
    assert join([reserved, counted.joined(B)]) == CauseId("a", "1", (B,), span="of the Workload")
