"""Protocol of the sinks that deliver notices, and their exception."""

from __future__ import annotations

from typing import Protocol

from queue_manager.notifications.notices import Notice


class NotDelivered(Exception):
    """A notice is given up; the text gives the reason, and contains no secret."""


class Sink(Protocol):
    """Delivers notices, one at a time."""

    name: str

    def check(self) -> None:
        """Raises NotDelivered if no notice could be delivered with these settings."""
        ...

    async def deliver(self, notice: Notice) -> None:
        """Return when the notice is delivered. Raises NotDelivered."""
        ...
