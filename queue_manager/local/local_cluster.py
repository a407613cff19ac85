"""The embedded cluster: store, API server, controllers and node agent, started and stopped in order of dependency.

Each part starts after the parts that it calls. The node agent comes last, when the controllers that read its reports
run. Shutdown is the reverse: the agent interrupts its pods while statuses can still be written, and the store closes
after its last writer. If a step of the start fails, the parts already started are stopped.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from job_controller import quantities
from job_controller.model import Job
from queue_manager import assets, kube_yaml
from queue_manager.api.api_resources import CRDS, JOBS
from queue_manager.api.crd_conversion import converted_by, service
from queue_manager.configuration import KueueConfig
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.clock_jumps import follow_clock
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.request_throttle import RateLimit, throttled
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.local import loopback_certificate
from queue_manager.local.agent.agent import Agent
from queue_manager.local.agent.cgroups import Cgroups
from queue_manager.local.agent.pod_files import Layout
from queue_manager.local.agent.pod_logs import LogFiles
from queue_manager.local.controllers.event_expiry import EventExpiry
from queue_manager.local.controllers.garbage_collector import GarbageCollector
from queue_manager.local.controllers.namespace_deletion import NamespaceController
from queue_manager.local.controllers.taint_eviction import TaintEviction
from queue_manager.local.disabled_fields import DisabledFields
from queue_manager.local.first_queue import CLUSTER_QUEUE, LOCAL_QUEUE, FirstQueue, NodeQuota
from queue_manager.local.job_interruptions import JobInterruptions
from queue_manager.local.job_warnings_plugin import JobWarnings
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.kubeconfig_file import write_kubeconfig
from queue_manager.local.loopback_certificate import ServerCertificate
from queue_manager.local.node_registration import NodeSpec, node_specs, register
from queue_manager.local.placement import Placement
from queue_manager.local.pod_priority import PodPriority, ensure_system_classes
from queue_manager.local.server import http_server
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.data_directory import CERTIFICATE, HISTORY, KUBECONFIG, PODS
from queue_manager.local.storage.journal import Journal
from queue_manager.local.storage.store import Store
from queue_manager.local.unsupported_pod_fields import UnsupportedPodFields
from queue_manager.local.worker_process import WorkerProcess
from queue_manager.visibility.readable_amounts import readable
from queue_manager.wiring import attach_controllers

USER = "system:sluice"
DIGEST = "sluice/definition"  # annotation of a CustomResourceDefinition: digest of its file
Report = Callable[[str, str], None]
RuntimeHook = Callable[[Runtime, AsyncExitStack], Awaitable[None]]
"""Called once, before anything starts, with what runs the controllers; what it opens ends with the cluster."""


async def no_hook(runtime: Runtime, stack: AsyncExitStack) -> None:
    """Do nothing: the default of a start-up hook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The data directory and the nodes. Quantities are as in the API; empty means those of this machine.

    `stop_grace_seconds`: how long a stop waits, at most, for pods that ignore SIGTERM.
    """

    data_dir: Path
    nodes: int = 1
    cpu: str = ""
    memory: str = ""
    port: int = 0
    first_queue: bool = True
    stop_grace_seconds: float = 10.0
    leave_running: bool = False  # at the end, instead of interrupting the pods


class RunningCounts(NamedTuple):
    """The number of pods that run on the nodes, and of their Jobs, with the names of these (`namespace/name`)."""

    jobs: int
    pods: int
    names: tuple[str, ...] = ()


class LocalCluster:
    """`async with LocalCluster(options, config) as cluster:` runs it until the block ends.

    `report(step, detail)` is called as each step of the start is done. `cgroups`: where the node agent enforces the
    limits of containers. Raises DataDirectoryInUse, JournalUnusable, ValueError (bad quantity) or OSError (port taken)
    when it cannot start.
    """

    def __init__(
        self,
        options: ClusterOptions,
        config: KueueConfig,
        report: Report = lambda step, detail: None,
        hook: RuntimeHook = no_hook,
        cgroups: Cgroups | None = None,
    ) -> None:
        self.options = options
        self.config = config
        self.url = ""
        self.kubeconfig = options.data_dir / KUBECONFIG
        self._report = report
        self._hook = hook
        self._cgroups = cgroups
        self._stack = AsyncExitStack()
        self._nodes = node_specs(options.nodes, options.cpu, options.memory)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def reconfigure(self, config: KueueConfig) -> None:
        """Apply a new configuration whose changes need no restart."""
        self._queue.reconfigure(config)
        self.config = config

    def running_counts(self) -> RunningCounts:
        """The pods, and their Jobs, that a stop would interrupt; with `leave_running`, those whose processes run on."""
        pods = self._agent.running_pods() if self.options.leave_running else self._agent.resumable_pods()
        jobs = {
            owner.uid: f"{pod.metadata.namespace}/{owner.name}"
            for pod in pods
            if (owner := pod.metadata.controller) is not None and owner.kind == JOBS.kind
        }
        return RunningCounts(len(jobs), len(pods), tuple(sorted(jobs.values())))

    async def _start(self, stack: AsyncExitStack) -> None:
        clock, rng = SystemClock(), random.SystemRandom()
        journal = Journal.open(self.options.data_dir)
        stack.callback(journal.close)
        store = Store(clock, rng, journal)
        stack.callback(store.close)
        count = sum(store.count(resource) for resource in store.resources())
        self._report("store", f"{self.options.data_dir} ({f'{count} objects' if count else 'new'})")

        pods = Layout(self.options.data_dir / PODS)
        admission: list[AdmissionPlugin] = []
        metrics = MetricRegistry()
        logs = LogFiles(pods, clock.now)
        worker_process = WorkerProcess()
        stack.push_async_callback(worker_process.close)
        server = ApiServer(store, KindRegistry.builtin(), clock, admission, logs, metrics.expose, worker_process)
        transport, limit = LocalTransport(server, USER), _limit(self.config)
        runtime = Runtime(
            throttled(transport, limit),
            clock,
            rng,
            metrics=metrics,
            silence=None,
            event_transport=throttled(transport, limit),
        )
        self.client = runtime.client
        follow_clock(runtime)
        await self._hook(runtime, stack)
        await install_crds(self.client)
        await ensure_system_classes(self.client)
        await register(self.client, self._nodes, clock.now())

        job_options = self.config.job_controller.options()
        history = f"sqlite:///{self.options.data_dir / HISTORY}"
        queue = attach_controllers(
            runtime, self.config, job_controller=job_options, pod_controllers=True, history=history
        )
        self._queue = queue
        server.registry.mount(queue.visibility)
        undone = UnsupportedPodFields(limits_cpu=self._cgroups is not None and self._cgroups.limits_cpu)
        admission.extend([DisabledFields(job_options.switches), PodPriority(store), undone, *queue.admission])
        admission.append(JobWarnings())
        for controller in (GarbageCollector(server), NamespaceController(server), EventExpiry(store, clock)):
            runtime.task(controller.run)
        Placement(runtime)
        TaintEviction(runtime)
        first_queue = FirstQueue(runtime, _total(self._nodes)) if self.options.first_queue else None
        agent = self._agent = Agent(runtime, pods.root, [node.host for node in self._nodes], cgroups=self._cgroups)
        token = secrets.token_urlsafe(32)
        file = self.options.data_dir / CERTIFICATE
        identity = loopback_certificate.provide(file, clock.now())
        context = identity.context()
        listening = await http_server.serve(server, context, port=self.options.port, token=token)
        stack.push_async_callback(listening.close)

        def present(renewed: ServerCertificate) -> None:
            context.load_cert_chain(renewed.file)
            write_kubeconfig(self.kubeconfig, listening.url, token, renewed.authority)

        runtime.task(partial(loopback_certificate.keep_current, identity, clock, present))
        if self.options.leave_running:
            stack.push_async_callback(agent.leave)  # after the runtime has stopped
        interruptions = JobInterruptions(self.client, runtime.cache(JOBS, Job), clock.now)
        await stack.enter_async_context(runtime)
        await interruptions.end()
        if not self.options.leave_running:
            stack.push_async_callback(interruptions.begin)  # once the agent has shut down
            stack.push_async_callback(agent.shutdown, self.options.stop_grace_seconds)

        self.url = listening.url
        write_kubeconfig(self.kubeconfig, self.url, token, identity.authority)
        self._report("API server", f"{self.url} (kubernetes API, this machine only)")
        self._report("controllers", "queue manager, Job controller, placement, garbage collector")
        self._report("nodes", describe_nodes(self._nodes))
        if first_queue is not None and (quota := await first_queue.ensure()):
            amounts = f"{quota.cpu} cpu, {readable('memory', quota.memory)} memory"
            self._report("queue", f"default/{LOCAL_QUEUE} → {CLUSTER_QUEUE} (quota {amounts})")


def _limit(config: KueueConfig) -> RateLimit | None:
    """The client's rate limit as configured, by default none: all requests stay in this process."""
    unset = config.client_connection == KueueConfig().client_connection
    return None if unset else config.client_connection.limit


async def install_crds(client: RestClient) -> None:
    """Install this version's CustomResourceDefinitions; an up-to-date definition is not written."""
    existing = {crd["metadata"]["name"]: crd["metadata"] for crd in await client.list(CRDS)}
    for file in sorted(assets.crds().glob("*.yaml")):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        group, _, plural = file.stem.partition("_")
        old = existing.get(f"{plural}.{group}")
        if old is None:
            await client.create(CRDS, "", _definition(file, digest))
        elif old.get("annotations", {}).get(DIGEST) != digest:
            wanted = _definition(file, digest)
            version = {"resourceVersion": old["resourceVersion"]}
            await client.replace(CRDS, {**wanted, "metadata": {**wanted["metadata"], **version}})


@cache
def _definition(file: Path, digest: str) -> dict[str, Any]:
    """The definition in a file, annotated with its digest; the server converts v1beta1 itself.

    Cached, because parsing takes longer than installing.
    """
    tree: dict[str, Any] = converted_by(kube_yaml.load(file.read_text()), service())
    tree["metadata"].setdefault("annotations", {})[DIGEST] = digest
    return tree


def _total(nodes: list[NodeSpec]) -> NodeQuota:
    """The sum of the resources of all nodes."""
    return NodeQuota(cpu=_sum_of(nodes, "cpu"), memory=_sum_of(nodes, "memory"))


def _sum_of(nodes: list[NodeSpec], resource: str) -> str:
    return quantities.to_text(sum(quantities.parse(node.capacity[resource], resource) for node in nodes), resource)


def describe_nodes(nodes: list[NodeSpec]) -> str:
    """A description for the log: `node-1 (2 cpu, 8Gi memory)`, or the number of nodes."""
    capacity = nodes[0].capacity
    each = f"{capacity['cpu']} cpu, {readable('memory', capacity['memory'])} memory"
    return f"{nodes[0].name} ({each})" if len(nodes) == 1 else f"{len(nodes)} nodes of {each}"
