"""Reads what `sluice import` needs of a cluster, and predicts what the scheduler would answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from job_controller.model import Job, Pod
from queue_manager.adoption.job_imports import Import, ImportStep, ImportSurroundings, workload_for
from queue_manager.adoption.left_out_pods import left_out, sentence
from queue_manager.adoption.queue_mapping import QueueRule
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from queue_manager.api.types import (
    ClusterQueue,
    LocalQueue,
    Namespace,
    PriorityClass,
    Workload,
    WorkloadPriorityClass,
)
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.permitted_lists import list_permitted
from queue_manager.cli.published_config import published
from queue_manager.cli.scheduler_input_reading import ClusterView, read_cluster
from queue_manager.configuration import KueueConfig
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.lifecycle.workload_settings import WorkloadSettings, settings_of
from queue_manager.visibility.scheduler_judgement import ClusterState

N = TypeVar("N", PriorityClass, WorkloadPriorityClass, Namespace)


@dataclass(frozen=True)
class ImportView:
    """`jobs` and `workloads` are those of the namespaces of the command; `cluster` is everything that shares quota.

    `left_out`: a sentence about pods that are not of Jobs, or why they are not counted; "" without any.
    """

    jobs: Sequence[Job]
    workloads: Sequence[Workload]
    around: ImportSurroundings
    cluster: ClusterView
    settings: WorkloadSettings
    left_out: str = ""

    @property
    def not_seen(self) -> str:
        """What the user may not read, so that quota cannot be computed; "" if nothing."""
        return "; ".join(self.cluster.not_seen)

    def refusals(self, plans: Sequence[Import]) -> list[str]:
        """Why the scheduler would not admit each of these imports, in the same order; "" if it would."""
        objects = self.cluster.objects
        if objects is None:
            return ["" for _ in plans]
        now = datetime.now(UTC)
        in_order = ((item, self._pending(item, now + timedelta(seconds=i))) for i, item in enumerate(plans))
        wanted = {item.job.metadata.uid: workload for item, workload in in_order if workload is not None}
        keys = {workload.metadata.key for workload in wanted.values()}  # that of an interrupted import has one of them
        known = [w for w in objects.workloads if w.metadata.key not in keys]
        state = ClusterState(replace(objects, workloads=[*known, *wanted.values()]), self.settings, now)
        refusals = state.refusals(wanted.values())
        made = {uid: refusals[workload.metadata.uid] for uid, workload in wanted.items()}
        return [made.get(item.job.metadata.uid, "") for item in plans]

    def _pending(self, item: Import, created: datetime) -> Workload | None:
        """The Workload of an import as it is when the scheduler sees it for the first time; None without one."""
        if item.step not in (ImportStep.CREATE, ImportStep.WAIT, ImportStep.REPLACE):
            return None
        tree = workload_for(item.job, item.queue, self.around)
        tree["metadata"] |= {"uid": f"import-{item.job.metadata.uid}", "creationTimestamp": created}
        return msgspec.convert(tree, Workload, strict=False)


async def read_view(client: RestClient, namespaces: Sequence[str], rules: Sequence[QueueRule]) -> ImportView:
    """Read the cluster.

    Raises CommandRefused if a namespace does not exist (EXIT_NEVER), or if the queue manages all Jobs anyway.
    """
    await _check_namespaces(client, namespaces)
    config = await published(client, namespaces) or KueueConfig()
    settings = settings_of(config)
    if settings.manage_all:
        raise CommandRefused("manageJobsWithoutQueueName is set: the queue manages every Job already")
    jobs = [job for name in namespaces for job in await client.list(JOBS, name, type=Job)]
    workloads = [w for name in namespaces for w in await client.list(WORKLOADS, name, type=Workload)]
    queues = [queue for name in namespaces for queue in await client.list(LOCAL_QUEUES, name, type=LocalQueue)]
    cluster_queues = await list_permitted(client, CLUSTER_QUEUES, ClusterQueue)
    found = _by_name(await list_permitted(client, NAMESPACES, Namespace))
    around = ImportSurroundings(
        rules=rules,
        queues={f"{queue.metadata.namespace}/{queue.metadata.name}": queue.spec.cluster_queue for queue in queues},
        cluster_queues=None if cluster_queues is None else frozenset(each.metadata.name for each in cluster_queues),
        classes=_by_name(await list_permitted(client, WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)),
        pod_classes=_by_name(await list_permitted(client, PRIORITY_CLASSES, PriorityClass)),
        manages=lambda name: settings.manages(name, found.get(name)),
        labels_to_copy=settings.label_keys_to_copy,
    )
    return ImportView(
        jobs, workloads, around, await read_cluster(client), settings, await _left_out(client, namespaces)
    )


async def _check_namespaces(client: RestClient, namespaces: Sequence[str]) -> None:
    """Raise CommandRefused with those that do not exist. What the user may not read is not known to be missing."""
    missing = []
    for name in namespaces:
        try:
            await client.get(NAMESPACES, "", name)
        except ApiError as error:
            if error.is_not_found:
                missing.append(name)
            elif not error.is_forbidden:
                raise
    if missing:
        text = f"namespace {missing[0]} does not" if len(missing) == 1 else f"namespaces {', '.join(missing)} do not"
        raise CommandRefused(f"{text} exist", EXIT_NEVER)


async def _left_out(client: RestClient, namespaces: Sequence[str]) -> str:
    lists = [await list_permitted(client, PODS, Pod, name) for name in namespaces]
    if None in lists:
        return "Only batch/v1 Jobs are imported; you may not list pods, so it is not known what else runs"
    return sentence(left_out([pod for pods in lists for pod in pods or ()]))


def _by_name(objects: Iterable[N] | None) -> dict[str, N]:
    return {each.metadata.name: each for each in objects or ()}
