"""`sluice import` of running Jobs: whoever dies at whichever write, no Job is stopped and a repetition completes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queue_manager.adoption.job_imports import plan
from queue_manager.adoption.queue_mapping import QueueRule
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, PODS, WORKLOADS
from queue_manager.cli.import_jobs import carry_out
from queue_manager.cli.import_reading import read_view
from queue_manager.configuration import loads
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Relay, Request, Response
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import NS, RUNS_WITHOUT_END, Cluster, versions
from tests.local.queue.invariants import at_rest
from tests.simulation.crashes import CONFIG, Death, DyingTransport, WriteCounter

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
RULES = [QueueRule(to_local_queue="lq")]
SECONDS = 3.0  # for an admission
BACKOFF_SECONDS = 10.0  # of the Job controller, before it replaces a pod
NOBODY_DIES = Death()
COMMAND_WRITES = 6  # of an import of two Jobs of three: three Workloads, two labels, one Workload taken back
MANAGER_WRITES = 12


async def import_once(client: RestClient, seconds: float = SECONDS) -> dict[str, str]:
    """What `sluice import --apply` prints, by Job."""
    view = await read_view(client, [NS], RULES)
    plans = [item for job in view.jobs if (item := plan(job, view.workloads, view.around)) is not None]
    return {row.name: row.text for row in await carry_out(client, plans, view, seconds)}


async def play(command: Death, manager: Death) -> tuple[World, dict[str, str], int]:
    """Three Jobs run, quota is for two of them. Returns the rows of the last of two commands, and how many writes the
    first one made."""
    counter = WriteCounter(manager)
    outcomes: dict[str, PodScript] = {}

    def script(pod: Any) -> PodScript:
        return outcomes.get(pod.metadata.name.rsplit("-", 1)[0], RUNS_WITHOUT_END)

    async with World(
        1, script, loads(CONFIG), separate_queue=True, wrap_transport=lambda t: DyingTransport(t, counter)
    ) as world:
        c = Cluster(world, outcomes)
        await c.queues()
        for name in ("a", "b", "c"):
            await c.submit(name, queue=None)
        await c.until(c.running, ["a", "b", "c"])
        await asyncio.sleep(1)
        pods = await names(c)
        restart = asyncio.create_task(restarted(world, counter))
        writes = WriteCounter(command)
        try:
            await import_once(RestClient(DyingTransport(world.client.transport, writes)))
        except ConnectionAbortedError:
            await asyncio.sleep(20)  # longer than the timeouts of CONFIG: an interrupted import may stay as it is
        rows = await import_once(world.client)
        await asyncio.sleep(20)
        assert await names(c) == pods, "a pod was replaced"
        assert await c.running() == ["a", "b", "c"]
        assert not any(job["spec"].get("suspend") for job in versions(c, JOBS))
        labelled = [job["metadata"]["name"] for job in await c.client.list(JOBS, NS) if is_labelled(job)]
        assert len(labelled) == 2
        assert await owners(c) == labelled
        at_rest(world)
        restart.cancel()
        return world, rows, writes.writes


def is_labelled(job: dict[str, Any]) -> bool:
    return (job["metadata"].get("labels") or {}).get(QUEUE_LABEL) == "lq"


async def owners(c: Cluster) -> list[str]:
    """The Jobs that have a Workload."""
    return sorted(w["metadata"]["ownerReferences"][0]["name"] for w in await c.client.list(WORKLOADS, NS))


async def names(c: Cluster) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in await c.client.list(PODS, NS))


async def restarted(world: World, counter: WriteCounter) -> None:
    await counter.struck.wait()
    await world.kill()
    await asyncio.sleep(0.5)
    await world.start()


def deaths(writes: int) -> list[Death]:
    return [Death(at, applied) for at in range(writes) for applied in (False, True)]


@pytest.mark.parametrize("death", deaths(COMMAND_WRITES), ids=str)
def test_no_job_is_stopped_wherever_the_command_dies(death: Death) -> None:
    run_virtual(play(death, NOBODY_DIES))


@pytest.mark.parametrize("death", deaths(MANAGER_WRITES), ids=str)
def test_no_job_is_stopped_wherever_the_manager_dies(death: Death) -> None:
    run_virtual(play(NOBODY_DIES, death))


def test_an_import_makes_as_many_writes_as_are_played() -> None:
    _, rows, writes = run_virtual(play(NOBODY_DIES, NOBODY_DIES))
    assert writes == COMMAND_WRITES
    assert [rows[name] for name in ("a", "b")] == ["in a queue"] * 2
    assert rows["c"].startswith("stays outside: couldn't assign flavors to pod set main: insufficient unused quota")


async def alone(c: Cluster, **spec: Any) -> None:
    """Queues of two cpus, and one running Job `a` outside."""
    await c.queues(**spec)
    await c.apply_class("high", 100)
    await c.submit("a", queue=None, labels={"kueue.x-k8s.io/priority-class": "high"}, backoffLimit=6)
    await c.until(c.running, ["a"])


async def world_of(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async with World(1, lambda pod: RUNS_WITHOUT_END, loads(CONFIG)) as world:
        await scenario(Cluster(world, {}))
        assert not any(job["spec"].get("suspend") for job in versions(Cluster(world, {}), JOBS) if is_named(job, "a"))


def is_named(job: dict[str, Any], name: str) -> bool:
    return bool(job["metadata"]["name"] == name)


def test_nothing_is_preempted_for_an_import() -> None:
    async def scenario(c: Cluster) -> None:
        await alone(c, preemption={"withinClusterQueue": "LowerPriority"})
        await c.submit("low", cpu="2")
        await c.until(c.running, ["a", "low"])
        rows = await import_once(c.client)
        assert rows["a"].startswith("stays outside: couldn't assign flavors"), rows
        await c.until(lambda: owners(c), ["low"])
        assert await c.running() == ["a", "low"]

    run_virtual(world_of(scenario))


def test_an_interrupted_import_that_is_evicted_leaves_its_job_outside() -> None:
    async def scenario(c: Cluster) -> None:
        await alone(c)
        with pytest.raises(ConnectionAbortedError):  # before the label
            await import_once(RestClient(DyingTransport(c.client.transport, WriteCounter(Death(1)))))
        await c.until(lambda: c.condition("a", "Admitted"), ("True", "Admitted", "The workload is admitted"))
        await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await c.until(lambda: owners(c), [])
        await asyncio.sleep(5)
        assert await c.running() == ["a"]

    run_virtual(world_of(scenario))


def test_pods_are_replaced_while_an_import_waits_for_quota() -> None:
    async def scenario(c: Cluster) -> None:
        await alone(c)
        await c.submit("full", cpu="2")
        await c.until(c.running, ["a", "full"])
        waiting = asyncio.create_task(import_once(c.client, 2 * BACKOFF_SECONDS))
        await c.until(lambda: owners(c), ["a", "full"])
        (before,) = [name for name in await names(c) if name.startswith("a-")]
        await c.client.delete(PODS, NS, before)

        async def replaced() -> bool:
            return any(name.startswith("a-") and name != before for name in await names(c))

        await c.until(replaced, True, seconds=1.5 * BACKOFF_SECONDS)
        assert await owners(c) == ["a", "full"]
        assert (await waiting)["a"].startswith("stays outside")

    run_virtual(world_of(scenario))


class WithoutResponse(Relay):
    """Labels of Jobs are written, and no response says so."""

    async def request(self, request: Request) -> Response:
        answer = await super().request(request)
        labels = request.method == "PATCH" and "/jobs/" in request.path
        return Response(500, {}, b"{}") if labels else answer


def test_a_label_without_a_response_is_not_taken_back() -> None:
    async def scenario(c: Cluster) -> None:
        await alone(c)
        assert await import_once(RestClient(WithoutResponse(c.client.transport))) == {"a": "imported"}
        await asyncio.sleep(5)
        assert await owners(c) == await c.running() == ["a"]

    run_virtual(world_of(scenario))


def test_a_job_that_ends_while_its_import_waits_is_given_up() -> None:
    async def scenario(c: Cluster) -> None:
        await alone(c)
        await c.submit("full", cpu="2")
        await c.until(c.running, ["a", "full"])
        waiting = asyncio.create_task(import_once(c.client, 60))
        await c.until(lambda: owners(c), ["a", "full"])
        await c.client.delete(JOBS, NS, "a", propagation="Background")
        assert await asyncio.wait_for(waiting, 10) == {"a": "ended meanwhile", "full": "in a queue"}
        await c.until(lambda: owners(c), ["full"])

    run_virtual(world_of(scenario))
