"""Plays a `Life` in virtual time: the embedded server, Job controller, queue and scripted pods are all real.

A move is a request of a user, an admin or another program, or a kill of the queue's controllers; a refused request
changes nothing. At the end all obstacles are removed, and what can be admitted then must run.

    python -m tests.simulation.cohort_play COUNT [FIRST]    play lives; prints each that breaks something, as small as
                                                            it could be made, and writes it to a file
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from job_controller.model import Pod
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from queue_manager.configuration import loads
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response, Transport
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.invariants import Broken, is_true
from tests.simulation.cohort_invariants import INPUT, KILLED, CohortHistory, Write
from tests.simulation.cohort_lives import BASE, LIMIT, MAXIMUM, OUTCOMES, TEAMS, Life, Tree, life, with_api
from tests.simulation.cohort_samples import Sampler
from tests.simulation.crashes import Death, DyingTransport, WriteCounter

RESOURCES = {
    each.kind: each for each in (CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES)
}
FOREIGN = "example.com"
OWED_SECONDS = 140.0  # enough for every backoff and run that is left, and until past usage has decayed
QUIET_SECONDS = 20.0
SHARE_OF_WRITES = 0.03  # of the manager's writes, before which another program writes on the same Workload
FOLDER = Path(__file__).parent / "kept_lives"


class Interferer(Relay):
    """Another program adds a condition to some Workloads immediately before the manager writes their status."""

    def __init__(self, inner: Transport, rng: Random) -> None:
        super().__init__(inner)
        self._client, self._rng = RestClient(inner), rng

    async def request(self, request: Request) -> Response:
        parts = request.path.split("/")
        writes = request.method == "PATCH" and parts[-1] == "status" and "workloads" in parts
        if writes and self._rng.random() < SHARE_OF_WRITES:
            await add_condition(self._client, parts[-4], parts[-2], self._rng.randrange(3))
        return await super().request(request)


async def add_condition(client: RestClient, namespace: str, name: str, number: int) -> None:
    found = await client.get(WORKLOADS, namespace, name)
    kind, conditions = f"{FOREIGN}/Seen{number}", found.get("status", {}).get("conditions", ())
    at = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    added = {"type": kind, "status": "True", "reason": "Seen", "message": "by another program", **at}
    status = {"conditions": [*(each for each in conditions if each["type"] != kind), added]}
    version = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}}
    await client.patch(WORKLOADS, namespace, name, {**version, "status": status}, subresource="status")


class Player:
    """Plays one life and checks it."""

    def __init__(self, played: Life) -> None:
        self.life = played
        self.outcomes: dict[str, PodScript] = {}
        self.by_user: dict[str, Tree] = {}
        self.writes: list[Write] = []
        self.counter = WriteCounter(Death())
        self.rng = Random(len(played.moves))
        self.config = loads(played.config)

    def _script(self, pod: Pod) -> PodScript:
        return self.outcomes.get(pod.metadata.name.rsplit("-", 1)[0], PodScript(**OUTCOMES[0]))

    def _wrap(self, inner: Transport) -> Transport:
        return DyingTransport(Interferer(inner, self.rng), self.counter)

    async def play(self) -> Sampler:
        """Make the moves, remove the obstacles, and check everything. Raises Broken."""
        async with World(1, self._script, self.config, separate_queue=True, wrap_transport=self._wrap) as self.world:
            self.client = self.world.client
            self.world.store.subscribe(self._record)
            self.sampler = Sampler(self.world, self.config)
            tasks = [asyncio.create_task(self._bury()), asyncio.create_task(self.sampler.run())]
            try:
                await self._create()
                for move in self.life.moves:
                    await self._make(move)
                await self._remove_obstacles()
                await self._check_end()
            finally:
                for task in tasks:
                    task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            history = self._history()
            history.play(self.writes)
            self.sampler.checked += history.checked
        return self.sampler

    def _record(self, change: Any) -> None:
        line = change.type.encode() + b" " + change.resource.encode() + b" " + change.new.data
        self.writes.append(Write(self.world.clock.now(), line))

    def _note(self, what: bytes) -> None:
        self.writes.append(Write(self.world.clock.now(), what))

    def _history(self) -> CohortHistory:
        limits = {"base": BASE, "maximum": MAXIMUM, "limit": LIMIT}
        return CohortHistory(0, **limits, by_user=self.by_user, sharing="fairSharing" in self.life.config)

    async def _bury(self) -> None:
        """Kill the controllers when their transport has died."""
        while True:
            await self.counter.struck.wait()
            self.counter.struck.clear()
            self.counter.death = Death()
            self._note(KILLED)
            await self.world.kill()

    async def _create(self) -> None:
        for team in TEAMS:
            meta = {"name": team, "labels": {"team": team}}
            await self.client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        for tree in self.life.objects:
            await self.create(tree)

    # --- moves ---

    async def _make(self, move: Tree) -> None:
        arguments = {key: value for key, value in move.items() if key not in ("do", "pause")}
        if move["do"] not in ("kill", "start", "wait"):
            self._note(INPUT)
        if self.world.alive or move["do"] in ("start", "wait"):
            with contextlib.suppress(ApiError, LookupError):  # refused, or the object does not exist
                await getattr(self, move["do"])(**arguments)
        await asyncio.sleep(move["pause"])

    async def submit(self, job: Tree, outcome: Tree) -> None:
        self.outcomes[job["metadata"]["name"]] = PodScript(**outcome)
        await self.client.create(JOBS, job["metadata"]["namespace"], {"apiVersion": "batch/v1", "kind": "Job", **job})

    async def change_outcome(self, name: str, outcome: Tree) -> None:
        self.outcomes[name] = PodScript(**outcome)

    async def delete_job(self, job: list[str], how: str) -> None:
        await self.client.delete(JOBS, *job, propagation=how)

    async def patch_job(self, job: list[str], patch: Tree) -> None:
        await self._patch(JOBS, *job, patch)

    async def patch_workload(self, job: list[str], patch: Tree) -> None:
        await self._patch(WORKLOADS, job[0], await self._workload(*job), patch)

    async def delete_workload(self, job: list[str]) -> None:
        await self.client.delete(WORKLOADS, job[0], await self._workload(*job))

    async def patch(self, kind: str, name: str, namespace: str, patch: Tree) -> None:
        await self._patch(RESOURCES[kind], namespace, name, patch)

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        await self.client.delete(RESOURCES[kind], namespace, name)

    async def create(self, tree: Tree) -> None:
        await self.client.create(RESOURCES[tree["kind"]], tree["metadata"].get("namespace", ""), with_api(tree))

    async def write_on_workload(self, job: list[str], number: int) -> None:
        name = await self._workload(*job)
        await add_condition(self.client, job[0], name, number)
        await self._mark(WORKLOADS, job[0], name, number)

    async def write_on_object(self, kind: str, name: str, namespace: str, number: int) -> None:
        await self._mark(RESOURCES[kind], namespace, name, number)

    async def kill(self, writes: int, applied: bool) -> None:
        if writes:
            self.counter.death = Death(self.counter.writes + writes - 1, applied)
        else:
            self._note(KILLED)
            await self.world.kill()

    async def start(self) -> None:
        if not self.world.alive:
            await self.world.start()

    async def wait(self) -> None:
        pass

    async def _mark(self, resource: Resource, namespace: str, name: str, number: int) -> None:
        """Another program's finalizer and annotation."""
        meta = (await self.client.get(resource, namespace, name))["metadata"]
        finalizers = [*meta.get("finalizers", ()), f"{FOREIGN}/mine{number}"]
        patch = {"resourceVersion": meta["resourceVersion"], "finalizers": list(dict.fromkeys(finalizers))}
        await self._patch(resource, namespace, name, {"metadata": {**patch, "annotations": {f"{FOREIGN}/n": "x"}}})

    async def _patch(self, resource: Resource, namespace: str, name: str, patch: Tree) -> None:
        done = await self.client.patch(resource, namespace, name, patch)
        self.by_user.setdefault(done["metadata"]["resourceVersion"], {})

    async def _workload(self, namespace: str, job: str) -> str:
        for w in await self.client.list(WORKLOADS, namespace):
            if any(owner["name"] == job for owner in w["metadata"].get("ownerReferences", ())):
                return str(w["metadata"]["name"])
        raise LookupError(job)

    # --- the end ---

    async def _remove_obstacles(self) -> None:
        """Let controllers run, queues admit, pods end, and Workloads take part."""
        self.counter.death = Death()
        await asyncio.sleep(0.1)
        await self.start()
        await asyncio.sleep(1)  # the controllers have seen inactive Workloads before these are activated
        self.outcomes.clear()
        self._note(INPUT)
        await self._restore()
        await asyncio.sleep(QUIET_SECONDS)
        self.sampler.judges = False  # what is pending now is so for good, or for short
        for _ in range(4):
            await self._activate()
            await asyncio.sleep(OWED_SECONDS / 4)

    async def _restore(self) -> None:
        """Create what was deleted and is gone; release and open what exists."""
        for tree in self.life.objects:
            resource, meta, spec = RESOURCES[tree["kind"]], tree["metadata"], tree.get("spec", {})
            place = meta.get("namespace", ""), meta["name"]
            try:
                found = await self.client.get(resource, *place)
            except ApiError:
                self._note(INPUT)
                await self.create(tree)
                continue
            if "deletionTimestamp" in found["metadata"]:
                await self._patch(resource, *place, _without_others(found))
                continue
            patch = {"stopPolicy": "None"} if tree["kind"] in ("ClusterQueue", "LocalQueue") else {}
            patch |= {"parentName": spec.get("parentName")} if tree["kind"] == "Cohort" else {}
            patch |= {"resourceGroups": spec["resourceGroups"]} if "resourceGroups" in spec else {}
            if patch:
                await self._patch(resource, *place, {"spec": patch})

    async def _activate(self) -> None:
        await self._restore()
        gates = {"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": None}}}
        for team in TEAMS:
            for pod in await self.client.list(PODS, team):  # let the kubelet sync the pod again
                await self.client.patch(PODS, team, pod["metadata"]["name"], {"metadata": {"labels": {"t": "t"}}})
            for job in await self.client.list(JOBS, team):
                await self._patch(JOBS, team, job["metadata"]["name"], gates)
            for w in await self.client.list(WORKLOADS, team):
                await self._release(w)

    async def _release(self, w: Tree) -> None:
        meta, patch = w["metadata"], _without_others(w)
        if w["spec"].get("active") is False and not is_true(w, "Finished"):
            patch["spec"] = {"active": True}
            self._note(INPUT)
        with contextlib.suppress(ApiError):  # written by the manager meanwhile
            await self._patch(WORKLOADS, meta["namespace"], meta["name"], patch)

    async def _check_end(self) -> None:
        """Liveness: what can run has run, nothing is left over, and nothing is written any more."""
        revision = self.world.store.revision
        await asyncio.sleep(QUIET_SECONDS)
        if self.world.store.revision != revision:
            raise Broken(f"L8: {self.world.store.revision - revision} writes at rest")
        self.sampler.check_rest()


def _without_others(tree: Tree) -> Tree:
    """The patch that removes the finalizers of other programs."""
    rest = [each for each in tree["metadata"].get("finalizers", ()) if not each.startswith(FOREIGN)]
    return {"metadata": {"resourceVersion": tree["metadata"]["resourceVersion"], "finalizers": rest}}


def play(played: Life) -> Sampler:
    """Play a life. Raises Broken, or whatever error the life causes."""
    return run_virtual(Player(played).play())


def failure(played: Life) -> str:
    """What is broken; "" if nothing."""
    try:
        play(played)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def shrunk(played: Life) -> Life:
    """A life with as few moves as it takes to break the same invariant."""
    kind = _kind(failure(played))
    size = max(1, len(played.moves) // 2)
    while size:
        at = 0
        while at < len(played.moves):
            smaller = msgspec.structs.replace(played, moves=played.moves[:at] + played.moves[at + size :])
            if _kind(failure(smaller)) == kind:
                played = smaller
            else:
                at += size
        size //= 2
    return played


def _kind(found: str) -> str:
    return " ".join(found.split()[:2])


def read(path: Path) -> Life:
    return msgspec.json.decode(path.read_bytes(), type=Life)


def main(count: int, first: int, report: Callable[[str], object] = print) -> int:
    broken = 0
    for seed in range(first, first + count):
        found = failure(life(seed))
        if found:
            broken += 1
            smallest = shrunk(life(seed))
            path = Path(tempfile.gettempdir()) / f"life-{seed}.json"
            path.write_bytes(msgspec.json.format(msgspec.json.encode(smallest), indent=1))
            report(f"life {seed}: {found}; with {len(smallest.moves)} moves in {path}: {failure(smallest)}")
    report(f"{count} lives, {broken} broke something")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
