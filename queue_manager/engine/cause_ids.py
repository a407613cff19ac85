"""Cause ids: which change of an object a log line, a write or an Event follows from.

A cause id is the state of an object as a watch delivered it, written `<uid>@<resourceVersion>`. The id belongs to the
work that the change starts, however long that takes and through however many objects it leads:

    watch event ──cache──> subscribers ──work queue──> sync ──client──> write ──response──> cache ──> ...
    CauseId(meta)          CURRENT      kept per key   CURRENT          Audit-ID            the same CURRENT

A change that is our own write keeps the cause of that write, also if the watch delivers it before the response, so one
id leads from the creation of a Job over the admission of its Workload to its pods. Any other change begins a
new one. Work that serves several changes names the first as `cause` and at most MAX_JOINED in all as `causes`.

A timer (a deadline, a backoff, a batch window) keeps the cause of the sync that set it, because event loops run it in
the context in which it was created. BEHAVIOUR.md#q95-cause-ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from itertools import count

import msgspec

MAX_JOINED = 8

_numbers = count(1)


class CauseId(msgspec.Struct, frozen=True, gc=False):
    """The id of one change. `others`: the ids of further changes that the same work handles."""

    uid: str
    resource_version: str
    others: tuple[CauseId, ...] = ()
    # Of the work that follows from the change (an opentelemetry SpanContext); None unless traces are configured.
    span: object | None = None
    # Other spans of the same change that the work follows from too; the oldest are left out above MAX_JOINED.
    earlier_spans: tuple[object, ...] = ()

    def __str__(self) -> str:
        return f"{self.uid}@{self.resource_version}"

    def is_same_change(self, other: CauseId) -> bool:
        """Whether both are the same state of the same object."""
        return self.uid == other.uid and self.resource_version == other.resource_version

    def joined(self, other: CauseId) -> CauseId:
        """The id of work that serves the other, later cause too; this id if it contains the other or has MAX_JOINED
        causes.

        If both are the same change, the later span becomes `span`, and this id's `span` one of `earlier_spans`.
        """
        if self.is_same_change(other):
            return self._with_spans_of(other)
        if len(self.others) >= MAX_JOINED - 1:
            return self
        if any(each.is_same_change(other) for each in self.others):
            return self
        return msgspec.structs.replace(self, others=(*self.others, other))

    def _with_spans_of(self, later: CauseId) -> CauseId:
        if later.span is None or later.span == self.span:
            return self
        earlier = [span for span in (*self.earlier_spans, self.span, *later.earlier_spans) if span is not None]
        return msgspec.structs.replace(self, span=later.span, earlier_spans=tuple(earlier[-MAX_JOINED:]))

    def audit_id(self) -> str:
        """A new value of the header Audit-ID, by which the API server's audit log names the request of a write.

        Unique in this process, at most 64 characters: audit backends may take it for the identity of an event.
        """
        return f"{self.uid}@{self.resource_version}/{next(_numbers):x}"


# The change that the running code follows from; None: none, for example at the start or in a periodic check.
CURRENT: ContextVar[CauseId | None] = ContextVar("cause", default=None)


def join(causes: Iterable[CauseId | None]) -> CauseId | None:
    """The id of work that serves all of these changes; None if it follows from none.

    The result has the uid, revision and span of the first change; the others are in `others`.
    """
    result: CauseId | None = None
    for cause in causes:
        for each in (cause, *cause.others) if cause is not None else ():
            if result is None:
                result = cause
            elif result.span is None or not result.is_same_change(each):
                result = result.joined(each)
    return result
