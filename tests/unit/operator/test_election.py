"""Among several candidates for a Lease one leads at a time, on the embedded API server in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, LEASES
from queue_manager.configuration.process_sections import LeaderElection
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.operator.election import Election, Fence, LeadershipLost
from queue_manager.operator.preflight import CannotStart
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World

NAME = "c1f6bfd2.kueue.x-k8s.io"
SETTINGS = LeaderElection()  # 15 s, 10 s, 2 s
LASTS, DEADLINE, RETRY = 15.0, 10.0, 2.0
LONGEST_RETRY = RETRY * 2.2  # with its jitter


class FaultyTransport(Relay):
    """A transport that can be cut, slow, stalled, or lose responses."""

    def __init__(self, inner: Transport, rng: Random | None = None) -> None:
        super().__init__(inner)
        self.cut = False
        self.open = asyncio.Event()
        self.open.set()
        self._rng = rng

    async def request(self, request: Request) -> Response:
        await self._pass()
        answer = await super().request(request)
        await self._pass()
        return answer

    async def _pass(self) -> None:
        if self._rng is not None:
            await asyncio.sleep(self._rng.choice((0.0, 0.1, 3.0)))
        await self.open.wait()
        if self.cut:
            raise ConnectionError("cut")


class Candidate:
    """A program that works while it leads, and then ends."""

    def __init__(self, world: World, name: str, rng: Random | None = None) -> None:
        """`rng`: of the troubles on its line; None: it has none."""
        self.line = FaultyTransport(LocalTransport(world.server, name), rng)
        self.heard: list[str] = []
        self.offset = 0.0  # of its clock, which runs on while the program is paused
        self.election = Election(
            self.line, SETTINGS, "default", name=name, rng=world.rng, now=self.now, report=self.heard.append
        )
        self.won_at: float | None = None
        self.task = asyncio.create_task(self._run())

    def now(self) -> float:
        return asyncio.get_running_loop().time() + self.offset

    async def _run(self) -> None:
        try:
            await self.election.acquire()
            self.won_at = self.now()
            await self.election.renew()
        finally:
            await self.election.release()

    async def keep(self) -> None:
        """Work until the leadership is lost."""
        try:
            await self.election.renew()
        finally:
            await self.election.release()

    async def won(self) -> float:
        """When it did, in seconds of the loop's clock."""
        while self.won_at is None:
            await asyncio.sleep(0.01)
        return self.won_at

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    async def die(self) -> None:
        self.line.cut = True
        await self.stop()


def run_scenario(play: Callable[[World, Callable[[str], Candidate]], Any]) -> None:
    async def run() -> None:
        async with world_of() as (world, enter):
            await play(world, enter)

    run_virtual(run())


@asynccontextmanager
async def world_of() -> AsyncIterator[tuple[World, Callable[..., Candidate]]]:
    async with World(script=None) as world, AsyncExitStack() as stack:

        def enter(name: str, rng: Random | None = None) -> Candidate:
            candidate = Candidate(world, name, rng)
            stack.push_async_callback(candidate.stop)
            return candidate

        yield world, enter


async def leader_and_other(enter: Callable[[str], Candidate]) -> tuple[Candidate, Candidate]:
    first = enter("a")
    await first.won()
    second = enter("b")
    await asyncio.sleep(60)
    return first, second


async def spec(world: World) -> dict[str, Any]:
    found: dict[str, Any] = (await world.client.get(LEASES, "default", NAME))["spec"]
    return found


def test_the_first_leads_and_the_others_log_the_leader_they_wait_for() -> None:
    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first = enter("a")
        await first.won()
        lease = await spec(world)
        assert (lease["holderIdentity"], lease["leaseDurationSeconds"], lease["leaseTransitions"]) == ("a", 15, 0)
        assert lease["acquireTime"] == lease["renewTime"]
        second, third = enter("b"), enter("c")
        await asyncio.sleep(600)
        assert [c.election.is_leader for c in (first, second, third)] == [True, False, False]
        assert second.heard == third.heard == [f"waiting: a holds the lease default/{NAME}"]
        renewed = await spec(world)
        assert renewed["acquireTime"] == lease["acquireTime"] < renewed["renewTime"]

    run_scenario(play)


def test_a_stopping_leader_releases_the_lease() -> None:
    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first, second = await leader_and_other(enter)
        left = second.now()
        await first.stop()
        assert (await spec(world))["holderIdentity"] == ""
        assert await second.won() - left <= LONGEST_RETRY
        assert (await spec(world))["leaseTransitions"] == 1

    run_scenario(play)


def test_a_killed_leader_is_replaced_when_its_lease_expires() -> None:
    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first, second = await leader_and_other(enter)
        left = second.now()
        await first.die()
        assert LASTS - RETRY - 0.1 <= await second.won() - left <= LASTS + 2 * LONGEST_RETRY

    run_scenario(play)


def test_a_leader_without_connection_ends_before_another_starts() -> None:
    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first, second = await leader_and_other(enter)
        left = first.now()
        first.line.cut = True
        await asyncio.wait([first.task])
        assert DEADLINE - RETRY <= first.now() - left <= DEADLINE
        with pytest.raises(LeadershipLost, match="lost the lease default/"):
            first.task.result()
        assert second.won_at is None
        await second.won()

    run_scenario(play)


def test_a_short_failure_does_not_end_the_leadership() -> None:
    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first, second = await leader_and_other(enter)
        for _ in range(10):
            first.line.cut = True
            await asyncio.sleep(DEADLINE - 2 * RETRY)
            first.line.cut = False
            await asyncio.sleep(2 * RETRY)
        assert first.election.is_leader
        assert second.won_at is None

    run_scenario(play)


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.7, 1.0, 1.4, 1.9])
@pytest.mark.parametrize("length", [4.0, 6.0])
def test_repeated_stalls_do_not_end_the_leadership(phase: float, length: float) -> None:
    """A renewal that takes as long as the stall succeeds; the deadline starts anew with its response."""

    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first, second = await leader_and_other(enter)
        await asyncio.sleep(phase)
        for _ in range(3):
            first.line.open.clear()
            await asyncio.sleep(length)
            first.line.open.set()
            await asyncio.sleep(2)
        await asyncio.sleep(LASTS)
        assert first.election.is_leader
        assert not first.task.done()
        assert second.won_at is None

    run_scenario(play)


def test_a_former_leader_does_not_wait_for_its_own_lease() -> None:
    """The Lease still names it when it stands for election again."""

    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first = enter("a")
        await first.won()
        first.line.cut = True
        await asyncio.wait([first.task])
        again = asyncio.create_task(first.election.acquire())
        await asyncio.sleep(3 * LONGEST_RETRY)
        first.line.cut = False
        await again
        assert first.heard == []

    run_scenario(play)


def test_a_paused_leader_sends_nothing_before_it_has_renewed() -> None:
    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first = enter("a")
        await first.won()
        fenced = RestClient(Fence(LocalTransport(world.server, "a"), first.election))
        await fenced.create(CONFIG_MAPS, "default", {"metadata": {"name": "led"}})
        first.offset = 60.0
        with pytest.raises(OSError, match="this process is not the leader"):
            await fenced.create(CONFIG_MAPS, "default", {"metadata": {"name": "ghost"}})
        names = [m["metadata"]["name"] for m in await fenced.list(CONFIG_MAPS, "default")]
        assert "led" in names
        assert "ghost" not in names
        await asyncio.sleep(2 * RETRY)  # no other candidate has the lease, so it is renewed
        await fenced.create(CONFIG_MAPS, "default", {"metadata": {"name": "leads-again"}})

    run_scenario(play)


def test_delayed_writes_of_an_earlier_term_are_refused() -> None:
    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first = enter("a")
        await first.won()
        fence = Fence(LocalTransport(world.server, "a"), first.election)
        fence.reject_writes()
        assert first.election.is_leader
        with pytest.raises(OSError, match="this process is not the leader"):
            await RestClient(fence).create(CONFIG_MAPS, "default", {"metadata": {"name": "ghost"}})
        assert await RestClient(fence).list(LEASES, "default")

    run_scenario(play)


def test_who_lost_the_lease_wins_it_again_with_the_same_election() -> None:
    """After each loss it waits like any other candidate: two never lead at once."""

    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first, second = await leader_and_other(enter)
        for _ in range(3):
            first.line.cut = True
            await asyncio.wait([first.task])
            assert not first.election.is_leader
            await second.won()
            first.line.cut = False
            again = asyncio.create_task(first.election.acquire())
            await asyncio.sleep(60)
            assert (first.election.is_leader, second.election.is_leader) == (False, True)
            await second.stop()
            await again
            assert first.election.is_leader
            first.task, second = asyncio.create_task(first.keep()), enter("b")

    run_scenario(play)


def test_the_duration_and_foreign_fields_of_the_lease_are_kept() -> None:
    """Another program may hold the Lease for longer than we would."""

    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        foreign = {"holderIdentity": "x", "leaseDurationSeconds": 60, "strategy": "OldestEmulationVersion"}
        metadata = {"name": NAME, "labels": {"team": "a"}}
        await world.client.create(LEASES, "default", {"metadata": metadata, "spec": foreign})
        first = enter("a")
        began = first.now()
        assert 60 <= await first.won() - began <= 60 + LONGEST_RETRY
        lease = await world.client.get(LEASES, "default", NAME)
        assert lease["metadata"]["labels"] == {"team": "a"}
        assert lease["spec"]["strategy"] == "OldestEmulationVersion"
        assert lease["spec"]["leaseDurationSeconds"] == 15

    run_scenario(play)


def test_a_deleted_or_taken_lease_ends_the_leader_if_another_holds_it() -> None:
    async def play(world: World, enter: Callable[[str], Candidate]) -> None:
        first = enter("a")
        await first.won()
        await world.client.delete(LEASES, "default", NAME)
        await asyncio.sleep(60)
        assert first.election.is_leader
        lease = await world.client.get(LEASES, "default", NAME)
        await world.client.replace(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "admin"}})
        await asyncio.wait([first.task])
        with pytest.raises(LeadershipLost, match="lost the lease: admin holds it"):
            first.task.result()

    run_scenario(play)


def test_a_missing_namespace_is_reported_at_once() -> None:
    async def play() -> None:
        async with World(script=None) as world:
            election = Election(LocalTransport(world.server, "a"), SETTINGS, "nowhere", now=world.clock.now().timestamp)
            with pytest.raises(CannotStart, match="namespace nowhere for the lease"):
                await election.acquire()

    run_virtual(play())


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_two_candidates_never_lead_at_once(seed: int) -> None:
    """Five candidates for half an hour; their connections are slowed, cut and restored at random, responses lost,
    programs ended and started again. And there is a leader again and again.
    """

    async def play() -> None:
        rng = Random(seed)
        async with world_of() as (_, enter):
            candidates = [enter(f"c{i}", rng) for i in range(5)]
            led, leaders = 0, set[str]()
            for moment in range(18_000):
                await asyncio.sleep(0.1)
                leading = [c.election.name for c in candidates if c.election.is_leader]
                assert len(leading) <= 1
                led += len(leading)
                leaders.update(leading)
                if rng.random() < 0.02:
                    victim = rng.randrange(5)
                    candidates[victim].line.cut = not candidates[victim].line.cut
                for i, candidate in enumerate(candidates):
                    if candidate.task.done() or rng.random() < 0.0005:
                        await candidate.die()
                        candidates[i] = enter(f"c{i}-{moment}", rng)
            assert len(leaders) > 10
            assert led > 18_000 / 4

    run_virtual(play())
