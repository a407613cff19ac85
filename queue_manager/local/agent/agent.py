"""The node agent: one worker for each pod bound to its nodes, synced on changes of the pod and exits of processes.

The agent is an ordinary client of the API server and does not poll. Its state beyond the API is kept in files
(pod_files.py), so it may be killed at any time: containers keep running, and the next agent finds their processes and
the exit codes of those that ended meanwhile. It ends processes of pods that no longer exist in the API.

There is no sandbox: containers are processes of the user who runs the agent, on the host's file system and network.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from job_controller import pod_phases
from job_controller.json_tree import Json
from job_controller.times import timestamp
from queue_manager.api.api_resources import CONFIG_MAPS, PODS, Resource
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.local.agent import supervisor
from queue_manager.local.agent.admitted_pods import PodAdmitter
from queue_manager.local.agent.cgroups import Cgroups
from queue_manager.local.agent.environment import ConfigError, Host
from queue_manager.local.agent.escaped_processes import Sweeper
from queue_manager.local.agent.eviction_loop import Evictor
from queue_manager.local.agent.eviction_order import PressurePolicy
from queue_manager.local.agent.memory_pressure import OwnNodes
from queue_manager.local.agent.node_admission import REJECTED, Preempting, Rejected
from queue_manager.local.agent.oom_killer import OomKiller
from queue_manager.local.agent.output_pipes import OutputPipes
from queue_manager.local.agent.pod_files import Layout
from queue_manager.local.agent.pod_logs import LogIndexer
from queue_manager.local.agent.pod_status import PREEMPTED, Termination
from queue_manager.local.agent.pod_worker import MIN_GRACE_SECONDS, PodWorker
from queue_manager.local.agent.pod_worker_dependencies import NodePod, WorkerDependencies, awaits_confirmation
from queue_manager.local.agent.usage_sampler import UsageSampler
from queue_manager.local.placement.pod_preemption import PlacedPod
from queue_manager.local.pod_writes import NONE, delete_pod, patch_pod_status

log = logging.getLogger(__name__)

SECRETS = Resource("", "v1", "secrets", "Secret")
# Number of pods synced concurrently. A higher number only means more status writes in flight.
CONCURRENCY = 32


class _Bound(msgspec.Struct):
    """The node name in a pod's spec, decoded without the rest of the spec."""

    nodeName: str  # noqa: N815


class Agent:
    """Runs the pods of its nodes. Construct it before the runtime starts; end it with `shutdown`.

    Without `shutdown` (the program is killed, or the runtime just stops) containers keep running.
    """

    def __init__(
        self,
        runtime: Runtime,
        directory: Path,
        hosts: Sequence[Host],
        policy: PressurePolicy | None = None,
        cgroups: Cgroups | None = None,
    ) -> None:
        """`directory`: root of the pods' files, made readable by its owner only. `hosts`: the nodes this agent serves.

        `policy`: when pods are evicted because the node runs out of memory; the kubelet's defaults if None. `cgroups`:
        where limits of containers are enforced; without it memory is sampled and cpu is not limited.
        """
        self.layout = Layout(directory.resolve())
        self.layout.prepare()
        supervisor.keep_files_to_ourselves()
        self._runtime = runtime
        self._queue: WorkQueue[str] = WorkQueue("agent")
        self._workers: dict[str, PodWorker] = {}
        self._sweeper = Sweeper(self.layout.root)
        self._indexer = LogIndexer(runtime.clock.now)
        self._pipes = OutputPipes()
        self._shutdown: float | None = None
        self._idle = asyncio.Event()
        self._events = runtime.recorder("kubelet")
        policy = policy or PressurePolicy()
        self._nodes = OwnNodes(runtime, hosts, policy.transition)
        self._admitter = PodAdmitter(self._nodes)
        self._evictor = Evictor(self, self._nodes, policy, self.layout.root)
        self._cgroups = cgroups
        self._oom_killer = OomKiller(self.pods, self.layout.root)
        self._sampler = UsageSampler(self.pods)
        self._caches: list[Cache[NodePod]] = []
        for host in hosts:
            cache = runtime.cache(PODS, NodePod, field_selector=f"spec.nodeName={host.name}")
            cache.subscribe(self._changed)
            self._caches.append(cache)
        runtime.task(self._begin)
        runtime.task(self._close_pipes)
        runtime.task(self._evictor.run)
        runtime.task(self._oom_killer.run)
        runtime.task(self._sampler.run)
        runtime.worker(self._queue, self._sync, CONCURRENCY)

    # --- life ---

    async def shutdown(self, grace: float = 10.0) -> None:
        """Interrupt all pods: end their processes, and leave the pods to the next agent, which starts them again.

        Each pod gets its grace period, or the rest of it, at most `grace` seconds. Returns when no process of any pod
        is left. The runtime must still be running: pods that end for another reason at the same time are reported.
        """
        self._shutdown = grace
        self._idle.clear()
        for uid in self._workers:
            self._queue.add(uid)
        if self._workers:
            try:
                async with asyncio.timeout(grace + 10):
                    await self._idle.wait()
            except TimeoutError:
                log.error("pods did not end in time", extra={"pods": sorted(self._workers)})
        await self._sweeper.finish()

    async def leave(self) -> None:
        """Stop without ending a pod: its processes keep running, and the next agent finds them, as after a crash.

        To be called when the runtime has stopped, so that no worker starts or watches a process any more.
        """
        for worker in self._workers.values():
            worker.processes.release()
        self._indexer.close()
        await self._sweeper.finish()

    async def _close_pipes(self) -> None:
        """Release the process that keeps the output at the end of the runtime: after `shutdown`, or before `leave`."""
        try:
            await asyncio.Event().wait()
        finally:
            self._pipes.close()

    async def _begin(self) -> None:
        """End the processes and remove the files of pods that were deleted while no agent was running."""
        orphans = [uid for uid in self.layout.pods() if self._pod(uid) is None]
        await asyncio.gather(*(self._end_orphan(uid) for uid in orphans))

    async def _end_orphan(self, uid: str) -> None:
        """End the processes and remove the files of a pod that was deleted while no agent was running."""
        processes = [process for run in self.layout.all_runs(uid) if (process := supervisor.adopt(run))]
        ended = [asyncio.Event() for _ in processes]
        for process, event in zip(processes, ended, strict=True):
            process.watch(event.set)
            process.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(MIN_GRACE_SECONDS):
                await asyncio.gather(*(event.wait() for event in ended))
        except TimeoutError:
            for process in processes:
                process.signal(signal.SIGKILL)
        self._forget(uid)

    # --- one pod ---

    def _changed(self, old: NodePod | None, new: NodePod | None) -> None:
        pod = new or old
        if pod is None:
            return
        uid = pod.metadata.uid
        for waiting in self._admitter.observe(uid, new):
            self._queue.add(waiting)
        self._queue.add(uid)

    def _pod(self, uid: str) -> NodePod | None:
        return next((pod for cache in self._caches if (pod := cache.by_uid(uid)) is not None), None)

    async def _sync(self, uid: str) -> None:
        pod = self._pod(uid)
        worker = self._workers.get(uid)
        if worker is None:
            worker = await self._begin_pod(uid, pod)
        if worker is None:
            return
        await worker.sync(pod, self._shutdown)
        if worker.ended:
            self._end_pod(uid, pod)
        elif worker.running:
            self._evictor.wake()
            self._oom_killer.wake()
            self._sampler.wake()

    async def _begin_pod(self, uid: str, pod: NodePod | None) -> PodWorker | None:
        """Return a new worker for a pod that may run on its node; None if the pod is finished, gone or not admitted."""
        if pod is None:
            self._forget(uid)
            return None
        if pod.is_over:
            if self._has_processes(uid):
                return self._worker(pod)
            if awaits_confirmation(pod):
                await self.delete(pod)
            return None
        if self._shutdown is not None:
            return None
        spec = msgspec.json.decode(pod.spec)
        if pod.metadata.deletion_timestamp is None and not await self._may_start(pod, spec):
            return None
        return self._worker(pod)

    def _has_processes(self, uid: str) -> bool:
        """Whether containers of the pod that an earlier agent started are still running."""
        found = [process for run in self.layout.all_runs(uid) if (process := supervisor.adopt(run))]
        for process in found:
            process.release()
        return bool(found)

    def _worker(self, pod: NodePod) -> PodWorker:
        uid = pod.metadata.uid
        host = self._nodes.host(msgspec.json.decode(pod.spec, type=_Bound).nodeName)
        tools = WorkerDependencies(
            self.layout,
            host,
            self._source,
            self,
            self._indexer,
            self._pipes,
            self._runtime.clock.now,
            self._cgroups,
        )
        worker = self._workers[uid] = PodWorker(pod, tools, lambda seconds: self._queue.add_after(uid, seconds))
        return worker

    async def _may_start(self, pod: NodePod, spec: Json) -> bool:
        """Whether the node admits the pod. A rejected pod is set to Failed; for a critical pod others are preempted."""
        match self._admitter.admit(pod, spec):
            case Rejected(reason, message):
                self.event(pod, "Warning", reason, message)
                status = {"phase": pod_phases.FAILED, "reason": reason, "message": REJECTED + message}
                status |= {"startTime": timestamp(self._runtime.clock.now())}
                await self.patch_status(pod, status | {"observedGeneration": pod.metadata.generation})
                return False
            case Preempting(victims):
                for uid in victims:
                    self._end_for(uid, PREEMPTED)
                return False
        return True

    def _end_for(self, uid: str, verdict: Termination, grace: float | None = None) -> None:
        """End a pod for a reason of the node (preemption, eviction) and record an Event with that reason."""
        pod = self._pod(uid)
        if pod is None or pod.is_over:
            return
        worker = self._workers.get(uid) or self._worker(pod)
        self._admitter.mark_leaving(uid)
        self.event(pod, "Warning", verdict.reason, verdict.message)
        worker.end(verdict, grace)
        self._queue.add(uid)

    def _end_pod(self, uid: str, pod: NodePod | None) -> None:
        self._workers.pop(uid).processes.release()
        if pod is None:
            self._forget(uid)
        else:
            self._sweeper.request(uid)
        if not self._workers:
            self._idle.set()

    def _forget(self, uid: str) -> None:
        """Remove the files and logs of a pod that no longer exists in the API, and kill its remaining processes."""
        if self.layout.pod(uid).exists():
            self._sweeper.request(uid)
            self.layout.remove(uid)

    def running_pods(self) -> list[NodePod]:
        """The pods that have a running container."""
        return [worker.pod for worker in self._workers.values() if worker.running]

    def resumable_pods(self) -> list[NodePod]:
        """The running pods that a shutdown would interrupt, without those that end anyway."""
        return [worker.pod for worker in self._workers.values() if worker.would_resume]

    # --- what the evictor uses ---

    def pods(self) -> Collection[PodWorker]:
        """The workers of all pods that are not finished."""
        return list(self._workers.values())

    def held(self, uid: str) -> PlacedPod | None:
        """The node and the requests of a pod that was admitted to its node; None for any other."""
        return self._admitter.held(uid)

    def evict(self, uid: str, verdict: Termination) -> None:
        """End a pod immediately."""
        self._end_for(uid, verdict, 0)

    # --- what workers report ---

    async def patch_status(self, pod: NodePod, status: Json, annotations: Mapping[str, str] = NONE) -> None:
        """Write the changed fields of a status. Nothing is written if the pod is gone, or another one has its name."""
        await patch_pod_status(self._runtime.client, pod, status, annotations)

    async def delete(self, pod: NodePod) -> None:
        """Delete the pod from the API with grace period 0, because none of its processes runs any more."""
        await delete_pod(self._runtime.client, pod, grace_period=0)

    def event(self, pod: NodePod, type: str, reason: str, message: str) -> None:
        """Record an Event about a pod."""
        self._events.event(pod, "Warning" if type == "Warning" else "Normal", reason, message)

    async def _source(self, kind: str, namespace: str, name: str) -> Mapping[str, str] | None:
        """Read the data of a ConfigMap or Secret from the API server; None if it does not exist."""
        resource = CONFIG_MAPS if kind == "configmap" else SECRETS
        try:
            found = await self._runtime.client.get(resource, namespace, name)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise ConfigError(f"failed to read {kind} {namespace}/{name}: {error.message}") from error
        data: dict[str, str] = found.get("data") or {}
        if kind == "configmap":
            return data
        return {key: base64.b64decode(value).decode("utf-8", "replace") for key, value in data.items()}
