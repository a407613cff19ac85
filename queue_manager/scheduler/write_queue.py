"""Which Workload's status is written next. Pure: the caller passes the time and performs the writes.

Two kinds of writes compete for the API server, which is the slowest part of an admission:

    urgent       an admission, an eviction, a released quota, a step of the life cycle: work can run because of it
    explaining   why a Workload is pending, and which pods are expected: only readers wait for it

Urgent writes go first, in order of arrival. Explaining ones take what is left, at a steady pace:

    at most EXPLANATIONS_PER_SECOND, or as many as are needed to write the oldest within `period` seconds
    each urgent write postpones the next explanation by POSTPONED times as long as it has taken, to
    MOST_POSTPONED_SECONDS from now at most: so none is written if urgent writes are under way for a tenth of the time,
    for example 50 per second that take 2 ms each, or 5 that take 20 ms
    none while BUSY_WRITES urgent writes are queued or under way
    at most EXPLAINING_SLOTS at a time
    however many urgent writes there are, one per STEADY_SECONDS: the oldest, if at most FEW are queued, or else after
    BUSY_PERIODS periods. Those that say of a Workload that it can never start as it is are written at any time, and
    count as NEVER_LEAD_SECONDS older: waiting does not help its user

So a burst of arrivals is admitted before it is explained, most explanations are dropped because their Workload has been
admitted meanwhile, and the few Workloads that wait beside a load without end say why.

A Workload is written by one task at a time. Added while it is written, it is queued again afterwards; an urgent
addition makes a queued explanation urgent, since one patch carries both. BEHAVIOUR.md#q39-status-writes.
"""

from __future__ import annotations

from collections import OrderedDict

from job_controller.model import Key

SLOTS = 50  # concurrent writes
EXPLAINING_SLOTS = 10  # of them
EXPLANATIONS_PER_SECOND = 20.0
POSTPONED = 10.0  # times the duration of an urgent write
MOST_POSTPONED_SECONDS = 1.0
STEADY_SECONDS = 1.0
NEVER_LEAD_SECONDS = 60.0
FEW = 60
BUSY_PERIODS = 10
BUSY_WRITES = 4
BURST = 20  # explanations without a pause, after as many as that were not needed


class WriteQueue:
    """Keys of Workloads with something to write."""

    def __init__(self, period: float) -> None:
        """`period`: seconds within which an explanation is written; 0: immediately."""
        self.period = period
        self._urgent: OrderedDict[Key, None] = OrderedDict()
        self._explaining: OrderedDict[Key, float] = OrderedDict()  # since when
        self._never: dict[Key, None] = {}  # those of Workloads that can never start as they are
        self._writing: dict[Key, bool] = {}  # True: it is an explanation
        self._begun: dict[Key, float] = {}  # when the write of an urgent key has begun
        self._added: dict[Key, tuple[bool, bool]] = {}  # while writing: whether it explains, and says never
        self._next_explanation = 0.0
        self._next_steady = 0.0

    def __len__(self) -> int:
        """Queued keys, without those that are being written."""
        return len(self._urgent) + len(self._explaining)

    @property
    def urgent(self) -> int:
        """Urgent keys, queued or being written."""
        return len(self._urgent) + len(self._writing) - self._explaining_slots_used()

    @property
    def is_busy(self) -> bool:
        """Whether so many urgent writes wait for the API server that an explanation would delay them."""
        return self.urgent >= BUSY_WRITES

    def add(self, key: Key, now: float, *, explains: bool, never: bool = False) -> None:
        """Queue a key. A queued key keeps its place, and leaves the explanations if it becomes urgent.

        `never`: the newest explanation says that the Workload can never start as it is.
        """
        if key in self._writing:
            explained, _ = self._added.get(key, (True, False))
            self._added[key] = explains and explained, never
        elif not explains or self.period <= 0:
            self.discard(key)
            self._urgent.setdefault(key)
        elif key not in self._urgent:
            self._explaining.setdefault(key, now)
            if never:
                self._never.setdefault(key)
            else:
                self._never.pop(key, None)

    def discard(self, key: Key) -> None:
        """Remove a queued explanation: there is nothing left to write."""
        self._explaining.pop(key, None)
        self._never.pop(key, None)

    def take(self, now: float) -> Key | None:
        """The next key to write, to be followed by `begin` and `done`; None if none may be written now."""
        if len(self._writing) >= SLOTS:
            return None
        key = self._explanation(now)
        if key is None and not self._urgent:
            return None
        if key is not None:
            self.discard(key)
            self._writing[key] = True
            self._postpone(self._pause(now), now)
            return key
        key, _ = self._urgent.popitem(last=False)
        self._writing[key], self._begun[key] = False, now
        return key

    def begin(self, key: Key) -> None:
        """Record that the write of a key that was taken begins: it includes what was added since."""
        self._added.pop(key, None)

    def done(self, key: Key, now: float) -> None:
        """Record that the write of the key has ended; queue the key again if it was added meanwhile."""
        del self._writing[key]
        begun = self._begun.pop(key, None)
        if begun is not None:
            self._postpone(POSTPONED * (now - begun), now)
        added = self._added.pop(key, None)
        if added is not None:
            explains, never = added
            self.add(key, now, explains=explains, never=never)

    def wake_at(self, now: float) -> float | None:
        """When `take` may return an explanation for which only the pace is missing; None: not before a change."""
        if not self._has_explanation or len(self._writing) >= SLOTS:
            return None
        steady, _ = self._steady()
        return max(now, steady if self.is_busy else min(steady, self._next_explanation))

    @property
    def _has_explanation(self) -> bool:
        """Whether an explanation is queued that may have a slot."""
        return bool(self._explaining) and self._explaining_slots_used() < EXPLAINING_SLOTS

    def _explanation(self, now: float) -> Key | None:
        """The explanation to write now; None if none may be written before the next urgent one."""
        if not self._has_explanation:
            return None
        if not self._urgent and not self.is_busy and now >= self._next_explanation:
            return next(iter(self._explaining))
        due, key = self._steady()
        if now < due:
            return None
        self._next_steady = now + STEADY_SECONDS
        return key

    def _steady(self) -> tuple[float, Key]:
        """When the next explanation is due beside any urgent writes, and its key."""
        since = self._explaining
        oldest = next(iter(since))
        never = next(iter(self._never), None)
        if never is not None and since[never] - NEVER_LEAD_SECONDS < since[oldest]:
            return self._next_steady, never
        patience = STEADY_SECONDS if len(since) <= FEW else BUSY_PERIODS * self.period
        return max(self._next_steady, since[oldest] + patience), oldest

    def _explaining_slots_used(self) -> int:
        return sum(self._writing.values())

    def _oldest(self) -> float:
        """Since when the oldest explanation has been queued."""
        return next(iter(self._explaining.values()))

    def _postpone(self, seconds: float, now: float) -> None:
        """Postpone the next explanation.

        The time from which it is postponed lies in the past if nothing was written for a while, so that up to BURST
        explanations follow without pauses.
        """
        since = max(self._next_explanation, now - BURST / EXPLANATIONS_PER_SECOND)
        self._next_explanation = min(since + seconds, now + MOST_POSTPONED_SECONDS)

    def _pause(self, now: float) -> float:
        """Seconds between two explanations."""
        usual = 1 / EXPLANATIONS_PER_SECOND
        if not self._explaining:
            return usual
        return min(usual, max(0.0, self._oldest() + self.period - now) / len(self._explaining))
