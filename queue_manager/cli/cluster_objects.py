"""Reads the files of `--cluster-objects`: ClusterQueues and other kinds without a namespace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import orjson

from job_controller.api_rules.field_errors import FieldError
from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.queue_admission import QueueAdmission
from queue_manager.api.resources import Resource
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
    return await _objects(manifests.read(path, HEADING), config)


async def read_text(text: str, name: str, config: KueueConfig) -> ClusterObjectServer:
    """Return the objects of a text; `name` stands for its file in errors. Raises as `read_cluster_objects`."""
    return await _objects(manifests.parse({name: text}, HEADING), config)


async def _objects(given: list[Manifest], config: KueueConfig) -> ClusterObjectServer:
    objects = await ClusterObjectServer.start([_Rules(config)])
    problems = list(_repeated(given))
    for manifest in given:
        problems += await _create(objects, manifest)
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


def _named(manifest: Manifest) -> str:
    return f"{manifest.tree.get('apiVersion')} {manifest.tree.get('kind')}"


def _repeated(given: list[Manifest]) -> Iterator[str]:
    """Yield the objects that are given twice."""
    first: dict[tuple[str, str], Manifest] = {}
    for manifest in given:
        resource, meta = _resource(manifest), manifest.tree.get("metadata")
        name = str(meta.get("name") or "") if isinstance(meta, dict) else ""
        if resource is None or not name:
            continue
        known = first.setdefault((resource.kind, name), manifest)
        if known is not manifest:
            where = manifest.place("metadata.name")
            yield f"{where}: {resource.kind} {name} is given by {known.place('metadata.name')} already"
