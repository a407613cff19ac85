"""In which fields a Workload differs from the request of its Job. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.api.types import Workload
from queue_manager.jobs.workload_manifest import max_execution_time, pod_set

MAX_FIELDS = 5
ABSENT = "none"


def differences(job: Job, workload: Workload) -> list[str]:
    """Return "field: its value, not the Job's" for up to MAX_FIELDS fields; of collections only the field.

    Labels, annotations, node selectors and the like are left out: an admission adds some to the template of its Job.
    """
    if len(workload.spec.pod_sets) != 1:
        return [f"podSets: {len(workload.spec.pod_sets)}, not 1"]
    have, want = workload.spec.pod_sets[0], pod_set(job)
    pairs = [
        ("count", have.count, want["count"]),
        ("minCount", have.min_count, want.get("minCount")),
        ("maximumExecutionTimeSeconds", workload.spec.maximum_execution_time_seconds, max_execution_time(job)),
    ]
    theirs = [(have.template.get("spec") or {}), want["template"].get("spec") or {}]
    pairs += [(name, theirs[0].get(name), theirs[1].get(name)) for name in ("initContainers", "containers")]
    return [text for pair in pairs for text in _different(*pair)][:MAX_FIELDS]


def has_same_request(job: Job, workload: Workload) -> bool:
    """Whether the Workload has the number of pods, the time limit and the resources of its Job."""
    if len(workload.spec.pod_sets) != 1:
        return False
    have, want = workload.spec.pod_sets[0], pod_set(job)
    return (
        (have.count, have.min_count) == (want["count"], want.get("minCount"))
        and workload.spec.maximum_execution_time_seconds == max_execution_time(job)
        and _resources(have.template) == _resources(want["template"])
    )


def _resources(template: Json) -> list[Json]:
    spec = template.get("spec") or {}
    both = ([each.get("resources") or {} for each in spec.get(name) or ()] for name in ("initContainers", "containers"))
    return [*both, spec.get("resources"), spec.get("overhead")]


def _different(path: str, mine: Json, other: Json) -> Iterator[str]:
    if mine == other:
        return
    if isinstance(mine, dict) and isinstance(other, dict):
        for name in dict.fromkeys((*mine, *other)):
            yield from _different(f"{path}.{name}", mine.get(name), other.get(name))
    elif isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        for index, pair in enumerate(zip(mine, other, strict=True)):
            yield from _different(f"{path}[{index}]", *pair)
    elif isinstance(mine, dict | list) or isinstance(other, dict | list):
        yield path
    else:
        yield f"{path}: {_shown(mine)}, not {_shown(other)}"


def _shown(value: Json) -> str:
    return ABSENT if value is None else str(value)
