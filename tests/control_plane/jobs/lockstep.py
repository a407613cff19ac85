"""Plays histories on both sides in lockstep and reports where they differ.

    both sides take the step -> each comes to rest -> equal?  --yes--> next step
                                      ^                 │no
                                      └ up to TIMEOUT_SECONDS

Nothing may depend on the speed of the machine. So the next step is taken only when both sides have reached the same
state: then both controllers face the same situation, with the same pods. A side that differs gets time: it may be about
to retry (the built-in controller waits 1, 2, 4 s), or its backoff may have begun a moment later. What never becomes
equal is a difference. What became equal only after LATE_SECONDS is doubtful, since one controller may have waited for
something that the other did not wait for: such a history is played again with fewer others at once, and is a difference
if it is late each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.control_plane.jobs import snapshot
from tests.control_plane.jobs.history import History, Step
from tests.control_plane.jobs.player import Player
from tests.control_plane.jobs.shared_server import SIDES, SharedServer

log = logging.getLogger(__name__)

Json = Any
AT_ONCE = 80  # histories played side by side
TRIES = 3
TIMEOUT_SECONDS = 45.0  # for two sides at rest to become equal
LATE_SECONDS = 6.0  # less than the shortest backoff
POLL_SECONDS = 0.25  # between two comparisons of sides that differ
INVALID = 422


@dataclass(frozen=True)
class Comparison:
    """`late`: steps after which the sides became equal only after LATE_SECONDS. `tries`: how often the history was
    played.
    """

    history: History
    differences: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    tries: int = 1

    def __str__(self) -> str:
        return "\n  ".join([str(self.history), *self.differences, *self.late])


class Progress:
    """How much of a run has been played; `reached` is called after each step."""

    def __init__(self, histories: Iterable[History], reached: Callable[[float], None] | None = None) -> None:
        self.total = sum(len(history.steps) + 1 for history in histories)
        self.done = 0
        self._reached = reached

    def step(self) -> None:
        self.done += 1
        if self._reached is not None:
            self._reached(self.done / self.total)


async def compare(
    shared: SharedServer,
    histories: list[History],
    run: str,
    at_once: int = AT_ONCE,
    *,
    allow_invalid: bool = False,
    tries: int = TRIES,
    reached: Callable[[float], None] | None = None,
) -> list[Comparison]:
    """Play all histories on both sides, `at_once` of them side by side. `run` is the prefix of their namespaces.

    `tries`: how often a history that differs is played. `reached` is called with the played fraction, 0 to 1.
    """
    found = await play_once(
        shared, histories, run, at_once, allow_invalid=allow_invalid, progress=Progress(histories, reached)
    )
    for attempt in range(2, tries + 1):
        doubtful = [number for number, one in enumerate(found) if one.differences or one.late]
        for number in doubtful:
            log.warning("played again: %s", found[number])
        again = await play_once(
            shared, [histories[n] for n in doubtful], f"{run}-{attempt}", at_once // 4, allow_invalid=allow_invalid
        )
        for number, one in zip(doubtful, again, strict=True):
            found[number] = Comparison(one.history, one.differences, one.late, attempt)
    return [Comparison(one.history, [*one.differences, *one.late], [], one.tries) for one in found]


async def play_once(
    shared: SharedServer,
    histories: list[History],
    run: str,
    at_once: int,
    *,
    allow_invalid: bool = False,
    progress: Progress | None = None,
) -> list[Comparison]:
    """Play each history once."""
    turn = asyncio.Semaphore(max(1, at_once))
    progress = progress or Progress(histories)

    async def one(number: int, history: History) -> Comparison:
        async with turn:
            return await Lockstep(shared, history, f"{run}-{number}", progress, allow_invalid=allow_invalid).play()

    return await asyncio.gather(*(one(number, history) for number, history in enumerate(histories)))


class Lockstep:
    """One history on both sides."""

    def __init__(
        self, shared: SharedServer, history: History, name: str, progress: Progress, *, allow_invalid: bool
    ) -> None:
        self._shared = shared
        self._history = history
        self._progress = progress
        self._allow_invalid = allow_invalid
        self._players = [Player(shared, side, f"{name}-{side}", history) for side in SIDES]
        self._late: list[str] = []

    async def play(self) -> Comparison:
        try:
            differences = await self._play()
        finally:
            await asyncio.gather(*(player.clean() for player in self._players))
        return Comparison(self._history, differences, self._late)

    async def _play(self) -> list[str]:
        async with self._shared.step():
            refused = await self._both(lambda player: player.begin())
            if refused == [INVALID, INVALID] and self._allow_invalid:
                return []
            if any(refused):
                return [f"the Job is refused: {refused}"]
            differences = await self._settle("at the beginning")
        for number, step in enumerate(self._history.steps, 1):
            if differences:
                return differences
            async with self._shared.step():
                # They were equal; a restart or the end of a backoff may have come in between.
                differences = self._unlike() and await self._wait_until_equal(
                    f"before step {number} {step}", self._snapshots
                )
                differences = differences or await self._step(number, step)
        return differences or await self._wait_until_equal("in the Events", self._events)

    async def _step(self, number: int, step: Step) -> list[str]:
        """Both sides choose their pods at the same moment, at which they are equal."""
        name = f"after step {number} {step}"
        refused = await self._both(lambda player: player.perform(number, step))
        return [f"{name}: {line}" for line in self._refusals(refused)] or await self._settle(name)

    async def _settle(self, name: str) -> list[str]:
        differences = await self._wait_until_equal(name, self._snapshots)
        self._progress.step()
        return differences

    async def _wait_until_equal(self, name: str, look: Callable[[], list[Json]]) -> list[str]:
        """Wait until both are at rest and equal; returns the remaining differences."""
        loop = asyncio.get_running_loop()
        rested = 0.0
        while True:
            await self._both(lambda player: player.rest())
            theirs, ours = look()
            differences = list(snapshot.differences(theirs, ours))
            now = loop.time()
            rested = rested or now
            if not differences:
                if now - rested > LATE_SECONDS:
                    self._late.append(f"{name}: alike only after {now - rested:.0f} s")
                return []
            if now - rested > TIMEOUT_SECONDS:
                return [f"{name}: {line}" for line in differences]
            await asyncio.sleep(POLL_SECONDS)

    def _snapshots(self) -> list[Json]:
        return [player.snapshot() for player in self._players]

    def _events(self) -> list[Json]:
        return [player.events() for player in self._players]

    def _unlike(self) -> list[str]:
        return list(snapshot.differences(*self._snapshots()))

    async def _both(self, do: Callable[[Player], Any]) -> list[Any]:
        return list(await asyncio.gather(*(do(player) for player in self._players)))

    @staticmethod
    def _refusals(refused: list[int]) -> list[str]:
        theirs, ours = refused
        return [] if theirs == ours else [f"refused: built-in {theirs}, ours {ours}"]
