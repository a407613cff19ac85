"""CPU time of one decide() of the Job controller on Jobs whose pods all exist, and the memory that they take.

There is no API server and nothing is written. Each figure is the best of some repetitions: `first` with pods that were
just decoded and nothing remembered, as after a start of the controller; `changed` when 500 pods have changed since the
last sync, as many as are created or counted at once; `again` when none has changed. The anchor is a plain Python loop
over as many integers.
"""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from time import process_time
from typing import Any

import msgspec

from job_controller.labels import (
    COMPLETION_INDEX,
    CONTROLLER_UID,
    INDEX_FAILURE_COUNT,
    TRACKING_FINALIZER,
)
from job_controller.model import Job, Pod
from job_controller.pod_adoption import claims
from job_controller.sync import decide
from tests.benchmarks.interpreter import LOOP, anchor

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UID = "11111111-2222-3333-4444-555555555555"
REPETITIONS = 5

Scenario = tuple[str, Job, list[Pod]]


def main() -> None:
    print(f"{'decide() on':<54} {'first':>10} {'changed':>10} {'again':>10} {'claims':>10}")
    for title, job, pods in scenarios():
        times = measured(job, pods)
        print(f"{title:<54} {'  '.join(f'{seconds * 1e3:>6.1f} ms' for seconds in times)}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {peak:.0f} MiB")
    print(f"anchor: a loop over {LOOP:,} integers {anchor() * 1e3:.1f} ms")


def scenarios() -> Iterator[Scenario]:
    """Jobs with one pod per index. In the last two, failed pods are to be replaced, or their backoff is running."""
    many = 100_000
    half = f"0-{many // 2 - 1}"
    even = ",".join(str(index) for index in range(0, many, 2))
    yield f"{many:,} indexes, all running", job(many), pods(many)
    yield (
        f"{many:,} indexes, half succeeded and counted",
        job(many, completedIndexes=half, succeeded=many // 2),
        pods(many, done=lambda i: i < many // 2, tracked=lambda i: i >= many // 2),
    )
    yield (
        f"{many:,} indexes, every other succeeded and counted",
        job(many, completedIndexes=even, succeeded=many // 2),
        pods(many, done=lambda i: i % 2 == 0, tracked=lambda i: i % 2 == 1),
    )
    yield f"{many:,} indexes, 500 just succeeded", job(many), pods(many, done=lambda i: i % 200 == 0)
    yield f"{many:,} indexes, all just succeeded", job(many), pods(many, done=yes)
    yield "1,000 indexes of their own limit, all failed", job(1000, limit=1), pods(1000, failed=yes)
    yield "1,000 indexes of their own limit, all failed for good", job(1000, limit=0), pods(1000, failed=yes)


def measured(job: Job, pods: list[Pod]) -> tuple[float, float, float, float]:
    """CPU seconds of each kind of sync; the last figure is finding the pods by the Job's selector."""
    random = Random(1)
    first = min(timed(lambda: decide(job, pods, None, NOW)) for _ in range(REPETITIONS))
    changed, memory = [], decide(job, pods, None, NOW).memory
    for _ in range(REPETITIONS):
        for place in random.sample(range(len(pods)), min(500, len(pods))):
            pods[place] = touched(pods[place])
        changed.append(timed(lambda memory=memory: decide(job, pods, memory, NOW)))  # type: ignore[misc]
        memory = decide(job, pods, memory, NOW).memory
    again = min(timed(lambda: decide(job, pods, memory, NOW)) for _ in range(REPETITIONS))
    return first, min(changed), again, min(timed(lambda: claims(job, pods, ())) for _ in range(REPETITIONS))


def timed(run: Callable[[], object]) -> float:
    gc.collect()
    started = process_time()
    run()
    return process_time() - started


def touched(pod: Pod) -> Pod:
    version = str(int(pod.metadata.resource_version or "0") + 1)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, resource_version=version))


def job(completions: int, limit: int | None = None, **status: Any) -> Job:
    own = {} if limit is None else {"backoffLimitPerIndex": limit}
    spec = {
        "completions": completions,
        "parallelism": completions,
        "completionMode": "Indexed",
        "backoffLimit": 2**31 - 1,
        "selector": {"matchLabels": {CONTROLLER_UID: UID}},
        "template": {"metadata": {"labels": {CONTROLLER_UID: UID}}, "spec": {"restartPolicy": "Never"}},
        **own,
    }
    began = (NOW - timedelta(minutes=5)).isoformat()
    active = completions - status.get("succeeded", 0)
    full = {"startTime": began, "active": active, "ready": active, "terminating": 0} | status
    full |= {"uncountedTerminatedPods": {}} | ({"failedIndexes": ""} if own else {})
    return msgspec.convert(
        {"metadata": {"name": "j", "namespace": "ns", "uid": UID}, "spec": spec, "status": full}, Job
    )


def no(_: int) -> bool:
    return False


def yes(_: int) -> bool:
    return True


def pods(
    number: int,
    done: Callable[[int], bool] = no,
    failed: Callable[[int], bool] = no,
    tracked: Callable[[int], bool] = yes,
) -> list[Pod]:
    """One pod per index, in the order in which an API server lists them, decoded as from a watch."""
    decode = msgspec.json.Decoder(Pod).decode
    return [
        decode(msgspec.json.encode(pod(index, done(index), failed(index), tracked(index))))
        for index in sorted(range(number), key=str)
    ]


def pod(index: int, done: bool, failed: bool, tracked: bool) -> dict[str, Any]:
    ended = done or failed
    phase = "Succeeded" if done else "Failed" if failed else "Running"
    state = {"terminated": {"exitCode": int(failed), "finishedAt": "2025-12-31T23:00:00Z"}} if ended else {}
    notes = {COMPLETION_INDEX: str(index), INDEX_FAILURE_COUNT: "0"}
    return {
        "metadata": {
            "name": f"j-{index}-abcde",
            "namespace": "ns",
            "uid": f"00000000-0000-0000-0000-{index:012}",
            "creationTimestamp": "2025-12-31T22:00:00Z",
            "labels": {CONTROLLER_UID: UID, COMPLETION_INDEX: str(index)},
            "annotations": notes,
            "finalizers": [TRACKING_FINALIZER] if tracked else [],
            "ownerReferences": [{"kind": "Job", "name": "j", "uid": UID, "controller": True}],
        },
        "spec": {"nodeName": "node"},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "False" if ended else "True"}],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}],
        },
    }


if __name__ == "__main__":
    main()
