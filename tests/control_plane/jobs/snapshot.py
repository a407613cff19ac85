"""The comparable part of a Job and its pods: without names, uids, times and the name of the finalizer."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from job_controller import event_reasons
from job_controller.labels import COMPLETION_INDEX, INDEX_VARIABLE, OWN_TRACKING_FINALIZER, TRACKING_FINALIZER
from job_controller.model import Object, Record

Json = Any
NOTES = ("job-completion-index", "job-index-failure-count", "job-index-ignored-failure-count")
PREFIX = "batch.kubernetes.io/"
OWN_PREFIX = "sluice/"
OWN_EVENTS = (event_reasons.INDEX_NEVER_FAILS, event_reasons.POD_ANNOTATION_IGNORED)


class Seen(Object):
    """An object with its fields as a tree."""

    spec: dict[str, Json] = msgspec.field(default_factory=dict)
    status: dict[str, Json] = msgspec.field(default_factory=dict)


class Regarding(Record):
    kind: str = ""


class SeenEvent(Object):
    """An Event."""

    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    involved_object: Regarding = Regarding()


def seen(tree: Json) -> Seen:
    """Decode a tree as an object."""
    return msgspec.convert(tree, Seen)


def of(job: Seen | None, pods: Iterable[Seen]) -> dict[str, Json]:
    """The comparable state of a Job and its pods at one moment. Pods are a sorted list of texts, since equal pods are
    interchangeable.
    """
    return {"job": _job(job), "pods": sorted(_pod(pod) for pod in pods)}


def _job(job: Seen | None) -> Json:
    if job is None:
        return "gone"
    status = job.status
    uncounted = status.get("uncountedTerminatedPods")
    numbers = ("active", "ready", "terminating", "succeeded", "failed", "completedIndexes", "failedIndexes")
    return {
        **{name: status[name] for name in numbers if name in status},
        "uncounted": uncounted and {kind: len(uids) for kind, uids in uncounted.items()},
        "startTime": "startTime" in status,
        "completionTime": "completionTime" in status,
        "conditions": [_condition(job, condition) for condition in status.get("conditions", ())],
        "deleting": job.metadata.deletion_timestamp is not None,
    }


def _condition(job: Seen, condition: Json) -> str:
    message = without_names(condition.get("message", ""), job.metadata.namespace)
    return f"{condition['type']}={condition['status']} {condition.get('reason', '')}: {message}"


def _pod(pod: Seen) -> str:
    meta = pod.metadata
    notes = [meta.annotations.get(PREFIX + note, "-") for note in NOTES]
    finalizers = ["tracked" if f in (OWN_TRACKING_FINALIZER, TRACKING_FINALIZER) else f for f in meta.finalizers]
    parts = [
        f"index {notes[0]} failures {notes[1]} ignored {notes[2]}",
        pod.status.get("phase", ""),
        "deleting" if meta.deletion_timestamp is not None else "",
        ",".join(sorted(f"{o.kind}{' controls' * o.controller}" for o in meta.owner_references)),
        ",".join(finalizers),
        pod.spec.get("hostname", ""),
        meta.generate_name,
        ",".join(f"{name}={'' if name.endswith('uid') else value}" for name, value in sorted(meta.labels.items())),
        ",".join(
            f"{name}={value}"
            for name, value in sorted(meta.annotations.items())
            if not name.startswith((PREFIX, OWN_PREFIX))
        ),
        json.dumps(_plan(pod), sort_keys=True),
    ]
    return " | ".join(parts)


def _plan(pod: Seen) -> Json:
    """The part of a pod that a Job may change in its template, or its controller in the pod."""
    spec = {name: pod.spec[name] for name in ("nodeSelector", "tolerations", "schedulingGates") if name in pod.spec}
    for group in ("initContainers", "containers"):
        spec[group] = [[c.get("image"), c.get("resources"), _variables(pod, c)] for c in pod.spec.get(group, ())]
    return spec


def _variables(pod: Seen, container: Json) -> Json:
    """Environment variables of a container. The built-in controller sets that of the index from the pod's label."""
    reference = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    index = {"name": INDEX_VARIABLE, "value": pod.metadata.labels.get(COMPLETION_INDEX)}
    env = container.get("env")
    return env and [index if v == {"name": INDEX_VARIABLE, "valueFrom": reference} else v for v in env]


def without_names(text: str, namespace: str) -> str:
    """The text without the random suffixes of pod names and without the namespace's name."""
    text = text.replace(f"{namespace}/", "NS/").replace(f'"{namespace}"', '"NS"')
    return re.sub(r"\b(job|job-\d+)-[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"\1-xxxxx", text)


def events(found: Iterable[SeenEvent], namespace: str) -> dict[str, int]:
    """How often each Event about the Job was recorded, without those that only our controller records."""
    counts: Counter[str] = Counter()
    for event in found:
        if event.involved_object.kind == "Job" and event.reason not in OWN_EVENTS:
            counts[f"{event.type} {event.reason} {without_names(event.message, namespace)}"] += event.count or 1
    return dict(sorted(counts.items()))


def differences(theirs: Json, ours: Json, path: str = "") -> Iterator[str]:
    """The differences of two snapshots, one line each."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in dict.fromkeys((*theirs, *ours)):
            yield from differences(theirs.get(name), ours.get(name), f"{path}.{name}" if path else name)
    elif isinstance(theirs, list) and isinstance(ours, list) and path.endswith("pods"):
        left, right = Counter(theirs), Counter(ours)
        yield from (f"{path}: only built-in: {text}" for text in (left - right).elements())
        yield from (f"{path}: only ours: {text}" for text in (right - left).elements())
    elif theirs != ours:
        yield f"{path}: built-in {theirs!r}, ours {ours!r}"
