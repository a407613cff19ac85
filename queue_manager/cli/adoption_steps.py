"""The changes of `sluice adopt --apply` and `--undo`, in an order that may be interrupted after each.

The rights of the user are checked, and everything is saved, before the first change. A step that was done before is
done again without harm, so a command that was interrupted is simply repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from job_controller.conditions import finished
from job_controller.json_tree import Json
from job_controller.managed_by import OWN_MANAGER
from job_controller.model import Job
from queue_manager.adoption.kueue_installation import (
    DEPLOYMENTS,
    LAST_RESTORED,
    Treatment,
)
from queue_manager.api.api_resources import CRDS, JOBS, NAMESPACES, PODS, SECRETS, Resource
from queue_manager.cli import adoption_rights, own_rights
from queue_manager.cli.adoption_file import load, save
from queue_manager.cli.adoption_reading import STORED, KueueCluster, is_rewritable, kind_of, stored_versions
from queue_manager.cli.api_error_text import webhook_sentence
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.installed_objects import is_installed
from queue_manager.cli.named_targets import FIELD_MANAGER
from queue_manager.cli.standard_streams import write
from queue_manager.cli.stop_report import counted
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.installation import object_names
from queue_manager.installation.objects import NAMESPACE_LABELS

POLL_SECONDS = 1.0
PROGRESS_SECONDS = 5.0
MAX_REFUSED = 5  # objects that are named


async def take_over(client: RestClient, cluster: KueueCluster, file: str, timeout: float) -> None:
    """Save Kueue's objects in `file`, then stop Kueue. `timeout`: seconds to wait for its pods to end.

    Without Kueue, after `sluice install`, only objects that are stored as v1beta1 are rewritten. Kueue's webhook
    converts while Kueue runs; where no conversion is needed, the webhook is removed as soon as it does not.
    """
    await own_rights.check(client, adoption_rights.of_takeover(cluster))
    if cluster.is_kueues:
        save(file, cluster)
    else:
        await _end_conversions(client, cluster)
    for crd in cluster.outdated:
        if is_rewritable(crd):
            await rewrite_stored(client, crd)
    managers = [item for item in cluster.installed if item.treatment == Treatment.STOP]
    for item in managers:
        await scale(client, item.namespace, item.name)
    for item in managers:
        await _wait_for_end(client, item.tree, timeout)
    for item in cluster.installed:
        await _delete(client, item.resource, item.namespace, item.name)
    if cluster.is_kueues:
        await _end_conversions(client, cluster)


async def _end_conversions(client: RestClient, cluster: KueueCluster) -> None:
    for crd in cluster.needlessly_converted:
        name = crd["metadata"]["name"]
        change = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
        await client.patch(CRDS, "", name, change, field_manager=FIELD_MANAGER)
        write(f"{name} is converted without a webhook")


async def give_back(client: RestClient, file: str, namespace: str, timeout: float, *, force: bool) -> None:
    """Restore what `file` holds. `force`: even if that leaves Jobs without a controller.

    Raises CommandRefused while Sluice is installed: its removal afterwards would delete objects that Kueue needs, such
    as the Secret of the webhooks.
    """
    saved = in_order(load(file))
    for meta in (tree["metadata"] for tree in saved if tree["kind"] == DEPLOYMENTS.kind):
        present = await client.find(DEPLOYMENTS, meta["namespace"], meta["name"])
        if present is not None and is_installed(present):
            raise CommandRefused(
                f"Sluice is still installed in namespace {meta['namespace']}: run `sluice uninstall` first, and then "
                "this command again"
            )
    await _check_versions(client, saved)
    own = [job async for job in _jobs_of_own_controller(client)]
    if own and not force:
        raise CommandRefused(
            f"{len(own)} unfinished Jobs are run by Sluice's Job controller ({own[0]} ...): nothing would run them; "
            "let them end first, or pass --accept-losses"
        )
    await own_rights.check(client, adoption_rights.of_restoration(saved))
    for tree in saved:
        if tree["kind"] == DEPLOYMENTS.kind:
            await _stop_if_present(client, tree, timeout)
    for tree in saved:
        await _restore(client, tree)


# --- Kueue's objects ---


async def rewrite_stored(client: RestClient, crd: Json) -> None:
    """Write each object of a kind unchanged, so that it is stored in the storage version; record that in the CRD."""
    resource = kind_of(crd)
    objects = await client.list(resource)
    refused = [text for tree in objects if (text := await _rewrite(client, resource, tree))]
    name = crd["metadata"]["name"]
    if refused:
        raise CommandRefused(
            f"{name}: {len(refused)} of {len(objects)} objects could not be rewritten as {STORED}, nothing is lost; "
            f"correct them and repeat the command: {'; '.join(refused[:MAX_REFUSED])}"
        )
    await client.patch(CRDS, "", name, {"status": {"storedVersions": [STORED]}}, subresource="status")
    write(f"{name}: {len(objects)} objects are stored as {STORED}")


async def _rewrite(client: RestClient, resource: Resource, tree: Json) -> str:
    """Write one object. Return why it was refused, "" if it was not.

    An object that another client has changed or deleted meanwhile needs no write: the change has stored it anew.
    """
    try:
        await client.replace(resource, tree)
    except ApiError as error:
        if not (error.is_conflict or error.is_not_found):
            why = webhook_sentence(error.message) or error.message
            return f"{tree['metadata'].get('namespace', '')}/{tree['metadata']['name']}: {why}".removeprefix("/")
    return ""


async def scale(client: RestClient, namespace: str, name: str) -> None:
    """Scale a Deployment to 0."""
    await client.patch(DEPLOYMENTS, namespace, name, {"spec": {"replicas": 0}}, field_manager=FIELD_MANAGER)
    write(f"Deployment {namespace}/{name} scaled to 0")


async def _wait_for_end(client: RestClient, deployment: Json, timeout: float) -> None:
    """Wait until no pod of a Deployment is left. Raises CommandRefused after `timeout` seconds."""
    selector = deployment["spec"]["selector"].get("matchLabels") or {}
    text = ",".join(f"{name}={value}" for name, value in sorted(selector.items()))
    namespace = deployment["metadata"]["namespace"]
    started = reported = time.monotonic()
    while pods := await client.list(PODS, namespace, label_selector=text):
        now = time.monotonic()
        if now - started > timeout:
            names = ", ".join(pod["metadata"]["name"] for pod in pods)
            raise CommandRefused(f"pods of the manager still run after {timeout:.0f} s: {names}; repeat the command")
        if now - reported >= PROGRESS_SECONDS:
            reported = now
            write(f"waiting for {counted(len(pods), 'pod')} of {namespace}/{deployment['metadata']['name']} to end")
        await asyncio.sleep(POLL_SECONDS)


async def _delete(client: RestClient, resource: Resource, namespace: str, name: str) -> None:
    try:
        await client.delete(resource, namespace, name, propagation="Background")
    except ApiError as error:
        if not error.is_not_found:
            raise
    write(f"{resource.kind} {name} deleted")


# --- the way back ---


def in_order(trees: list[Json]) -> list[Json]:
    """Sort saved objects into the order in which they are restored."""
    last = [resource.kind for resource in LAST_RESTORED]
    return sorted(trees, key=lambda tree: last.index(tree["kind"]) + 1 if tree["kind"] in last else 0)


async def _check_versions(client: RestClient, saved: list[Json]) -> None:
    """Raise CommandRefused if a saved CRD lacks a version in which objects may be stored now.

    After `sluice uninstall --crds` no object is stored.
    """
    for crd in (tree for tree in saved if tree["kind"] == CRDS.kind):
        known = {version["name"] for version in crd["spec"]["versions"]}
        name = crd["metadata"]["name"]
        present = await client.find(CRDS, "", name)
        unknown = [v for v in stored_versions(present or {}) if v not in known]
        if unknown:
            raise CommandRefused(
                f"{name}: objects are stored as {', '.join(unknown)}, which the saved Kueue does not know; "
                f"install a Kueue that serves {STORED} instead"
            )


async def _jobs_of_own_controller(client: RestClient) -> AsyncIterator[str]:
    """Yield the unfinished Jobs that only Sluice's Job controller runs."""
    for job in await client.list(JOBS, type=Job):
        if job.spec.managed_by == OWN_MANAGER and finished(job.status) is None:
            yield str(job.metadata.key)


async def _stop_if_present(client: RestClient, deployment: Json, timeout: float) -> None:
    meta = deployment["metadata"]
    present = await client.find(DEPLOYMENTS, meta["namespace"], meta["name"])
    if present is None:
        return
    await scale(client, meta["namespace"], meta["name"])
    await _wait_for_end(client, present, timeout)
    await _delete(client, DEPLOYMENTS, meta["namespace"], meta["name"])


async def _restore(client: RestClient, tree: Json) -> None:
    """Replace an object by the saved one, or create it. A Secret that exists is kept as it is."""
    resource = object_names.KINDS[tree["kind"]]
    meta = tree["metadata"]
    namespace, name = str(meta.get("namespace") or ""), str(meta["name"])
    present = await client.find(resource, namespace, name)
    if present is None:
        await client.create(resource, namespace, tree)
    else:
        if resource == NAMESPACES:
            await _restore_labels(client, tree)
            return
        if resource == SECRETS:  # saved without its data
            return
        version = present["metadata"]["resourceVersion"]
        await client.replace(resource, {**tree, "metadata": {**meta, "resourceVersion": version}})
    write(f"{tree['kind']} {name} restored")


async def _restore_labels(client: RestClient, namespace: Json) -> None:
    """Restore the labels that an installation sets. Kueue's pods may violate Sluice's Pod Security standard."""
    meta = namespace["metadata"]
    name, saved = str(meta["name"]), meta.get("labels") or {}
    labels = {key: saved.get(key) for key in NAMESPACE_LABELS}
    await client.patch(NAMESPACES, "", name, {"metadata": {"labels": labels}}, field_manager=FIELD_MANAGER)
    write(f"labels of Namespace {name} restored")
