"""API objects as controllers read them: wire types, models, watch lines, annotations, and protobuf bodies."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec
import orjson
from pydantic import ValidationError

from job_controller import model, pod_gc
from job_controller.annotations import whole_number
from job_controller.backoff import base_of, failure_count
from job_controller.labels import BACKOFF_SECONDS, FAILED_PODS_LIMIT, INDEX_FAILURE_COUNT
from job_controller.options import JobControllerOptions
from queue_manager.api import keys, types
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.events import Event
from queue_manager.api.models import KINDS
from queue_manager.api.models.v1beta1 import DIFFERENT
from queue_manager.engine.cache import Cache
from queue_manager.engine.json_codec import UNDECODABLE, decoder, encode
from queue_manager.engine.reflector import Expired, Reflector
from queue_manager.engine.rest_client import Page
from queue_manager.engine.transport_protocol import ApiError, Transport
from queue_manager.jobs import webhook, workload_manifest
from queue_manager.jobs.start_stop import restore
from queue_manager.lifecycle import overrides
from queue_manager.lifecycle.workload_settings import Bounds, PodsReadyBounds, PodsReadySettings
from queue_manager.local.agent.pod_worker_dependencies import NodePod
from queue_manager.local.placement.placement_objects import NodeObject, PodObject
from queue_manager.local.schema import protobuf
from queue_manager.scheduling.execution_time import min_runtime
from queue_manager.scheduling.resource_rules import ResourceRules
from queue_manager.scheduling.workload_info import info
from tests.fuzz.target import Target, require_stable

WIRE_TYPES: dict[str, type[Any]] = {
    each.__name__: each
    for each in (
        *(model.Job, model.Pod, pod_gc.GcNode, types.Workload, types.ClusterQueue, types.LocalQueue, types.Cohort),
        *(types.ResourceFlavor, types.AdmissionCheck, types.LimitRange, types.RuntimeClass, types.Namespace),
        *(types.WorkloadPriorityClass, types.PriorityClass, Event, NodePod, PodObject, NodeObject, Page),
    )
}
MODELS: dict[str, type[Any]] = {kind.__name__: kind for kind in KINDS} | {
    f"v1beta1.{name}": kind for name, kind in DIFFERENT.items()
}


def wire_types() -> Target:
    def decode(head: str, body: bytes) -> None:
        type_ = WIRE_TYPES.get(head, types.Workload)
        first = decoder(type_).decode(body)
        require_stable(head, first, decoder(type_).decode(encode(first)))

    return Target(decode, UNDECODABLE, tuple(WIRE_TYPES))


def models() -> Target:
    def decode(head: str, body: bytes) -> None:
        orjson.loads(body)  # as requests are read: pydantic alone reads a number beyond all floats as infinity
        kind = MODELS.get(head, MODELS["Workload"])
        first = kind.model_validate_json(body)
        require_stable(head, first, kind.model_validate_json(first.model_dump_json(by_alias=True)))

    return Target(decode, (ValidationError, orjson.JSONDecodeError), tuple(MODELS))


class _NoTransport:
    """A reflector is given lines here; it asks for none."""


def watch_lines() -> Target:
    loop = asyncio.new_event_loop()  # delays are measured by it
    kinds = {"Workload": (WORKLOADS, types.Workload), "Job": (JOBS, model.Job)}

    def decode(head: str, body: bytes) -> None:
        resource, type_ = kinds.get(head, kinds["Workload"])
        transport: Transport = _NoTransport()  # type: ignore[assignment]
        cache: Cache[Any] = Cache()
        reflector = Reflector(transport, resource, type_, cache, rng=Random(1))

        async def take() -> None:
            reflector.take(body if body.endswith(b"\n") else body + b"\n")

        loop.run_until_complete(take())

    # What `Reflector.run` retries, after a new list where that helps.
    return Target(decode, (Expired, ApiError, *UNDECODABLE), tuple(kinds))


def annotations() -> Target:
    bounds = Bounds(PodsReadyBounds(min_timeout=1, max_timeout=3600, max_limit=5), 3600)
    settings, options = PodsReadySettings(bounds=bounds.pods_ready), JobControllerOptions()
    names = (
        *overrides.KEYS,
        *(keys.MAX_EXEC_TIME, keys.MIN_PARALLELISM, keys.COMPLETIONS_EQUAL_PARALLELISM, keys.PARALLELISM),
        *(keys.SEQUENCE, keys.JOB_CREATED, keys.ADMISSION_GATED_BY, keys.DEACTIVATED_FOR),
        *(BACKOFF_SECONDS, FAILED_PODS_LIMIT),
        *(keys.QUEUE_NAME, keys.PRIORITY_CLASS, keys.PREBUILT_WORKLOAD, keys.ELASTIC_JOB, INDEX_FAILURE_COUNT),
    )
    read = msgspec.json.Decoder(dict[str, str])
    rules: ResourceRules = ResourceRules()

    def decode(head: str, body: bytes) -> None:
        given = read.decode(body)
        wrong, accepted = overrides.errors(given, bounds), overrides.accepted(given, bounds)
        refused = {key for key in overrides.KEYS if any(error.field.endswith(f"[{key}]") for error in wrong)}
        assert refused | accepted.keys() == given.keys() & set(overrides.KEYS)
        assert refused & accepted.keys() <= {keys.MIN_RUNTIME}, "beyond its bound"
        overrides.effective(settings, given)
        meta = model.ObjectMeta(name="a", namespace="b", uid="u", annotations=given, labels=given)
        job = model.Job(metadata=meta, spec=model.JobSpec(parallelism=2, completions=2))
        base_of(job, options)
        failure_count(model.Pod(metadata=meta))
        whole_number(job, FAILED_PODS_LIMIT)
        workload_manifest.min_parallelism(job)
        workload_manifest.max_execution_time(job)
        tree = {"metadata": {"name": "a", "labels": given, "annotations": given}, "spec": {"parallelism": 2}}
        webhook.validate_job(tree)
        workload = types.Workload(metadata=meta, spec=types.WorkloadSpec(pod_sets=(types.PodSet(min_count=1),)))
        restore(job, workload)
        min_runtime(workload, 3600)
        info(workload, rules)

    return Target(decode, UNDECODABLE, tokens=tuple(f'"{name}":"' for name in names))


def protobuf_bodies() -> Target:
    def decode(head: str, body: bytes) -> None:
        protobuf.kind_of(body)
        protobuf.decode(body)

    return Target(
        decode, (protobuf.Malformed, protobuf.NotKnown), tokens=("k8s\x00", "\n", "\x12", "v1", "Pod", "\xff\x01")
    )


TARGETS = {
    "wire-types": wire_types,
    "models": models,
    "watch-lines": watch_lines,
    "annotations": annotations,
    "protobuf": protobuf_bodies,
}
