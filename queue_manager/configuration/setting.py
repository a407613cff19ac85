"""What a field of the configuration is: its default, and what the file, the schema and people need to know."""

from __future__ import annotations

from dataclasses import field
from datetime import timedelta
from typing import Any, NewType

Quantity = NewType("Quantity", str)
Opaque = NewType("Opaque", object)  # accepted whatever it is, and not kept

NO_MULTIKUEUE = "Sluice does not dispatch to other clusters"
NO_DRA = "Sluice does not count devices of dynamic resource allocation"
NO_WEBHOOK_SERVER = "Sluice serves no webhooks of its own yet"
NO_VISIBILITY = "Sluice serves no visibility API yet"
NO_TLS = "Sluice serves nothing over TLS yet"
NO_PPROF = "there is no Go profile to serve"
NO_PODS = "Sluice manages batch/v1 Jobs, not single pods"
NO_CUSTOM_LABELS = "Sluice adds no labels of your own to metrics yet"
NO_PARALLEL_KINDS = "Sluice manages batch/job only"

NO_FAIR_SHARING = "Sluice does not share quota by weight yet; priority and time decide"
NO_USAGE_ORDER = "Sluice does not order LocalQueues by past usage yet"
NO_CONCURRENCY = "Sluice has no such limit yet, but for jobController.concurrentSyncs"

LISTENING = "the process serves there already"
LISTED = "it counts while the process starts"
RUNNING = "the Job controller works with it"
COUNTING = "requests are counted against it already"
PLACED = "the process is where it is"
ELECTED = "the process stands for election already"

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
DEFAULT_NAMESPACE = "kueue-system"


def setting(
    doc: str,
    default: Any = None,
    *,
    ignored: str = "",
    at_start: str = "",
    since: str = "",
    until: str = "",
    minimum: float | timedelta | None = None,
    above: float | timedelta | None = None,
    maximum: int | None = None,
    nanoseconds: bool | None = None,
) -> Any:
    """A field. `ignored` says why it has no effect; `since` and `until` bound the versions that have it.

    `at_start`: why a running process cannot take over another value.

    `nanoseconds`: a duration that may also be a plain number of them, as Go reads that one field.
    """
    marks = {
        "doc": doc,
        "ignored": ignored,
        "at_start": at_start,
        "since": since,
        "until": until,
        "minimum": minimum,
        "above": above,
        "maximum": maximum,
        "nanoseconds": nanoseconds,
    }
    return field(default=default, metadata={key: value for key, value in marks.items() if value not in ("", None)})
