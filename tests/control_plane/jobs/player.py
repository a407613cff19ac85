"""Plays a history on one side: what users, the kubelet and the scheduler do, through the API."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from queue_manager.engine.resources import JOBS, PODS
from queue_manager.engine.transport import STRATEGIC_PATCH, ApiError
from tests.control_plane.jobs import picture
from tests.control_plane.jobs.arena import BUILT_IN, JOB, OURS, SIDES, Arena
from tests.control_plane.jobs.history import History, Step
from tests.control_plane.jobs.picture import PREFIX, Seen

log = logging.getLogger(__name__)

Json = Any
NODE = "node-a"
LONG_AGO = 700  # seconds: a failure that old is not waited for
AT_ONCE = 80  # histories
PATIENCE = 120.0  # seconds that an `until` may take
TERMINAL = ("Succeeded", "Failed")


@dataclass
class Trace:
    """What one side did with a history: a picture after each step, and the Events at the end."""

    pictures: list[Json] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    history: History
    differences: list[str]

    def __str__(self) -> str:
        return "\n  ".join([str(self.history), *self.differences])


async def compare(
    arena: Arena, histories: list[History], run: str, at_once: int = AT_ONCE, *, allow_invalid: bool = False
) -> list[Comparison]:
    """Play all histories on both sides, many at once. `run` makes the namespaces' names.

    A machine that is busy can be late, and look as if a controller had come to rest. What differs is played
    again with fewer others, and only what differs again is a difference.
    """
    found = await play_once(arena, histories, run, at_once, allow_invalid)
    doubtful = [number for number, comparison in enumerate(found) if comparison.differences]
    if doubtful:
        log.info("%d of %d are played again", len(doubtful), len(histories))
    again = await play_once(
        arena, [histories[number] for number in doubtful], f"{run}-again", at_once // 4, allow_invalid
    )
    for number, comparison in zip(doubtful, again, strict=True):
        found[number] = comparison
    return found


async def play_once(
    arena: Arena, histories: list[History], run: str, at_once: int, allow_invalid: bool = False
) -> list[Comparison]:
    """Each once, without a second chance."""
    turn = asyncio.Semaphore(at_once)

    async def both(number: int, history: History) -> Comparison:
        async with turn:
            players = [
                Player(arena, side, f"{run}-{number}-{side}", history, may_be_invalid=allow_invalid) for side in SIDES
            ]
            theirs, ours = await asyncio.gather(*(player.play() for player in players))
            await asyncio.gather(*(player.clean() for player in players))
        return Comparison(history, list(_differences(history, theirs, ours)))

    return await asyncio.gather(*(both(number, history) for number, history in enumerate(histories)))


def _differences(history: History, theirs: Trace, ours: Trace) -> Iterator[str]:
    """Of the first moment at which the two differ; and of the Events, unless more has gone wrong."""
    for moment, (one, other) in enumerate(zip(theirs.pictures, ours.pictures, strict=True)):
        found = list(picture.differences(one, other))
        if found:
            step = f"step {moment} {history.steps[moment - 1]}" if moment else "at the beginning"
            yield from (f"after {step}: {line}" for line in found)
            return
    yield from picture.differences(theirs.events, ours.events, "events")


class Player:
    """One side of one history, in a namespace of its own."""

    def __init__(
        self, arena: Arena, side: str, namespace: str, history: History, *, may_be_invalid: bool = False
    ) -> None:
        self._may_be_invalid = may_be_invalid
        self._arena = arena
        self._side = side
        self._namespace = namespace
        self._history = history
        self._user = arena.user

    async def play(self) -> Trace:
        trace = Trace()
        history = self._history
        await self._arena.create_namespace(self._namespace)
        body = self._arena.manifest(self._side, history.spec, history.template, history.annotations, history.labels)
        try:
            await self._user.create(JOBS, self._namespace, body)
        except ApiError as error:
            if error.status != 422 or not self._may_be_invalid:
                raise
            return trace
        await self._look(trace)
        for step in history.steps:
            refusal = await self._perform(step)
            if step.options.get("rest", True):
                await self._look(trace)
            else:
                trace.pictures.append({})
            trace.pictures[-1]["refused"] = refusal
        await self._arena.rest(self._namespace, self._side)
        trace.events = picture.events(await self._arena.events(self._namespace), self._namespace)
        return trace

    async def clean(self) -> None:
        """Take everything away, so that neither controller has to keep it."""
        with contextlib.suppress(ApiError):
            await self._user.delete(JOBS, self._namespace, JOB, propagation="Background")
        await self._each(self._arena.pods_in(self._namespace), lambda pod: self._delete(pod, 0))

    async def _look(self, trace: Trace) -> None:
        self._arena.touch(self._namespace)
        await self._arena.rest(self._namespace, self._side)
        trace.pictures.append(picture.of(self._arena.job(self._namespace), self._arena.pods_in(self._namespace)))

    async def _perform(self, step: Step) -> int:
        """The HTTP status with which the API server refused the step, or 0."""
        act = getattr(self, f"_do_{step.verb}")
        options = {name: value for name, value in step.options.items() if name != "rest"}
        try:
            await act(**options)
        except ApiError as error:
            return error.status
        return 0

    # --- which pods ---

    def _chosen(self, at: Json = None, index: Json = None, among: str = "living") -> list[Seen]:
        kinds: dict[str, Callable[[Seen], bool]] = {
            "living": lambda pod: pod.status.get("phase") not in TERMINAL and not pod.metadata.deletion_timestamp,
            "deleting": lambda pod: pod.metadata.deletion_timestamp is not None,
            "ended": lambda pod: pod.status.get("phase") in TERMINAL,
            "all": lambda pod: True,
        }
        pods = sorted(filter(kinds[among], self._arena.pods_in(self._namespace)), key=_order)
        if index is not None:
            wanted = {str(i) for i in (index if isinstance(index, (list, tuple)) else [index])}
            return [pod for pod in pods if pod.metadata.annotations.get(PREFIX + "job-completion-index") in wanted]
        if at is not None and pods:
            positions = at if isinstance(at, (list, tuple)) else [at]
            return [pods[position] for position in dict.fromkeys(p % len(pods) for p in positions)]
        return pods

    async def _each(self, pods: list[Seen], act: Callable[[Seen], Awaitable[object]]) -> None:
        async def one(pod: Seen) -> None:
            with contextlib.suppress(ApiError):
                await act(pod)

        await asyncio.gather(*(one(pod) for pod in pods))

    # --- the scheduler and the kubelet ---

    async def _do_bind(self, **which: Json) -> None:
        await self._each(self._chosen(**which), self._bind)

    async def _do_run(self, ready: bool = True, restarts: int = 0, **which: Json) -> None:
        async def run(pod: Seen) -> None:
            if not pod.spec.get("nodeName"):
                await self._bind(pod)
            await self._report(pod, _status("Running", ready=ready, restarts=restarts))

        await self._each(self._chosen(**which), run)

    async def _do_succeed(self, ago: float = 0, **which: Json) -> None:
        await self._each(self._chosen(**which), lambda pod: self._report(pod, _status("Succeeded", 0, ago)))

    async def _do_fail(
        self, code: int = 1, ago: float = LONG_AGO, conditions: Json = (), bare: bool = False, **which: Json
    ) -> None:
        status = {"phase": "Failed"} if bare else _status("Failed", code, ago)
        status["conditions"] = [*status.get("conditions", ()), *conditions]
        await self._each(self._chosen(**which), lambda pod: self._report(pod, status))

    async def _do_condition(self, type: str, status: str = "True", **which: Json) -> None:
        condition = {"type": type, "status": status, "lastTransitionTime": _time(0)}
        await self._each(self._chosen(**which), lambda pod: self._report(pod, {"conditions": [condition]}))

    async def _do_end(self, phase: str = "Failed", code: int = 143, **which: Json) -> None:
        """The kubelet has ended pods that were being deleted."""

        async def end(pod: Seen) -> None:
            if pod.status.get("phase") not in TERMINAL:
                await self._report(pod, _status(phase, code if phase == "Failed" else 0, LONG_AGO))
            await self._delete(pod, 0)

        await self._each(self._chosen(**{"among": "deleting", **which}), end)

    async def _bind(self, pod: Seen) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.metadata.name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        }
        await self._user.create(PODS, self._namespace, body, name=pod.metadata.name, subresource="binding")

    async def _report(self, pod: Seen, status: Json) -> None:
        await self._user.patch(
            PODS,
            self._namespace,
            pod.metadata.name,
            {"status": status},
            subresource="status",
            content_type=STRATEGIC_PATCH,
        )

    # --- users, to pods ---

    async def _do_delete(self, grace: int | None = None, **which: Json) -> None:
        await self._each(self._chosen(**which), lambda pod: self._delete(pod, grace))

    async def _do_label(self, labels: Json, **which: Json) -> None:
        await self._each(self._chosen(**which), lambda pod: self._edit(pod, {"labels": labels}))

    async def _do_annotate(self, annotations: Json, **which: Json) -> None:
        await self._each(self._chosen(**which), lambda pod: self._edit(pod, {"annotations": annotations}))

    async def _do_strip(self, **which: Json) -> None:
        gone = {"$deleteFromPrimitiveList/finalizers": [self._arena.finalizer(self._side)]}
        await self._each(self._chosen(**which), lambda pod: self._edit(pod, gone))

    async def _do_disown(self, **which: Json) -> None:
        await self._each(self._chosen(**which), lambda pod: self._edit(pod, {"ownerReferences": None}))

    async def _do_stray(self, labels: Json, name: str = "stray", tracked: bool = False) -> None:
        """A pod without owner."""
        finalizers = [self._arena.finalizer(self._side)] if tracked else []
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "finalizers": finalizers},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]},
        }
        await self._user.create(PODS, self._namespace, body)

    async def _edit(self, pod: Seen, metadata: Json) -> None:
        patch = {"metadata": metadata}
        if "ownerReferences" in metadata:
            await self._user.patch(PODS, self._namespace, pod.metadata.name, patch)
            return
        await self._user.patch(PODS, self._namespace, pod.metadata.name, patch, content_type=STRATEGIC_PATCH)

    async def _delete(self, pod: Seen, grace: int | None) -> None:
        await self._user.delete(PODS, self._namespace, pod.metadata.name, uid=pod.metadata.uid, grace_period=grace)

    # --- users, to the Job ---

    async def _do_spec(self, **changes: Json) -> None:
        await self._user.patch(JOBS, self._namespace, JOB, {"spec": changes})

    async def _do_status(self, **changes: Json) -> None:
        await self._user.patch(JOBS, self._namespace, JOB, {"status": changes}, subresource="status")

    async def _do_remove(self, propagation: str = "Background") -> None:
        await self._user.delete(JOBS, self._namespace, JOB, propagation=propagation)

    async def _do_recreate(self) -> None:
        history = self._history
        body = self._arena.manifest(self._side, history.spec, history.template, history.annotations, history.labels)
        await self._user.create(JOBS, self._namespace, body)

    # --- time ---

    async def _do_until(self, living: int | None = None, total: int | None = None) -> None:
        """So many living pods, or pods at all: something that takes its time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while not self._has(living, total):
                    await asyncio.sleep(0.2)

    def _has(self, living: int | None, total: int | None) -> bool:
        if living is not None and len(self._chosen()) != living:
            return False
        return total is None or len(self._chosen(among="all")) == total

    async def _do_pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _order(pod: Seen) -> tuple[int, str, str, str, str]:
    """Pods that look alike are interchangeable; all others have one order on both sides."""
    notes = pod.metadata.annotations
    index = notes.get(PREFIX + "job-completion-index", "")
    conditions = sorted(f"{c['type']}={c['status']}" for c in pod.status.get("conditions", ()))
    return (
        int(index) if index.isdecimal() else -1,
        notes.get(PREFIX + "job-index-failure-count", ""),
        pod.status.get("phase", ""),
        f"{bool(pod.spec.get('nodeName'))} {conditions} {pod.metadata.deletion_timestamp is not None}",
        str(pod.metadata.creation_timestamp),
    )


def _time(ago: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _status(phase: str, code: int | None = None, ago: float = 0, *, ready: bool = False, restarts: int = 0) -> Json:
    """The status of a pod with one container, as a kubelet would write it."""
    state: Json = {"running": {"startedAt": _time(0)}}
    if code is not None:
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": _time(ago)}}
    container = {"name": "main", "ready": ready, "restartCount": restarts, "image": "work", "imageID": "work"}
    return {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": _time(ago)}],
        "containerStatuses": [{**container, "state": state}],
    }


__all__ = ["BUILT_IN", "OURS", "Comparison", "Player", "Trace", "compare"]
