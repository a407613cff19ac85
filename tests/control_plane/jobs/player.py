"""Plays a history on one side: does through the API what users, the kubelet and the scheduler do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from queue_manager.api.api_resources import JOBS, PODS
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH, ApiError
from tests.control_plane.jobs import snapshot
from tests.control_plane.jobs.history import History, Step
from tests.control_plane.jobs.shared_server import JOB, SharedServer
from tests.control_plane.jobs.snapshot import PREFIX, Seen

Json = Any
NODE = "node-a"
FOREIGN = "example.com/hold"  # a finalizer
LONG_AGO_SECONDS = 700  # no backoff is left of a failure that old
TIMEOUT_SECONDS = 120.0  # for each `until`
TERMINAL = ("Succeeded", "Failed")
HOUR = datetime.now(UTC) - timedelta(hours=1)  # pods become ready from here on, at the same times on both sides


class Player:
    """One side of one history, in a namespace of its own."""

    def __init__(self, shared: SharedServer, side: str, namespace: str, history: History) -> None:
        self._shared = shared
        self._side = side
        self._namespace = namespace
        self._history = history
        self._user = shared.user
        self._number = 0  # of the step

    async def begin(self) -> int:
        """Create the Job. Returns the HTTP status with which the API server refused it, or 0."""
        await self._shared.create_namespace(self._namespace)
        return await self._attempt(self._do_recreate())

    async def perform(self, number: int, step: Step) -> int:
        """Take the step, the `number`th of the history. Returns the HTTP status of a refusal, or 0."""
        self._number = number
        return await self._attempt(getattr(self, f"_do_{step.verb}")(**step.options))

    async def rest(self) -> None:
        """Wait until the controller has nothing left to do for this Job, as far as can be observed."""
        await self._shared.rest(self._namespace, self._side)

    def snapshot(self) -> Json:
        return snapshot.of(self._shared.job(self._namespace), self._shared.pods_in(self._namespace))

    def events(self) -> dict[str, int]:
        return snapshot.events(self._shared.events_in(self._namespace), self._namespace)

    async def clean(self) -> None:
        """Delete everything, so that no controller keeps it in memory."""
        with contextlib.suppress(ApiError):
            await self._do_let()
            await self._user.delete(JOBS, self._namespace, JOB, propagation="Background")
        await self._do_free(among="all")
        await self._each(self._shared.pods_in(self._namespace), lambda pod: self._delete(pod, 0))

    async def _attempt(self, act: Awaitable[object]) -> int:
        try:
            await act
        except ApiError as error:
            return error.status
        finally:
            self._shared.touch(self._namespace)
        return 0

    # --- which pods ---

    def _chosen(self, at: Json = None, index: Json = None, among: str = "living") -> list[Seen]:
        kinds: dict[str, Callable[[Seen], bool]] = {
            "living": lambda pod: pod.status.get("phase") not in TERMINAL and not pod.metadata.deletion_timestamp,
            "deleting": lambda pod: pod.metadata.deletion_timestamp is not None,
            "ended": lambda pod: pod.status.get("phase") in TERMINAL,
            "all": lambda pod: True,
        }
        pods = sorted(filter(kinds[among], self._shared.pods_in(self._namespace)), key=_order)
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

    async def _do_run(self, ready: bool = True, restarts: int = 0, init: int | None = None, **which: Json) -> None:
        """`init`: restarts of each init container."""
        pods = self._chosen(**which)
        since = {pod.metadata.uid: self._ready_since(position) for position, pod in enumerate(pods)}

        async def run(pod: Seen) -> None:
            if not pod.spec.get("nodeName"):
                await self._bind(pod)
            status = _status("Running", ready=ready, restarts=restarts, since=since[pod.metadata.uid])
            if init is not None:
                names = [container["name"] for container in pod.spec.get("initContainers", ())]
                status["initContainerStatuses"] = [_container(name, None, 0, restarts=init) for name in names]
            await self._report(pod, status)

        await self._each(pods, run)

    def _ready_since(self, position: int) -> str:
        """The time since which the pod is ready. Seconds decide which of two pods is deleted first, so they do not
        depend on when they are written.
        """
        return _format(HOUR + timedelta(seconds=60 * self._number + position))

    async def _do_succeed(self, ago: float = 0, **which: Json) -> None:
        await self._each(self._chosen(**which), lambda pod: self._report(pod, _status("Succeeded", 0, ago)))

    async def _do_fail(
        self,
        code: int = 1,
        ago: float = LONG_AGO_SECONDS,
        conditions: Json = (),
        bare: bool = False,
        side: int | None = None,
        prepare: int | None = None,
        **which: Json,
    ) -> None:
        """`side`, `prepare`: exit codes of a second container and of an init container of these names."""
        status: Json = {"phase": "Failed"} if bare else _status("Failed", code, ago)
        status["conditions"] = [*status.get("conditions", ()), *conditions]
        if side is not None:
            status["containerStatuses"].append(_container("side", side, ago))
        if prepare is not None:
            status["initContainerStatuses"] = [_container("prepare", prepare, ago)]
        await self._each(self._chosen(**which), lambda pod: self._report(pod, status))

    async def _do_condition(self, type: str, status: str = "True", **which: Json) -> None:
        condition = {"type": type, "status": status, "lastTransitionTime": _time(0)}
        await self._each(self._chosen(**which), lambda pod: self._report(pod, {"conditions": [condition]}))

    async def _do_phase(self, phase: str, **which: Json) -> None:
        await self._each(self._chosen(**which), lambda pod: self._report(pod, {"phase": phase}))

    async def _do_end(self, phase: str = "Failed", code: int = 143, **which: Json) -> None:
        """The kubelet reports the end of pods that are being deleted."""

        async def end(pod: Seen) -> None:
            if pod.status.get("phase") not in TERMINAL:
                await self._report(pod, _status(phase, code if phase == "Failed" else 0, LONG_AGO_SECONDS))
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
        gone = {"$deleteFromPrimitiveList/finalizers": [self._shared.finalizer(self._side)]}
        await self._each(self._chosen(**which), lambda pod: self._edit(pod, gone))

    async def _do_disown(self, **which: Json) -> None:
        await self._each(self._chosen(**which), lambda pod: self._edit(pod, {"ownerReferences": None}))

    async def _do_hold(self, **which: Json) -> None:
        """Add a foreign finalizer."""
        await self._each(self._chosen(**which), lambda pod: self._edit(pod, {"finalizers": [FOREIGN]}))

    async def _do_free(self, **which: Json) -> None:
        gone = {"$deleteFromPrimitiveList/finalizers": [FOREIGN]}
        await self._each(self._chosen(**which), lambda pod: self._edit(pod, gone))

    async def _do_own(self, how: str, **which: Json) -> None:
        """Change owner references: the Job's `plain` (no controller) or as it was (`job`), a `foreign` one, or one
        `extra`.
        """
        other = {"apiVersion": "example.com/v1", "kind": "Other", "name": "other", "uid": "other"}
        owner = self._owner()

        async def own(pod: Seen) -> None:
            kept = (
                [{**owner, "controller": pod.metadata.controller is not None}] if pod.metadata.owner_references else []
            )
            owners = {
                "plain": [{**owner, "controller": False}],
                "job": [owner],
                "foreign": [{**other, "controller": True}],
                "extra": [*kept, other],
            }
            await self._edit(pod, {"ownerReferences": owners[how]})

        await self._each(self._chosen(**which), own)

    def _owner(self) -> Json:
        job = self._shared.job(self._namespace)
        uid = job.metadata.uid if job is not None else "none"
        return {"apiVersion": "batch/v1", "kind": "Job", "name": JOB, "uid": uid, "controller": True}

    async def _do_stray(
        self, labels: Json, name: str = "stray", tracked: bool = False, owned: bool = False, annotations: Json = None
    ) -> None:
        """Create a pod without owner, or an `owned` one that the Job has not made."""
        finalizers = [self._shared.finalizer(self._side)] if tracked else []
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": annotations,
                "finalizers": finalizers,
                "ownerReferences": [self._owner()] if owned else [],
            },
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

    async def _do_note(self, kind: str, **which: Json) -> None:
        """Write UIDs of real pods into uncountedTerminatedPods."""
        uids = [pod.metadata.uid for pod in self._chosen(**which)]
        await self._do_status(uncountedTerminatedPods={kind: uids})

    async def _do_keep(self) -> None:
        """Add a finalizer to the Job that only the player removes."""
        await self._user.patch(JOBS, self._namespace, JOB, {"metadata": {"finalizers": [FOREIGN]}})

    async def _do_let(self) -> None:
        await self._user.patch(JOBS, self._namespace, JOB, {"metadata": {"finalizers": None}})

    async def _do_remove(self, propagation: str = "Background") -> None:
        await self._user.delete(JOBS, self._namespace, JOB, propagation=propagation)

    async def _do_recreate(self) -> None:
        history = self._history
        body = self._shared.manifest(self._side, history.spec, history.template, history.annotations, history.labels)
        await self._user.create(JOBS, self._namespace, body)

    # --- time ---

    async def _do_until(self, living: int | None = None, total: int | None = None) -> None:
        """Wait for so many living pods, or for so many pods in total."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not self._has(living, total):
                    await asyncio.sleep(0.2)

    def _has(self, living: int | None, total: int | None) -> bool:
        if living is not None and len(self._chosen()) != living:
            return False
        return total is None or len(self._chosen(among="all")) == total

    async def _do_pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _order(pod: Seen) -> tuple[str, ...]:
    """Sort key of pods: the same order on both sides for all pods that do not look equal."""
    notes = pod.metadata.annotations
    index = notes.get(PREFIX + "job-completion-index", "")
    conditions = sorted(f"{c['type']}={c['status']}" for c in pod.status.get("conditions", ()))
    return (
        index,
        notes.get(PREFIX + "job-index-failure-count", ""),
        pod.status.get("phase", ""),
        f"{bool(pod.spec.get('nodeName'))} {conditions} {pod.metadata.deletion_timestamp is not None}",
        pod.spec.get("hostname", ""),
        f"{pod.metadata.labels.get('app')} {pod.metadata.controller is not None} {len(pod.metadata.finalizers)}",
        str(pod.metadata.creation_timestamp),
    )


def _time(ago: float) -> str:
    return _format(datetime.now(UTC) - timedelta(seconds=ago))


def _format(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _status(
    phase: str, code: int | None = None, ago: float = 0, *, ready: bool = False, restarts: int = 0, since: str = ""
) -> Json:
    """The status of a pod with one container as a kubelet writes it. `since`: when its readiness changed."""
    return {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": since or _time(ago)}],
        "containerStatuses": [_container("main", code, ago, ready=ready, restarts=restarts)],
    }


def _container(name: str, code: int | None, ago: float, *, ready: bool = False, restarts: int = 0) -> Json:
    """The status of one container; with a `code` it has ended."""
    state: Json = {"running": {"startedAt": _time(0)}}
    if code is not None:
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": _time(ago)}}
    container = {"name": name, "ready": ready, "restartCount": restarts, "image": "work", "imageID": "work"}
    return {**container, "state": state}
