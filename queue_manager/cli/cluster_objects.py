"""Reads the files of `--cluster-objects`: ClusterQueues and other kinds without a namespace."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import orjson

from job_controller.api_rules.field_errors import FieldError
from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.queue_admission import QueueAdmission
from queue_manager.api.resources import CLUSTER_QUEUES, RESOURCE_FLAVORS, Resource
from queue_manager.cli import manifests
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.manifests import Manifest
from queue_manager.cli.submit import explain
from queue_manager.configuration import KueueConfig
from queue_manager.engine.transport import Request
from queue_manager.jobs.class_admission import PriorityClassAdmission
from queue_manager.lifecycle.workload_settings import settings_of
from queue_manager.local.cluster_objects import GIVEN, ClusterObjectServer

NOT_GIVEN = "not a kind that can be given here; give " + ", ".join(resource.kind for resource in GIVEN)
HEADING = "the cluster objects cannot be used:"
UNCHECKED = "<nil>"  # the field of a cause that only says that further rules were not checked


async def read_cluster_objects(path: str, config: KueueConfig) -> ClusterObjectServer:
    """Return the objects of a file, or of a folder's *.yaml, *.yml and *.json.

    Raises CommandRefused (EXIT_NEVER) with all mistakes, each with its file, line and field, by the API server's rules.
    """
    return await _objects(manifests.read(path, HEADING), path, config)


async def read_text(text: str, name: str, config: KueueConfig) -> ClusterObjectServer:
    """Return the objects of a text; `name` stands for its file in errors. Raises as `read_cluster_objects`."""
    return await _objects(manifests.parse({name: text}, HEADING), name, config)


async def _objects(given: list[Manifest], source: str, config: KueueConfig) -> ClusterObjectServer:
    objects = await ClusterObjectServer.start([_Rules(config)])
    problems = list(_repeated(given))
    queues = [manifest for manifest in given if _kind(manifest) == CLUSTER_QUEUES.kind]
    flavors = {_name(manifest) for manifest in given if _kind(manifest) == RESOURCE_FLAVORS.kind}
    for manifest in given:
        mistakes = await _create(objects, manifest)
        if not mistakes and manifest in queues:
            mistakes = list(_absent(manifest, flavors))
        problems += mistakes
    if not queues and not problems:
        problems.append(f"{source}: has no ClusterQueue")
    if problems:
        raise CommandRefused("\n  ".join([HEADING, *problems]), EXIT_NEVER)
    return objects


class _Rules:
    """The rules of the webhooks, as rules of the API server itself, which names the field of each mistake."""

    def __init__(self, config: KueueConfig) -> None:
        bounds = settings_of(config).bounds
        self._parts = QueueAdmission(), PriorityClassAdmission(lambda: bounds)

    def mutate(self, review: AdmissionReview) -> None:
        for part in self._parts:
            part.mutate(review)

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        return [error for part in self._parts for error in part.validate(review)]


async def _create(objects: ClusterObjectServer, manifest: Manifest) -> list[str]:
    """Create an object, and return why that is not possible."""
    resource = _resource(manifest)
    if resource is None:
        return [f"{manifest.place('kind')}: {_named(manifest)}: {NOT_GIVEN}"]
    meta = manifest.tree.get("metadata")
    if isinstance(meta, dict):
        meta.pop("resourceVersion", None)  # of an object that was printed by kubectl get
    query = {"fieldValidation": "Strict", "fieldManager": "sluice"}
    request = Request("POST", resource.path(), query=query, body=orjson.dumps(manifest.tree))
    answer = await objects.client.transport.request(request)
    if answer.is_success or answer.status == 409:  # given twice, see `_repeated`
        return []
    return [line for line in explain(manifest, answer) if UNCHECKED not in line]


def _resource(manifest: Manifest) -> Resource | None:
    """The resource of a manifest, in its version; None for other kinds than GIVEN."""
    group, _, version = str(manifest.tree.get("apiVersion")).rpartition("/")
    kind = manifest.tree.get("kind")
    return next((replace(each, version=version) for each in GIVEN if (each.group, each.kind) == (group, kind)), None)


def _kind(manifest: Manifest) -> str:
    resource = _resource(manifest)
    return resource.kind if resource is not None else ""


def _name(manifest: Manifest) -> str:
    meta = manifest.tree.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""


def _absent(queue: Manifest, flavors: Collection[str]) -> Iterator[str]:
    """Yield what a valid ClusterQueue refers to and no file can have or has: it would be inactive."""
    spec = queue.tree.get("spec") or {}
    for i, group in enumerate(spec.get("resourceGroups") or ()):
        for j, flavor in enumerate(group.get("flavors") or ()):
            if flavor["name"] not in flavors:
                field = f"spec.resourceGroups[{i}].flavors[{j}].name"
                yield f"{queue.place(field)}: {field}: ResourceFlavor {flavor['name']} is not given"
    strategy = spec.get("admissionChecksStrategy") or {}
    fields = [f"spec.admissionChecks[{i}]" for i, _ in enumerate(spec.get("admissionChecks") or ())]
    fields += [
        f"spec.admissionChecksStrategy.admissionChecks[{i}].name"
        for i, _ in enumerate(strategy.get("admissionChecks") or ())
    ]
    for field in fields:
        yield f"{queue.place(field)}: {field}: an AdmissionCheck cannot be given here"


def _named(manifest: Manifest) -> str:
    return f"{manifest.tree.get('apiVersion')} {manifest.tree.get('kind')}"


def _repeated(given: list[Manifest]) -> Iterator[str]:
    """Yield the objects that are given twice."""
    first: dict[tuple[str, str], Manifest] = {}
    for manifest in given:
        kind, name = _kind(manifest), _name(manifest)
        if not kind or not name:
            continue
        known = first.setdefault((kind, name), manifest)
        if known is not manifest:
            where = manifest.place("metadata.name")
            yield f"{where}: {kind} {name} is given by {known.place('metadata.name')} already"
