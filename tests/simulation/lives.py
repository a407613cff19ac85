"""Random sequences of actions of users, admins and failures on a cluster with three Jobs.

The whole system runs in virtual time: embedded server, Job controller, queue, scripted pods. A move is an ordinary
request to the API server, or a kill of the queue's controllers; a refused request changes nothing. At the end all
obstacles are removed (queues are released, Workloads active, pods quick), and what is admissible then must run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from job_controller.model import Pod
from queue_manager.api.api_resources import CLUSTER_QUEUES, COHORTS, JOBS, LOCAL_QUEUES, PODS, WORKLOADS, Resource
from queue_manager.configuration import loads
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.world import World
from tests.local.queue.cluster import API, NS, Cluster
from tests.local.queue.invariants import Broken, History, at_rest, condition, is_true, phase

Tree = dict[str, Any]
BASE, MAXIMUM, LIMIT, QUOTA = 1, 4, 2, 4
CONFIG = f"""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady:
  timeout: 3s
  requeuingStrategy:
    {{backoffBaseSeconds: {BASE}, backoffMaxSeconds: {MAXIMUM}, backoffLimitCount: {LIMIT}}}
"""
SPOT = {"nodeLabels": {"kind": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]}
QUICK = PodScript(ready_after=0.2, ends_after=2.0)
OUTCOMES = (
    QUICK,
    PodScript(ready_after=None, ends_after=None),
    PodScript(ready_after=0.2, ends_after=None, stops_within=1.5),
    PodScript(ready_after=1.0, ends_after=8.0),
    PodScript(ready_after=0.2, ends_after=1.0, exit_code=1),
    PodScript(no_node="no node has 1 cpu left"),
)
JOB_NAMES = ("a", "b", "c")
PAUSES = (0.0, 0.02, 0.3, 1.0, 3.1, 7.0)
OWED_SECONDS = 120.0  # enough for every backoff and run that is left
QUIET_SECONDS = 30.0


class Move(NamedTuple):
    """An action, the Job that it concerns, its variant, and the pause after it. All but `name` are indexes into the
    tables above.
    """

    what: str
    who: int = 0
    how: int = 0
    pause: int = 0


@dataclass
class Lives:
    """A cluster with the moves made on it. `by_user` has, by resourceVersion, what users changed in a pod template."""

    world: World
    outcomes: dict[str, PodScript]
    by_user: dict[str, Tree] = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.world, self.outcomes)

    async def queues(self) -> None:
        c = self.cluster
        await c.namespace()
        await c.flavor("plain")
        await c.flavor("spot", **SPOT)
        flavors = [{"name": n, "resources": [{"name": "cpu", "nominalQuota": "2"}]} for n in ("plain", "spot")]
        group = {"coveredResources": ["cpu"], "flavors": flavors}
        spec = {"namespaceSelector": {}, "resourceGroups": [group], "cohortName": "team"}
        await c.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": spec})
        await c.local_queue("lq")
        await c.local_queue("lq2")

    async def make(self, move: Move) -> None:
        if self.world.alive or move.what in ("start", "wait"):
            with contextlib.suppress(ApiError, LookupError):  # refused, or the object does not exist
                await MOVES[move.what](self, JOB_NAMES[move.who % len(JOB_NAMES)], move.how)
        await asyncio.sleep(PAUSES[move.pause % len(PAUSES)])

    async def patch(self, resource: Resource, name: str, patch: Tree, *, template: Tree | None = None) -> None:
        """Patch as a user."""
        namespace = NS if resource.namespaced else ""
        done = await self.world.client.patch(resource, namespace, name, patch)
        self.by_user.setdefault(
            done["metadata"]["resourceVersion"], template or {}
        )  # the patch may have changed nothing

    async def patch_workload(self, job: str, patch: Tree) -> None:
        await self.patch(WORKLOADS, (await self.cluster.workload(job))["metadata"]["name"], patch)

    async def remove_obstacles(self) -> None:
        """Release the queues, activate the Workloads and make the pods quick."""
        if not self.world.alive:
            await self.world.start()
            await asyncio.sleep(1)  # the controllers have seen inactive Workloads before these are activated
        for name in JOB_NAMES:
            self.outcomes[name] = QUICK
        for cohort in await self.world.client.list(COHORTS):
            await self.patch(COHORTS, cohort["metadata"]["name"], {"spec": {"parentName": None}})
        await self.patch(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        for queue in ("lq", "lq2"):
            await self.patch(LOCAL_QUEUES, queue, {"spec": {"stopPolicy": "None"}})
        for _ in range(4):
            for pod in await self.world.client.list(PODS, NS):  # let the kubelet sync the pod again
                await self.world.client.patch(PODS, NS, pod["metadata"]["name"], {"metadata": {"labels": {"t": "t"}}})
            for w in await self.world.client.list(WORKLOADS, NS):
                if w["spec"].get("active") is False and not is_true(w, "Finished"):
                    await self.patch(WORKLOADS, w["metadata"]["name"], {"spec": {"active": True}})
            await asyncio.sleep(OWED_SECONDS / 4)


# --- moves ---------------------------------------------------------------------------------------------------


async def submit(lives: Lives, job: str, how: int) -> None:
    lives.outcomes[job] = OUTCOMES[how % len(OUTCOMES)]
    smaller = {"kueue.x-k8s.io/job-min-parallelism": "1"} if how % 4 == 3 else {}
    await lives.cluster.submit(job, parallelism=1 + how % 2, completions=2, annotations=smaller)


async def change_outcome(lives: Lives, job: str, how: int) -> None:
    lives.outcomes[job] = OUTCOMES[how % len(OUTCOMES)]


async def delete_job(lives: Lives, job: str, how: int) -> None:
    await lives.world.client.delete(JOBS, NS, job, propagation=("Background", "Foreground", "Orphan")[how % 3])


async def delete_workload(lives: Lives, job: str, how: int) -> None:
    name = (await lives.cluster.workload(job))["metadata"]["name"]
    await lives.world.client.delete(WORKLOADS, NS, name)


async def deactivate(lives: Lives, job: str, how: int) -> None:
    await lives.patch_workload(job, {"spec": {"active": False}})


async def reactivate(lives: Lives, job: str, how: int) -> None:
    await lives.patch_workload(job, {"spec": {"active": True}})


async def flip_suspend(lives: Lives, job: str, how: int) -> None:
    await lives.patch(JOBS, job, {"spec": {"suspend": bool(how % 2)}})


async def edit_template(lives: Lives, job: str, how: int) -> None:
    """Skipped while a stop is under way: the injected fields are still in the template then."""
    found = await lives.cluster.job(job)
    if "kueue.x-k8s.io/stopping" in (found["metadata"].get("annotations") or {}):
        return
    changes: tuple[Tree, ...] = (
        {"spec": {"nodeSelector": {"disk": "fast"}}},
        {"spec": {"nodeSelector": None}},
        {"metadata": {"annotations": {"note": str(how)}}},
        {"spec": {"tolerations": [{"key": "mine", "operator": "Exists"}]}},
    )
    change = changes[how % len(changes)]
    version = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}}
    await lives.patch(JOBS, job, {**version, "spec": {"template": change}}, template=change)


async def change_queue(lives: Lives, job: str, how: int) -> None:
    queue = ("lq", "lq2")[how % 2]
    await lives.patch(JOBS, job, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": queue}}})


async def stop_cluster_queue(lives: Lives, job: str, how: int) -> None:
    await lives.patch(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": ("Hold", "HoldAndDrain", "None")[how % 3]}})


async def stop_local_queue(lives: Lives, job: str, how: int) -> None:
    await lives.patch(LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": ("Hold", "HoldAndDrain", "None")[how % 3]}})


async def move_cohort(lives: Lives, job: str, how: int) -> None:
    """A Cohort gets a parent, which may close or break a cycle, or is deleted."""
    name, parent = (("team", "up"), ("up", "team"), ("up", None), ("team", None))[how % 4]
    known = [cohort["metadata"]["name"] for cohort in await lives.world.client.list(COHORTS)]
    if name not in known:
        spec = {"parentName": parent} if parent else {}
        await lives.cluster.create(COHORTS, {**API, "kind": "Cohort", "metadata": {"name": name}, "spec": spec})
    elif how >= 8:
        await lives.world.client.delete(COHORTS, "", name)
    else:
        await lives.patch(COHORTS, name, {"spec": {"parentName": parent}})


async def kill(lives: Lives, job: str, how: int) -> None:
    await lives.world.kill()


async def start(lives: Lives, job: str, how: int) -> None:
    if not lives.world.alive:
        await lives.world.start()


async def wait(lives: Lives, job: str, how: int) -> None:
    pass


MOVES: Mapping[str, Callable[[Lives, str, int], Awaitable[None]]] = {
    move.__name__: move
    for move in (
        submit,
        change_outcome,
        delete_job,
        delete_workload,
        deactivate,
        reactivate,
        flip_suspend,
        edit_template,
        change_queue,
        stop_cluster_queue,
        stop_local_queue,
        move_cohort,
        kill,
        start,
        wait,
    )
}


# --- playing moves, and the checks at the end --------------------------------------------------------------


async def live(moves: list[Move]) -> tuple[list[bytes], Mapping[str, Tree]]:
    """Make the moves. Raises Broken; returns the history, and what users wrote of it."""
    outcomes: dict[str, PodScript] = {}

    def script(pod: Pod) -> PodScript:
        return outcomes.get(pod.metadata.name.rsplit("-", 1)[0][:1], QUICK)

    async with World(1, script, loads(CONFIG), separate_queue=True) as world:
        lives = Lives(world, outcomes)
        await lives.queues()
        for move in moves:
            await lives.make(move)
        await lives.remove_obstacles()
        history_of(lives).check(world.history)
        await check_end(lives)
        return world.history, lives.by_user


def history_of(lives: Lives) -> History:
    return History(QUOTA, base=BASE, maximum=MAXIMUM, limit=LIMIT, by_user=lives.by_user)


async def check_end(lives: Lives) -> None:
    """Liveness: every Job that could run has run, nothing is left over, and nothing is written any more."""
    world = lives.world
    revision = world.store.revision
    await asyncio.sleep(QUIET_SECONDS)
    check_quiet(revision, world.store.revision)
    at_rest(world)
    jobs = {tree["metadata"]["uid"]: tree for tree in objects(world, "jobs.batch")}
    check_owed(jobs, objects(world, "workloads.kueue.x-k8s.io"), objects(world, "pods"))


def check_quiet(before: int, after: int) -> None:
    if after != before:
        raise Broken(f"L8: {after - before} writes at rest")


def check_owed(jobs: Mapping[str, Tree], workloads: list[Tree], pods: list[Tree]) -> None:
    """L1, L2, L3, L6: every Job has ended, its Workload is Finished, and no pod uses a node."""
    for job in jobs.values():
        ended = is_true(job, "Complete") or is_true(job, "Failed")
        name = job["metadata"]["name"]
        own = [
            w
            for w in workloads
            if any(o["uid"] == job["metadata"]["uid"] for o in w["metadata"].get("ownerReferences", ()))
        ]
        if not own and not ended:
            raise Broken(f"L1: {name} has no Workload")
        if any(w["spec"].get("active") is False and not is_true(w, "Finished") for w in own):
            raise Broken(f"L10: {name} cannot be brought back")
        if not ended and not any(is_true(w, "Admitted") for w in own):
            reason = condition(own[0], "QuotaReserved").get("message", "nothing")
            raise Broken(f"L1: {name} is not admitted, and its Workload says {reason}")
        if not ended:
            raise Broken(f"L2: {name} is admitted and has not run")
        if own and not any(is_true(w, "Finished") for w in own):
            raise Broken(f"L6: {name} has ended and its Workload has not")
    for pod in pods:
        if phase(pod) not in ("Succeeded", "Failed"):
            raise Broken(f"L3: pod {pod['metadata']['name']} is left over")


def objects(world: World, kind: str) -> list[Tree]:
    return [msgspec.json.decode(stored.data) for stored in world.store.scan(kind)]
