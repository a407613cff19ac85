"""Sends notices to an HTTP receiver, signed, and again if it cannot take them now.

An attempt counts as delivered if the answer is 2xx. It is repeated after no answer, 408, 429 and 5xx; any other answer
is final. Redirections are not followed. Neither the secret nor the path of the URL, which may be one, is logged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import aiohttp
import msgspec
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

from job_controller.ports import Clock
from queue_manager.configuration.notifications_section import NotificationWebhook
from queue_manager.engine.call_backoff import Backoff
from queue_manager.notifications import signing
from queue_manager.notifications.notice_sink_protocol import NotDelivered
from queue_manager.notifications.notices import Notice

ATTEMPTS = 6
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0  # between attempts: together one to two minutes
USER_AGENT = "sluice"
REPEATED = frozenset({408, 429})  # and all of SERVER_ERRORS
SERVER_ERRORS = range(500, 600)
DELIVERED = range(200, 300)


class _NotNow(Exception):
    """The receiver cannot take the notice now; the text says what it answered."""


class WebhookSink:
    """Delivers notices to one URL by signed POST requests, with retries."""

    name = "webhook"

    def __init__(
        self,
        settings: NotificationWebhook,
        clock: Clock,
        rng: Random,
        environment: Mapping[str, str] = os.environ,
        first_delay: float = FIRST_SECONDS,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._environment = environment
        self._first_delay = first_delay

    def check(self) -> None:
        """Read URL and secret once. Raises NotDelivered with what is wrong."""
        self._url()
        signing.headers(self._secret(), "check", 0, b"")

    async def deliver(self, notice: Notice) -> None:
        """Send the notice, at most ATTEMPTS times. Raises NotDelivered with the reason of the last attempt."""
        retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=Backoff(self._rng, self._first_delay, LONGEST_SECONDS),
            retry=retry_if_exception_type(_NotNow),
            reraise=True,
        )
        body = msgspec.json.encode(notice)
        try:
            await retrying(self._attempt, notice.id, body)
        except _NotNow as error:
            raise NotDelivered(f"{error}, {ATTEMPTS} attempts") from error

    async def _attempt(self, id: str, body: bytes) -> None:
        """Send the request. The signature has the time of this attempt, so that receivers may refuse old ones."""
        url = self._url()
        try:
            signed = signing.headers(self._secret(), id, int(self._clock.now().timestamp()), body)
        except ValueError as error:
            raise NotDelivered(str(error)) from error
        status = await self._status(url, {**signed, "Content-Type": "application/json"}, body)
        if status in REPEATED or status in SERVER_ERRORS:
            raise _NotNow(f"{_shown(url)} answered {status}")
        if status not in DELIVERED:
            raise NotDelivered(f"{_shown(url)} answered {status}")

    async def _status(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout.total_seconds())
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=True, headers={"User-Agent": USER_AGENT}) as session,
                session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                return answer.status
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise _NotNow(f"{_shown(url)} did not answer ({type(error).__name__})") from error

    def _url(self) -> str:
        return self._settings.url or _content(self._settings.url_file)

    def _secret(self) -> str:
        if self._settings.secret_file:
            return _content(self._settings.secret_file)
        value = self._environment.get(self._settings.secret_env, "")
        if not value:
            raise NotDelivered(f"the environment variable {self._settings.secret_env} is not set")
        return value


def _content(file: str) -> str:
    """The text of a file without the white space around it. Raises NotDelivered if it cannot be read."""
    try:
        return Path(file).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise NotDelivered(f"{file}: {reason}") from error


def _shown(url: str) -> str:
    """Scheme and host of the URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}"
