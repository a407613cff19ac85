"""Reads the files of `--cluster-objects`: ClusterQueues and other kinds without a namespace."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import orjson

from job_controller.api_rules.field_errors import FieldError
from queue_manager.api.admission_review import AdmissionReview
from queue_manager.api.api_resources import CLUSTER_QUEUES, RESOURCE_FLAVORS, Resource
from queue_manager.api.queue_admission import QueueAdmission
from queue_manager.cli import manifests
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.manifest_refusals import refusal_lines
from queue_manager.cli.manifests import Manifest
from queue_manager.configuration import KueueConfig
from queue_manager.engine.transport_protocol import ApiError, Request, Response
from queue_manager.jobs.class_admission import PriorityClassAdmission
from queue_manager.lifecycle.workload_settings import settings_of
from queue_manager.local.cluster_objects import GIVEN, ClusterObjectServer

NOT_GIVEN = "not a kind that can be given here; give " + ", ".join(resource.kind for resource in GIVEN)
HEADING = "the cluster objects cannot be used:"
NAME = "metadata.name"
UNCHECKED = "<nil>"  # the field of a cause that only says that further rules were not checked


async def read_cluster_objects(path: str, config: KueueConfig) -> ClusterObjectServer:
    """Return the objects of a file, or of a folder's *.yaml, *.yml and *.json.

    Raises CommandRefused (EXIT_NEVER) with all mistakes, each with its file, line and field, by the API server's rules.
    """
    return await read_texts(manifests.texts_of(path), path, config)


async def read_text(text: str, name: str, config: KueueConfig) -> ClusterObjectServer:
    """Return the objects of a text; `name` stands for its file in errors. Raises as `read_cluster_objects`."""
    return await read_texts({name: text}, name, config)


async def read_texts(texts: Mapping[str, str], source: str, config: KueueConfig) -> ClusterObjectServer:
    """Return the objects of texts by their file; `source`: of all. Raises as `read_cluster_objects`."""
    objects = await ClusterObjectServer.start([_Rules(config)])
    given, problems = manifests.parts(texts)
    problems += _repeated(given)
    queues = [manifest for manifest in given if _kind(manifest) == CLUSTER_QUEUES.kind]
    flavors = {_name(manifest) for manifest in given if _kind(manifest) == RESOURCE_FLAVORS.kind}
    for manifest in given:
        problems += await _create(objects, manifest)
        problems += _absent(manifest, flavors) if manifest in queues else ()
    if not queues and not problems:
        problems.append(f"{source}: has no ClusterQueue")
    if problems:
        raise CommandRefused("\n  ".join([HEADING, *problems]), EXIT_NEVER)
    return objects


class _Rules:
    """Admission plugin that applies the webhooks' rules, so that each error names its field."""

    def __init__(self, config: KueueConfig) -> None:
        bounds = settings_of(config).bounds
        self._parts = QueueAdmission(), PriorityClassAdmission(lambda: bounds)

    def mutate(self, review: AdmissionReview) -> None:
        for part in self._parts:
            part.mutate(review)

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        return [error for part in self._parts for error in part.validate(review)]


async def _create(objects: ClusterObjectServer, manifest: Manifest) -> list[str]:
    """Create an object, and return all that prevents it.

    The API server answers with the mistakes of the first of its stages that finds any: unknown fields, the schema, its
    own rules, those of webhooks. So what it names is removed, and the rest tried again.
    """
    resource = _resource(manifest)
    if resource is None:
        return [_unknown(manifest)]
    tree = deepcopy(manifest.tree)
    meta = tree.get("metadata")
    if isinstance(meta, dict):
        meta.pop("resourceVersion", None)  # of an object that was printed by kubectl get
    found: dict[str, None] = {}
    removed: set[str] = set()
    strictness = "Strict"
    while True:
        query = {"fieldValidation": strictness, "fieldManager": "sluice"}
        request = Request("POST", resource.path(), query=query, body=orjson.dumps(tree))
        answer = await objects.client.transport.request(request)
        if answer.is_success or answer.status == HTTPStatus.CONFLICT:  # given twice, see `_repeated`
            return list(found)
        consequences = tuple(f"{manifest.place(field)}: {field}: " for field in removed)
        lines = [line for line in refusal_lines(manifest, answer) if UNCHECKED not in line]
        found |= dict.fromkeys(line for line in lines if not line.startswith(consequences))
        more = {field for field in _fields(answer) if field not in removed and _remove(tree, field)}
        if not more and strictness != "Strict":
            return list(found)
        removed |= more
        strictness = "Ignore"  # unknown fields are named


def _fields(answer: Response) -> Iterator[str]:
    details = ApiError.of(answer.status, answer.body).body.get("details") or {}
    yield from (cause.get("field") or "" for cause in details.get("causes") or ())


def _remove(tree: dict[str, Any], field: str) -> bool:
    """Remove a field that exists, so that a default takes its place; a wrong name is replaced by a valid one."""
    path = re.findall(r"[^.\[\]]+", field)
    node: Any = tree
    for name in path[:-1]:
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            return False
    if not path or not isinstance(node, dict) or path[-1] not in node:
        return False
    if field == NAME:
        node[path[-1]] = "wrong"
    else:
        del node[path[-1]]
    return True


def _unknown(manifest: Manifest) -> str:
    """Return the error for a manifest whose kind --cluster-objects does not take."""
    missing = [field for field in ("apiVersion", "kind") if not manifest.tree.get(field)]
    kind = manifest.tree.get("kind")
    if not missing:
        return f"{manifest.place('kind')}: {manifest.tree['apiVersion']} {kind}: {NOT_GIVEN}"
    known = next((each.api_version for each in GIVEN if each.kind == kind), "")
    what = f"{kind} {_name(manifest)}".strip() if kind else _name(manifest)
    text = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing{f' ({known})' if known else ''}"
    return f"{manifest.place('kind')}: {f'{what}: ' if what else ''}{text}"


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
    """Yield an error for each missing flavor or check of a ClusterQueue, which would be inactive."""
    spec = _mapping(queue.tree.get("spec"))
    for i, group in enumerate(_list(spec.get("resourceGroups"))):
        for j, flavor in enumerate(_list(_mapping(group).get("flavors"))):
            name = _mapping(flavor).get("name")
            if isinstance(name, str) and name not in flavors:
                field = f"spec.resourceGroups[{i}].flavors[{j}].name"
                yield f"{queue.place(field)}: {field}: ResourceFlavor {name} is not given"
    strategy = _mapping(spec.get("admissionChecksStrategy"))
    fields = [f"spec.admissionChecks[{i}]" for i, _ in enumerate(_list(spec.get("admissionChecks")))]
    fields += [
        f"spec.admissionChecksStrategy.admissionChecks[{i}].name"
        for i, _ in enumerate(_list(strategy.get("admissionChecks")))
    ]
    for field in fields:
        yield f"{queue.place(field)}: {field}: an AdmissionCheck cannot be given here"


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _repeated(given: list[Manifest]) -> Iterator[str]:
    """Yield an error for each object that the files contain twice."""
    first: dict[tuple[str, str], Manifest] = {}
    for manifest in given:
        kind, name = _kind(manifest), _name(manifest)
        if not kind or not name:
            continue
        known = first.setdefault((kind, name), manifest)
        if known is not manifest:
            where = manifest.place("metadata.name")
            yield f"{where}: {kind} {name} is given by {known.place('metadata.name')} already"
