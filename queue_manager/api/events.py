"""Wire types of Events."""

from __future__ import annotations

from datetime import datetime

from job_controller.model import Object, Record
from job_controller.pod_facts import LONG_AGO


class Reference(Record):
    """core/v1 ObjectReference: the object that an Event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Series(Record):
    """core/v1 EventSeries: how often an Event occurred, and when last."""

    count: int = 0
    last_observed_time: datetime | None = None


class Event(Object):
    """A core/v1 Event, written with either the older fields (count, lastTimestamp) or the newer (series, eventTime)."""

    involved_object: Reference = Reference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: Series | None = None

    @property
    def first(self) -> datetime | None:
        """Return the time of the first occurrence."""
        return self.first_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def last(self) -> datetime | None:
        """Return the time of the last occurrence."""
        observed = self.series.last_observed_time if self.series is not None else None
        return observed or self.last_timestamp or self.first

    @property
    def times(self) -> int:
        """Return the number of occurrences."""
        return (self.series.count if self.series is not None else self.count) or 1

    @property
    def sort_key(self) -> tuple[datetime, datetime, int, str]:
        """Order by time, and by creation within the same second."""
        version = self.metadata.resource_version
        return (
            self.last or LONG_AGO,
            self.metadata.creation_timestamp or LONG_AGO,
            int(version) if version.isdecimal() else 0,
            self.metadata.name,
        )
