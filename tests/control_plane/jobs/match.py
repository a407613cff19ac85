"""Plays histories on both sides in step, and says where they differ.

    happens on both sides -> each comes to rest -> alike?  --yes--> the next thing happens
                                  ^                  │no
                                  └──── for PATIENCE ┘

Nothing may depend on how fast the machine is. So the next thing happens only when both have come to the same state:
then both are asked the same question, about the same pods. A side that is not alike gets time: it may be about
to repeat what has failed (the built-in controller waits 1, 2, 4 s for that), or its backoff may have begun a moment
later. What never becomes alike is a difference. What became alike only after LATE is doubtful, and one of the
two may have waited for something that the other did not wait for: such a history is played again with fewer others
around it, and is a difference when it is late each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.control_plane.jobs import picture
from tests.control_plane.jobs.arena import SIDES, Arena
from tests.control_plane.jobs.history import History, Step
from tests.control_plane.jobs.player import Player

log = logging.getLogger(__name__)

Json = Any
AT_ONCE = 80  # histories
TRIES = 3
PATIENCE = 45.0  # seconds for two sides at rest to become alike
LATE = 6.0  # seconds; less than the shortest backoff
LOOK = 0.25  # seconds between two looks at sides that are not alike
INVALID = 422


@dataclass(frozen=True)
class Comparison:
    """`late`: steps after which the two sides took long to become alike. `tries`: how often it was played."""

    history: History
    differences: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    tries: int = 1

    def __str__(self) -> str:
        return "\n  ".join([str(self.history), *self.differences, *self.late])


class Progress:
    """How much of a run has been played; `reached` is told each time."""

    def __init__(self, histories: Iterable[History], reached: Callable[[float], None] | None = None) -> None:
        self.total = sum(len(history.steps) + 1 for history in histories)
        self.done = 0
        self._reached = reached

    def step(self) -> None:
        self.done += 1
        if self._reached is not None:
            self._reached(self.done / self.total)


async def compare(
    arena: Arena,
    histories: list[History],
    run: str,
    at_once: int = AT_ONCE,
    *,
    allow_invalid: bool = False,
    tries: int = TRIES,
    reached: Callable[[float], None] | None = None,
) -> list[Comparison]:
    """Play all histories on both sides, many at once. `run` makes the namespaces' names.

    `tries`: how often what differs is played. `reached` is told how much has been played, from 0 to 1.
    """
    found = await play_once(
        arena, histories, run, at_once, allow_invalid=allow_invalid, progress=Progress(histories, reached)
    )
    for attempt in range(2, tries + 1):
        doubtful = [number for number, one in enumerate(found) if one.differences or one.late]
        for number in doubtful:
            log.warning("played again: %s", found[number])
        again = await play_once(
            arena, [histories[n] for n in doubtful], f"{run}-{attempt}", at_once // 4, allow_invalid=allow_invalid
        )
        for number, one in zip(doubtful, again, strict=True):
            found[number] = Comparison(one.history, one.differences, one.late, attempt)
    return [Comparison(one.history, [*one.differences, *one.late], [], one.tries) for one in found]


async def play_once(
    arena: Arena,
    histories: list[History],
    run: str,
    at_once: int,
    *,
    allow_invalid: bool = False,
    progress: Progress | None = None,
) -> list[Comparison]:
    """Each once, without a second chance."""
    turn = asyncio.Semaphore(max(1, at_once))
    progress = progress or Progress(histories)

    async def one(number: int, history: History) -> Comparison:
        async with turn:
            return await Match(arena, history, f"{run}-{number}", progress, allow_invalid=allow_invalid).play()

    return await asyncio.gather(*(one(number, history) for number, history in enumerate(histories)))


class Match:
    """One history, on both sides."""

    def __init__(self, arena: Arena, history: History, name: str, progress: Progress, *, allow_invalid: bool) -> None:
        self._arena = arena
        self._history = history
        self._progress = progress
        self._allow_invalid = allow_invalid
        self._players = [Player(arena, side, f"{name}-{side}", history) for side in SIDES]
        self._late: list[str] = []

    async def play(self) -> Comparison:
        try:
            differences = await self._play()
        finally:
            await asyncio.gather(*(player.clean() for player in self._players))
        return Comparison(self._history, differences, self._late)

    async def _play(self) -> list[str]:
        async with self._arena.step():
            refused = await self._both(lambda player: player.begin())
            if refused == [INVALID, INVALID] and self._allow_invalid:
                return []
            if any(refused):
                return [f"the Job is refused: {refused}"]
            differences = await self._settle("at the beginning")
        for number, step in enumerate(self._history.steps, 1):
            if differences:
                return differences
            async with self._arena.step():
                # Alike they were; a restart, or the end of a backoff, may have come in between.
                differences = self._unlike() and await self._agree(f"before step {number} {step}", self._pictures)
                differences = differences or await self._step(number, step)
        return differences or await self._agree("in the Events", self._events)

    async def _step(self, number: int, step: Step) -> list[str]:
        """Both choose their pods at the same moment, in which they are alike."""
        name = f"after step {number} {step}"
        refused = await self._both(lambda player: player.perform(number, step))
        return [f"{name}: {line}" for line in self._refusals(refused)] or await self._settle(name)

    async def _settle(self, name: str) -> list[str]:
        differences = await self._agree(name, self._pictures)
        self._progress.step()
        return differences

    async def _agree(self, name: str, look: Callable[[], list[Json]]) -> list[str]:
        """Wait until both are at rest and alike. What differs in the end."""
        loop = asyncio.get_running_loop()
        rested = 0.0
        while True:
            await self._both(lambda player: player.rest())
            theirs, ours = look()
            differences = list(picture.differences(theirs, ours))
            now = loop.time()
            rested = rested or now
            if not differences:
                if now - rested > LATE:
                    self._late.append(f"{name}: alike only after {now - rested:.0f} s")
                return []
            if now - rested > PATIENCE:
                return [f"{name}: {line}" for line in differences]
            await asyncio.sleep(LOOK)

    def _pictures(self) -> list[Json]:
        return [player.picture() for player in self._players]

    def _events(self) -> list[Json]:
        return [player.events() for player in self._players]

    def _unlike(self) -> list[str]:
        return list(picture.differences(*self._pictures()))

    async def _both(self, do: Callable[[Player], Any]) -> list[Any]:
        return list(await asyncio.gather(*(do(player) for player in self._players)))

    @staticmethod
    def _refusals(refused: list[int]) -> list[str]:
        theirs, ours = refused
        return [] if theirs == ours else [f"refused: built-in {theirs}, ours {ours}"]
