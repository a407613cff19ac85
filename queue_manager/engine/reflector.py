"""Keeps a cache equal to a collection of the API server: list once, then watch (client-go's Reflector).

    list ──ok──> watch from its revision ──ends or breaks──> watch from where it ended
      ^                    │
      └── 410 Gone ────────┘        (the cache stays as it is until the new list has arrived)

Every end of a watch leads into the next round of this loop: the server closes it (timeoutSeconds), the connection
breaks, no byte arrives for SILENCE_SECONDS (API servers send a bookmark every minute), an ERROR event arrives, or the
server is busy and sends Retry-After. Failures are spaced by a backoff with jitter. An object that cannot be decoded is
counted and logged with its key; its last readable state stays in the cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any, Generic, cast

import msgspec
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from job_controller.model import Key, Object
from job_controller.ports import Metrics
from queue_manager.api.api_resources import Resource
from queue_manager.engine.cache import Cache, T
from queue_manager.engine.call_backoff import Backoff
from queue_manager.engine.cause_ids import CURRENT
from queue_manager.engine.interning import sharer
from queue_manager.engine.json_codec import UNDECODABLE, complete, decoder
from queue_manager.engine.rest_client import PAGE_SIZE, Page
from queue_manager.engine.transport_protocol import ApiError, Request, Transport
from queue_manager.engine.watch_lag import WatchLag

log = logging.getLogger(__name__)

WATCH_SECONDS = 300  # timeoutSeconds of a watch, randomly up to twice as long (client-go: 5 to 10 minutes)
EMBEDDED_WATCH_SECONDS = 24 * 3600  # timeoutSeconds of a watch in the same process
SILENCE_SECONDS = 150.0  # without a byte, after which a watch is abandoned
SHORT_WATCH_SECONDS = 1.0  # a watch that ends sooner, without a change, counts as a failure
LIST_TIMEOUT_SECONDS = 60.0  # per page
MAX_REVISION_DIGITS = 20  # of a 64-bit number
EXPIRED_REASONS = ("Expired", "Gone")  # of the Status in a watch event
CHANGES = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
EVENTS_PER_YIELD = 2000  # events applied before other tasks run


class _UnexpectedEvent(Exception):
    """A watch event that is not a change of an object."""


class Expired(Exception):
    """410 Gone: the server no longer has the revision from which the watch should continue."""


class Reflector(Generic[T]):
    """Fills one cache. Call `run` as a task; `synced` is set by the first list."""

    def __init__(
        self,
        transport: Transport,
        resource: Resource,
        type: type[T],
        cache: Cache[T],
        *,
        rng: Random,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metrics: Metrics | None = None,
        undecodable: Callable[[Object, str], None] | None = None,
        silence: float | None = SILENCE_SECONDS,
    ) -> None:
        """`undecodable` is called with the head of an object whose body cannot be decoded, and the reason.

        `namespace`: only objects of this one; "": of all.

        `silence`: seconds without a byte after which a watch is abandoned. None: the server is in the same process,
        where a watch cannot break unnoticed; then it lasts a day and needs no bookmarks.
        """
        self.cache = cache
        self.resource = resource
        self.synced = asyncio.Event()
        self.undecodable_count = 0
        self._transport = transport
        self._path = resource.path(namespace)
        self._rng = rng
        self._selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._metrics = metrics
        self._undecodable = undecodable
        self._silence = silence
        self._backoff = Backoff(rng)
        self._listed = False  # since the last 410
        self._object: msgspec.json.Decoder[T] = decoder(type)
        self._event = _event_decoder(type)
        cache.share = sharer(resource, type)
        self._heard_at: float | None = None  # when the server last sent something, by the clock of the loop
        self._lag: WatchLag | None = None
        if metrics is not None:
            self._lag = WatchLag(metrics, str(resource), lambda: asyncio.get_running_loop().time())
            cache.await_revision = self._lag.await_revision

    def silent_for(self) -> float | None:
        """Seconds since the server last sent a list, an event or a bookmark; None before the first list, and for a
        server in this process, which sends no bookmarks.
        """
        if self._heard_at is None or self._silence is None:
            return None
        return asyncio.get_running_loop().time() - self._heard_at

    async def run(self) -> None:
        """List and watch until cancelled. Failures are retried after a delay that grows until objects arrive again."""
        self._listed = False
        CURRENT.set(None)  # whatever requested the cache: each change is a cause of its own
        retrying = AsyncRetrying(
            retry=retry_if_exception_type((ApiError, OSError, *UNDECODABLE)),
            wait=self._backoff,
            before_sleep=self._report_failure,
        )
        await retrying(self._list_and_watch)

    async def _list_and_watch(self) -> None:
        while True:
            try:
                if not self._listed:
                    await self._list()
                    self._listed = True
                await self._watch()
            except Expired as expired:
                self._listed = False
                self._log(logging.INFO, "watch expired, listing again", expired)

    # --- list ---

    async def _list(self) -> None:
        """Read all pages of one revision into the cache. A 410 between two pages starts again at the first page."""
        objects: list[T] = []
        unreadable: set[Key] = set()
        query = {"limit": str(PAGE_SIZE), **self._chosen()}
        while True:
            page = await self._page(query)
            for raw in page.items or ():
                obj = self._decode(raw)
                if obj is not None:
                    objects.append(obj)
                elif (head := self._head(raw)) is not None:
                    unreadable.add(head.metadata.key)
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
            await asyncio.sleep(0)
        self.cache.reset(objects, _revision(page.metadata.resource_version), unreadable)
        self._heard_at = asyncio.get_running_loop().time()
        self._report_progress()
        self._backoff.reset()
        self.synced.set()
        self._count("reflector_lists_total")

    async def _page(self, query: dict[str, str]) -> Page:
        answer = await self._transport.request(Request("GET", self._path, query=query, timeout=LIST_TIMEOUT_SECONDS))
        if not answer.is_ok:
            error = ApiError.of(answer.status, answer.body, answer.headers)
            if error.is_expired and "continue" in query:
                raise Expired(error.message)
            raise error
        return decoder(Page).decode(answer.body)

    # --- watch ---

    async def _watch(self) -> None:
        """Watch from the progress of the cache until the watch ends."""
        loop = asyncio.get_running_loop()
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self.cache.progress),
            "timeoutSeconds": str(WATCH_SECONDS + self._rng.randrange(WATCH_SECONDS)),
            **self._chosen(),
        }
        if self._silence is None:
            query |= {"allowWatchBookmarks": "false", "timeoutSeconds": str(EMBEDDED_WATCH_SECONDS)}
        started, before = loop.time(), self.cache.progress
        try:
            async with (
                asyncio.timeout(self._silence) as watchdog,
                self._transport.stream(self._path, query=query) as chunks,
            ):
                await self._read(chunks, watchdog)
        except ApiError as error:
            if error.is_expired:
                raise Expired(error.message) from error
            raise
        except TimeoutError:
            log.info("watch is silent, reconnecting", extra={"resource": str(self.resource)})
        if self.cache.progress == before and loop.time() - started < SHORT_WATCH_SECONDS:
            raise ConnectionError("the watch ended immediately")

    async def _read(self, chunks: AsyncIterator[bytes], watchdog: asyncio.Timeout) -> None:
        """Split the chunks into lines and apply each; one line may span many chunks."""
        loop = asyncio.get_running_loop()
        rest: list[bytes] = []
        taken = 0
        async for chunk in chunks:
            if self._silence is not None:
                self._heard_at = loop.time()
                watchdog.reschedule(self._heard_at + self._silence)
            end = chunk.rfind(b"\n") + 1
            if not end:
                rest.append(chunk)
                continue
            begin = 0
            if rest:
                begin = chunk.find(b"\n") + 1
                taken += self.take(b"".join((*rest, chunk[:begin])))
            if begin < end:
                taken += self.take(memoryview(chunk)[begin:end])  # a view: chunks are large, do not copy them
            rest = [chunk[end:]] if end < len(chunk) else []
            if taken >= EVENTS_PER_YIELD:
                taken = 0
                await asyncio.sleep(0)

    def take(self, lines: bytes | memoryview) -> int:
        """Apply complete lines, all at once if all can be decoded. Returns their number."""
        try:
            events = self._event.decode_lines(lines)
        except UNDECODABLE:
            return self._take_singly(bytes(lines))
        try:
            for event in events:
                self._apply(event)
        except _UnexpectedEvent:
            self._take_unexpected(bytes(lines))
        self._backoff.reset()
        self._report_progress()
        return len(events)

    def _report_progress(self) -> None:
        if self._lag is not None:
            self._lag.delivered(self.cache.progress)

    def _take_singly(self, lines: bytes) -> int:
        """Decode and apply lines one by one, after `take` could not decode them all; returns their number."""
        events = [line for line in lines.splitlines() if line.strip()]
        for line in events:
            raw = _RAW_EVENT.decode(line)
            try:
                self._apply(self._event.decode(line))
            except (*UNDECODABLE, _UnexpectedEvent):
                self._apply_raw(raw)
        self._report_progress()
        return len(events)

    def _take_unexpected(self, lines: bytes) -> None:
        """Handle the line that is not a change of an object, among lines that could be decoded."""
        for line in lines.splitlines():
            raw = _RAW_EVENT.decode(line)
            if raw.type not in CHANGES:
                self._apply_raw(raw)

    def _apply(self, event: _Event) -> None:
        obj = event.object
        match event.type:
            case "ADDED" | "MODIFIED":
                self.cache.observe(obj)
            case "DELETED":
                self.cache.observe_deleted(obj)
            case "BOOKMARK":
                self.cache.advance(_revision(obj.metadata.resource_version))
            case other:
                # The object of an ERROR is a Status. A type without `status` decodes it as an object without a
                # name and loses the error, e.g. the 410 after which only a new list helps.
                raise _UnexpectedEvent(other)

    def _apply_raw(self, event: _RawEvent) -> None:
        """Apply an event whose object cannot be decoded as the reflector's type: a bookmark, an error, or malformed."""
        if event.type == "ERROR":
            self._raise(event.object)
        if event.type not in CHANGES:
            raise ApiError(500, "", f"unexpected watch event {event.type}")
        head = self._head(event.object)
        if head is None:
            return
        if event.type == "DELETED":
            self.cache.observe_deleted(head)
        elif event.type != "BOOKMARK":
            self._report(head, event.object)
        self.cache.advance(_revision(head.metadata.resource_version))

    def _raise(self, status: msgspec.Raw) -> None:
        found = decoder(_Status).decode(status)
        error = ApiError(found.code or 500, found.reason, found.message, decoder(dict).decode(status))
        if error.is_expired or error.reason in EXPIRED_REASONS:
            raise Expired(error.message)
        raise error

    # --- objects ---

    def _decode(self, raw: msgspec.Raw) -> T | None:
        try:
            return self._object.decode(raw)
        except UNDECODABLE:
            head = self._head(raw)
            if head is not None:
                self._report(head, raw)
            return None

    def _head(self, raw: msgspec.Raw) -> Object | None:
        """The metadata of an object that cannot be decoded as a whole; None if even its metadata cannot."""
        try:
            head: Object = decoder(Object).decode(raw)
        except UNDECODABLE:
            self._report(Object(), raw)
            return None
        complete(head, self.resource)
        return head

    def _report(self, head: Object, raw: msgspec.Raw) -> None:
        try:
            self._object.decode(raw)
            why = "its metadata cannot be decoded"
        except UNDECODABLE as error:
            why = str(error)
        self.undecodable_count += 1
        self._count("reflector_undecodable_total")
        meta = head.metadata
        log.error(
            "an object cannot be decoded and is skipped",
            extra={"resource": str(self.resource), "key": str(meta.key), "uid": meta.uid, "error": why},
        )
        if self._undecodable is not None and head.metadata.name:
            self._undecodable(head, why)

    # --- failures ---

    def _report_failure(self, attempt: RetryCallState) -> None:
        """Count and log an attempt that will be repeated."""
        self._count("reflector_failures_total")
        error = attempt.outcome.exception() if attempt.outcome is not None else None
        self._log(logging.WARNING, f"list or watch failed, retrying in {attempt.upcoming_sleep:.1f} s", error)

    def _log(self, level: int, text: str, error: BaseException | None) -> None:
        log.log(level, text, extra={"resource": str(self.resource), "error": f"{type(error).__name__}: {error}"})

    def _count(self, metric: str) -> None:
        if self._metrics is not None:
            self._metrics.inc(metric, {"resource": str(self.resource)})

    def _chosen(self) -> dict[str, str]:
        return {name: value for name, value in self._selectors.items() if value}


class _Event(msgspec.Struct):
    """A watch event; decoders replace the type of `object` by the reflector's type."""

    type: str
    object: Any


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_RAW_EVENT = msgspec.json.Decoder(_RawEvent)


class _Status(msgspec.Struct):
    """The object of an ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""


def _revision(text: str) -> int:
    """A resourceVersion as a number, 0 if absent. Raises ValidationError, as for any other field of the wrong type."""
    if not text:
        return 0
    if text.isascii() and text.isdecimal() and len(text) <= MAX_REVISION_DIGITS:
        return int(text)
    raise msgspec.ValidationError(f"resourceVersion {text[:MAX_REVISION_DIGITS]!r} is not a number")


def _event_decoder(type: type[Any]) -> msgspec.json.Decoder[_Event]:
    """Decodes an event and its object in one pass."""
    event = msgspec.defstruct("Event", [("type", str), ("object", type)], gc=False)
    return cast("msgspec.json.Decoder[_Event]", msgspec.json.Decoder(event))
