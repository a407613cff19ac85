"""Delivery of notices to a command and to a webhook: real processes, a real HTTP server."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from queue_manager.configuration.notifications_section import NotificationWebhook
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.process_tuning import event_loop
from queue_manager.notifications import signing
from queue_manager.notifications.command_sink import CommandSink, variables
from queue_manager.notifications.notice_sink_protocol import NotDelivered
from queue_manager.notifications.notices import Notice
from queue_manager.notifications.notifier import MAX_WAITING, _Outbox
from queue_manager.notifications.webhook_sink import ATTEMPTS, WebhookSink
from tests.waiting import until

SECRET = "a secret that nobody may see"
NOTICE = Notice(
    id="j.JobFailed.1",
    type="JobFailed",
    time=datetime(2026, 1, 1, tzinfo=UTC),
    namespace="team",
    job="train",
    job_uid="j",
    queue="lq",
    reason="BackoffLimitExceeded",
    message="it's $HOME; `rm`",
    failed_pods=1,
)


def command(script: str, seconds: float = 30, **hidden: str) -> CommandSink:
    return CommandSink(["sh", "-c", script], seconds, hidden, {**os.environ, **hidden})


async def test_a_command_gets_the_facts_as_json_and_variables(tmp_path: Path) -> None:
    sink = command(f"cat >{tmp_path}/json; env >{tmp_path}/env", TOKEN=SECRET)
    sink.check()
    await sink.deliver(NOTICE)
    facts = json.loads((tmp_path / "json").read_text())
    assert (facts["schemaVersion"], facts["type"], facts["job"], facts["message"]) == (
        *(1, "JobFailed", "train", "it's $HOME; `rm`"),
    )
    environment = (tmp_path / "env").read_text()
    assert "SLUICE_EVENT_JOB_UID=j\n" in environment
    assert "SLUICE_EVENT_MESSAGE=it's $HOME; `rm`\n" in environment
    assert SECRET not in environment


def test_a_command_need_not_read_its_input() -> None:
    """The command line runs on uvloop, which fails to write to a pipe that the command has closed."""
    large = msgspec.structs.replace(NOTICE, message="x" * 100_000)  # more than a pipe holds

    async def scenario() -> None:
        await command("true").deliver(large)
        with pytest.raises(NotDelivered, match="ended with code 3"):
            await command("exec <&-; echo closed; exit 3").deliver(large)

    with event_loop() as loop:
        loop.run(scenario())


def test_absent_facts_are_empty_variables() -> None:
    assert variables(NOTICE)["SLUICE_EVENT_SUCCEEDED_PODS"] == ""
    assert variables(NOTICE)["SLUICE_EVENT_TIME"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("sink", "says"),
    [
        (command("echo first >&2; echo no such room >&2; exit 3"), "sh ended with code 3: no such room"),
        (command("sleep 600", seconds=0.1), "sh did not end within 0.1 s"),
        (CommandSink(["/no/such/program"], 1), "/no/such/program: No such file or directory"),
    ],
)
async def test_a_command_that_fails_is_reported_with_its_reason(sink: CommandSink, says: str) -> None:
    with pytest.raises(NotDelivered) as raised:
        await sink.deliver(NOTICE)
    assert str(raised.value) == says


async def test_children_of_a_command_that_takes_too_long_end_with_it(tmp_path: Path) -> None:
    sink = command(f"sleep 600 & echo $! >{tmp_path}/pid; wait", seconds=2)
    with pytest.raises(NotDelivered):
        await sink.deliver(NOTICE)
    child = int((tmp_path / "pid").read_text())
    await until(lambda: "sleep" not in _command_line(child), "the child has ended")


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return ""


class Receiver:
    """An HTTP server that answers with these statuses, the last one forever."""

    def __init__(self) -> None:
        self.statuses = [200]
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append((dict(request.headers), await request.read()))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    def sink(self, **settings: Any) -> WebhookSink:
        chosen = NotificationWebhook(**{"url": self.url, "secret_env": "SECRET", **settings})
        return WebhookSink(chosen, SystemClock(), random.Random(1), {"SECRET": SECRET}, first_delay=0.001)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    app = web.Application()
    app.router.add_post("/{path:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook/token-in-the-path"
    yield made
    await runner.cleanup()


async def test_a_webhook_is_signed_over_what_it_receives(receiver: Receiver) -> None:
    sink = receiver.sink()
    sink.check()
    await sink.deliver(NOTICE)
    ((headers, body),) = receiver.requests
    timestamp = int(headers["webhook-timestamp"])
    assert headers["webhook-signature"] == signing.headers(SECRET, NOTICE.id, timestamp, body)["webhook-signature"]
    assert abs(timestamp - datetime.now(UTC).timestamp()) < 60
    assert json.loads(body)["job"] == "train"


async def test_a_webhook_is_tried_again_while_the_receiver_cannot(receiver: Receiver) -> None:
    receiver.statuses = [503, 429, 408, 200]
    await receiver.sink().deliver(NOTICE)
    assert [headers["webhook-id"] for headers, _ in receiver.requests] == [NOTICE.id] * 4


@pytest.mark.parametrize(("status", "requests"), [(500, ATTEMPTS), (400, 1), (302, 1)])
async def test_a_webhook_is_given_up_without_showing_its_path(receiver: Receiver, status: int, requests: int) -> None:
    receiver.statuses = [status]
    with pytest.raises(NotDelivered) as raised:
        await receiver.sink().deliver(NOTICE)
    assert f"answered {status}" in str(raised.value)
    assert "token-in-the-path" not in str(raised.value)
    assert len(receiver.requests) == requests


async def test_a_receiver_that_does_not_listen_is_given_up() -> None:
    settings = NotificationWebhook(url="http://127.0.0.1:9/secret-path", secret_env="SECRET")
    sink = WebhookSink(settings, SystemClock(), random.Random(1), {"SECRET": SECRET}, first_delay=0.001)
    with pytest.raises(NotDelivered, match=r"http://127\.0\.0\.1 did not answer .*, 6 attempts"):
        await sink.deliver(NOTICE)


async def test_secret_and_url_are_read_from_files_at_each_delivery(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"{receiver.url}\n")
    sink = receiver.sink(url="", url_file=str(tmp_path / "url"), secret_env="", secret_file=str(tmp_path / "secret"))
    with pytest.raises(NotDelivered, match="secret: No such file"):
        sink.check()
    for secret in ("first", "second"):
        (tmp_path / "secret").write_text(f"{secret}\n")
        await sink.deliver(NOTICE)
        headers, body = receiver.requests[-1]
        expected = signing.headers(secret, NOTICE.id, int(headers["webhook-timestamp"]), body)
        assert headers["webhook-signature"] == expected["webhook-signature"]


def test_a_missing_secret_is_found_at_the_start() -> None:
    settings = NotificationWebhook(url="http://127.0.0.1:9/", secret_env="ABSENT")
    with pytest.raises(NotDelivered, match="ABSENT is not set"):
        WebhookSink(settings, SystemClock(), random.Random(1), {}).check()


class Stuck:
    """A sink that waits until it is released, and then fails as told."""

    name = "webhook"

    def __init__(self, error: Exception | None = None) -> None:
        self.released = asyncio.Event()
        self.error = error
        self.taken: list[Notice] = []

    def check(self) -> None:
        raise NotDelivered("not usable")

    async def deliver(self, notice: Notice) -> None:
        self.taken.append(notice)
        await self.released.wait()
        if self.error is not None:
            raise self.error


def counted(metrics: MetricRegistry) -> Callable[[str], float]:
    return lambda result: metrics.value("sluice_notifications_total", {"sink": "webhook", "result": result})


async def test_a_stuck_receiver_holds_up_nobody_and_its_queue_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    sink, metrics = Stuck(), MetricRegistry()
    outbox = _Outbox(sink, metrics)
    running = asyncio.create_task(outbox.run())
    await until(lambda: "notifications cannot be delivered" in caplog.text)
    for _ in range(MAX_WAITING + 3):
        outbox.put(NOTICE)
    assert counted(metrics)("dropped") == 3
    sink.released.set()
    await until(lambda: len(sink.taken) == MAX_WAITING)
    await until(lambda: counted(metrics)("delivered") == MAX_WAITING)
    running.cancel()


@pytest.mark.parametrize("error", [NotDelivered("refused"), RuntimeError("a mistake")])
async def test_a_failed_delivery_does_not_end_the_next_ones(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    sink, metrics = Stuck(error), MetricRegistry()
    outbox = _Outbox(sink, metrics)
    running = asyncio.create_task(outbox.run())
    sink.released.set()
    outbox.put(NOTICE)
    outbox.put(NOTICE)
    await until(lambda: counted(metrics)("failed") == 2)
    assert not running.done()
    assert any(record.levelno >= logging.WARNING and "notification" in record.message for record in caplog.records)
    running.cancel()
