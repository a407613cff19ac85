"""`sluice crds`: prints the queue's CRDs for `kubectl apply -f -`, and completes their deletion.

To remove the queue from a cluster but keep running Jobs, first stop every `sluice manager`: a manager stops each Job
whose Workload is deleted. Workloads, ClusterQueues and ResourceFlavors have a finalizer that only a manager removes,
so `sluice crds | kubectl delete -f -` then blocks; `sluice uninstall --crds` does not. `sluice crds --finish-delete`
removes the finalizer from the objects that have a deletionTimestamp, and from no others.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator

from job_controller.model import Object
from queue_manager import assets
from queue_manager.api import keys
from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import connect
from queue_manager.cli.exit_codes import EXIT_OK
from queue_manager.cli.named_targets import patch
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError

KINDS = (
    WORKLOADS,
    LOCAL_QUEUES,
    CLUSTER_QUEUES,
    RESOURCE_FLAVORS,
    COHORTS,
    ADMISSION_CHECKS,
    WORKLOAD_PRIORITY_CLASSES,
)


def run(args: argparse.Namespace) -> int:
    """Print the CRDs as YAML, or with --finish-delete complete their deletion; return the exit code."""
    if args.finish_delete:
        return asyncio.run(_finish_delete(args))
    for file in sorted(assets.crds().glob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        sys.stdout.write(text if text.startswith("---") else f"---\n{text}")
    return EXIT_OK


async def _finish_delete(args: argparse.Namespace) -> int:
    async with connect(args.kubeconfig, args.context) as client:
        with ChangeReport(args.output, dry_run=args.dry_run) as report:
            await finish_delete(client, report, dry_run=args.dry_run)
    return report.end("no object that is being deleted has the finalizer")


async def finish_delete(client: RestClient, report: ChangeReport, *, dry_run: bool) -> None:
    """Remove the queue's finalizer from all objects of its kinds that have a deletionTimestamp."""
    async for resource, obj in _held(client):
        meta = obj.metadata
        rest = [finalizer for finalizer in meta.finalizers if finalizer != keys.FINALIZER]
        change = {"metadata": {"finalizers": rest, "resourceVersion": meta.resource_version, "uid": meta.uid}}
        try:
            await patch(client, resource, meta.key, change, dry_run=dry_run)
        except ApiError as error:
            if not error.is_not_found:  # a 404 means that the object is already gone
                report.failed(resource.kind, *meta.key, error)
            continue
        report.add(resource.kind, *meta.key, "released", f"finalizer {keys.FINALIZER} removed")


async def _held(client: RestClient) -> AsyncIterator[tuple[Resource, Object]]:
    for resource in KINDS:
        try:
            objects = await client.list(resource, type=Object)
        except ApiError as error:
            if not error.is_not_found:
                raise
            continue  # the CRD is deleted, and its objects with it
        for obj in objects:
            if obj.metadata.deletion_timestamp is not None and keys.FINALIZER in obj.metadata.finalizers:
                yield resource, obj
