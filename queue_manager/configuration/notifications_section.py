"""The section `notifications`: which events of Jobs are reported to a command and a webhook. Sluice's own."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from queue_manager.configuration.config_field_types import SECOND, ConfigModel, List, PositiveDuration

EventType = Literal["JobSucceeded", "JobFailed", "JobDeactivated", "JobPreempted"]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)


class NotificationWebhook(ConfigModel):
    """Receives each event in a POST request, signed with HMAC-SHA256. One of secretFile and secretEnv is required."""

    url: str = ""
    """Where to: https, or http. Its path is not logged. Empty: urlFile."""

    url_file: str = ""
    """The file with the URL, for one that is a secret itself. Empty: url."""

    secret_file: str = ""
    """The file with the secret, which is read at each delivery. Empty: secretEnv."""

    secret_env: str = ""
    """The environment variable with the secret. Empty: secretFile."""

    timeout: PositiveDuration = 10 * SECOND
    """For one attempt."""


class Notifications(ConfigModel):
    """Notifications about events of Jobs that name a queue."""

    events: List[str] = EVENT_TYPES
    """What is reported: JobSucceeded, JobFailed, JobDeactivated or JobPreempted."""

    command: List[str] = ()
    """A program and its arguments, run for each event without a shell: JSON on standard input, and environment
    variables. Empty: none."""

    command_timeout: PositiveDuration = 30 * SECOND
    """After this time the command and its children are killed."""

    webhook: NotificationWebhook | None = Field(default=None)
    """An HTTP receiver. Requests are signed as by Standard Webhooks: the header webhook-signature is "v1," and the
    base64 of HMAC-SHA256 over "ID.TIMESTAMP.BODY", with the headers webhook-id and webhook-timestamp. Omitted: none."""
