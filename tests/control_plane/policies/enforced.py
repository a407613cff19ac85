"""Installs admission policies on the real server, for the namespaces with LABEL, until the end of a context."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from queue_manager.api.api_resources import JOBS, Resource
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from queue_manager.installation.admission_policies import admission_policies
from queue_manager.installation.job_policies import CREATED
from queue_manager.installation.policy_settings import PolicySettings
from queue_manager.installation.policy_types import Mutating, Validating, Validation
from tests.waiting import until

Tree = dict[str, Any]
LABEL = "sluice-tests"
# The server learns of policies in the order of their creation. These two are created last; a dry run of a Job with the
# name that they are about shows that they are in force.
CHANGED, REFUSED = "sentinel-changed", "sentinel-refused"
_CHANGES = Mutating(CREATED, {"it": f'object.metadata.name == "{CHANGED}"'}, "Object{spec: Object.spec{suspend: true}}")
_REFUSES = Validating(CREATED, {"it": f'object.metadata.name == "{REFUSED}"'}, (Validation("false", '"no"'),))


@asynccontextmanager
async def enforced(api: RestClient, namespace: str, settings: PolicySettings) -> AsyncIterator[None]:
    """The policies of `settings` are in force in `namespace`, which has LABEL."""
    async with in_force(api, namespace, admission_policies(settings), settings):
        yield


@asynccontextmanager
async def in_force(
    api: RestClient, namespace: str, objects: list[Tree], settings: PolicySettings
) -> AsyncIterator[None]:
    """Policies and bindings are in force; by `settings` two more are made, which show that."""
    sentinels = [*_CHANGES.objects(CHANGED, settings), *_REFUSES.objects(REFUSED, settings)]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(until, lambda: _gone(api, namespace), "the policies are no longer in force")
        for tree in [*objects, *sentinels]:
            await api.create(resource_of(tree), "", tree)
            stack.push_async_callback(api.delete, resource_of(tree), "", tree["metadata"]["name"])
        await until(lambda: _in_force(api, namespace), "the policies are in force")
        yield


def resource_of(tree: Tree) -> Resource:
    group, _, version = tree["apiVersion"].partition("/")
    plural = tree["kind"].lower().removesuffix("y") + ("ies" if tree["kind"].endswith("y") else "s")
    return Resource(group, version, plural, tree["kind"], namespaced=False)


def job(name: str, *, queue: str = "lq", priority_class: str = "", **spec: Any) -> Tree:
    labels = {"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/priority-class": priority_class}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    meta = {"name": name, "labels": {key: value for key, value in labels.items() if value}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template, **spec}}


async def _in_force(api: RestClient, namespace: str) -> bool:
    return await _dry_run(api, namespace, CHANGED) == (201, True) and await _dry_run(api, namespace, REFUSED) == (
        403,
        None,
    )


async def _gone(api: RestClient, namespace: str) -> bool:
    return all([await _dry_run(api, namespace, name) == (201, False) for name in (CHANGED, REFUSED)])


async def _dry_run(api: RestClient, namespace: str, name: str) -> tuple[int, bool | None]:
    """The status of the creation of a Job, and its spec.suspend."""
    body = msgspec.json.encode(job(name, queue=""))
    answer = await api.transport.request(Request("POST", JOBS.path(namespace), query={"dryRun": "All"}, body=body))
    tree = msgspec.json.decode(answer.body)
    return answer.status, (tree.get("spec") or {}).get("suspend")
