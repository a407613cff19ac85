"""The API server: one function from request to response.

`handle` parses the URL, finds the kind and calls the verb. It does no I/O of its own: http_server.py owns the sockets,
storage/journal.py the disk. A response is sent only after the writes that it reports, and those that it has read, are
committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import orjson

from job_controller.json_tree import Json
from job_controller.ports import Clock
from job_controller.times import timestamp
from queue_manager.api.api_resources import CRDS, NAMESPACES, PODS
from queue_manager.engine.metric_registry import Exposition
from queue_manager.engine.transport_protocol import Response
from queue_manager.local import status_errors
from queue_manager.local.container_logs_protocol import ContainerLogs
from queue_manager.local.discovery.paths import discovery
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.schema.cpu_time_limits import LimitedRequest, NeedsWorkerProcess, Work
from queue_manager.local.server.access_reviews import review
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin, AdmissionReview
from queue_manager.local.server.content_negotiation import negotiate
from queue_manager.local.server.deletion import DeleteOptions, Deleter
from queue_manager.local.server.http_messages import ServerRequest, Stream, flag, refuse, respond
from queue_manager.local.server.large_writes import LargeWrites
from queue_manager.local.server.listing import list_objects, version
from queue_manager.local.server.namespace_finalize import finalize
from queue_manager.local.server.pod_subresources import PodSubresources
from queue_manager.local.server.request_info import Call, CallTarget, check_name, parse_path
from queue_manager.local.server.response_encoding import ResponseView
from queue_manager.local.server.watch import Watch
from queue_manager.local.server.writing import Writer
from queue_manager.local.status_errors import StatusError
from queue_manager.local.storage.store import Store, StoredChange, decode

__all__ = ["AdmissionPlugin", "AdmissionReview", "ApiServer", "Response", "ServerRequest", "Stream"]

log = logging.getLogger(__name__)

FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
HEALTH = ("healthz", "livez", "readyz")
RESTARTED_METHODS = ("POST", "PUT", "PATCH")  # methods whose work in one step may take long
MAX_PREPARATIONS = 3  # of a large write in the thread; then it is made on the event loop
MAX_STARTS = 16  # restarts of one request; the object may have been written in between
CHECKS = ("ping", "log", "etcd")  # always healthy while the server responds: it includes its store
CONTAINER_SUBRESOURCES = ("exec", "attach", "portforward", "proxy", "ephemeralcontainers")


class WorkRunner(Protocol):
    """Runs work that would block the event loop for too long."""

    async def run(self, work: Work) -> list[Json] | None:
        """Return the result of the work, or None if it took too long. Raises StatusError 429."""
        ...


class ApiServer:
    """An embedded Kubernetes API server over a store."""

    def __init__(
        self,
        store: Store,
        registry: KindRegistry,
        clock: Clock,
        admission: Sequence[AdmissionPlugin] = (),
        logs: ContainerLogs | None = None,
        exposed: Callable[[str], Awaitable[Exposition]] | None = None,
        worker_process: WorkRunner | None = None,
    ) -> None:
        """`exposed` answers GET /metrics by its Accept header; if it is None, the path does not exist.

        `worker_process` runs long work, such as matching a user's pattern, outside the event loop; without it, the
        event loop blocks until the work is done.
        """
        self.store = store
        self.registry = registry
        self._clock = clock
        self._exposed = exposed
        self._worker_process = worker_process
        self._closing = False
        self._writer = Writer(store, admission)
        self._large = LargeWrites(store, admission)
        self._deleter = Deleter(store, admission)
        self._pods = PodSubresources(store, self._writer, self._deleter, logs)
        for stored in list(store.scan(str(CRDS))):
            self.registry.install(decode(stored))
        store.subscribe(self._definitions_changed)
        self._create_first_namespaces()

    def close(self) -> None:
        """End all watches; requests are still answered."""
        self._closing = True
        self._large.close()
        self.store.wake_all()

    async def handle(self, request: ServerRequest) -> Response | Stream:
        """Return the response to a request. Never raises: errors are returned as responses too."""
        try:
            return await self._answer(request)
        except StatusError as error:
            return refuse(error)
        except OSError as error:
            log.error("%s %s: %s", request.method, request.path, error)
            return refuse(status_errors.internal(str(error)))
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path)
            return refuse(status_errors.internal(f"{type(error).__name__}: {error}"))

    async def _answer(self, request: ServerRequest) -> Response | Stream:
        target = parse_path(request.path)
        kind = self.registry.find(target.group, target.version, target.plural) if target else None
        if target is None or kind is None:
            return await self._metrics(request) or await self._answer_other_path(request, target)
        if target.namespace and not kind.resource.namespaced:
            raise status_errors.no_such_path()
        form = negotiate(request.headers.get("accept", ""))
        view = ResponseView(kind, form, request.query.get("includeObject", ""))
        call = Call(request, kind, target.namespace, target.name, target.subresource, view)
        if kind.deprecation:
            call.warnings.append(kind.deprecation)
        try:
            answer = await self._run_verb(call)
            await self.store.settled()
        except StatusError as error:
            error.warnings = call.warnings
            await self.store.settled()  # the refusal may be based on a write that is not committed yet
            raise
        return answer

    async def _run_verb(self, call: Call) -> Response | Stream:
        """Run the verb. If a part takes too long, run that part in the worker process, then run the verb again.

        Large objects are written by `large_writes`.
        """
        if self._worker_process is None or call.request.method not in RESTARTED_METHODS:
            return self._verb(call) if call.name else await self._collection(call)
        large = self._large.covers(call)
        limited, warnings = LimitedRequest(on_loop=not large), list(call.warnings)
        attempts = MAX_PREPARATIONS if large else 0
        for _ in range(MAX_STARTS):
            try:
                with limited:
                    if not attempts:
                        return self._verb(call) if call.name else await self._collection(call)
                    data = await self._large.write(call)
                if data is not None:
                    created = call.created or call.request.method == "POST"
                    return self._shown(call, 201 if created else 200, data)
                attempts -= 1
            except NeedsWorkerProcess as long:
                limited.answers = limited.answers or {}
                if long.work is not None:
                    limited.answers[long.work] = await self._worker_process.run(long.work)
            call.warnings[:], call.created = warnings, False
        raise status_errors.conflict(call.resource, call.name)

    async def _metrics(self, request: ServerRequest) -> Response | None:
        if request.path != "/metrics" or self._exposed is None:
            return None
        if request.method not in ("GET", "HEAD"):
            raise status_errors.method_not_allowed()
        content_type, body = await self._exposed(request.headers.get("accept", ""))
        return Response(200, {"Content-Type": content_type}, body)

    async def _answer_other_path(self, request: ServerRequest, target: CallTarget | None) -> Response:
        """Answer the paths that name no stored resource."""
        if target is not None and request.method == "POST":
            answer = review(target, request)
            if answer is not None:
                return respond(201, orjson.dumps(answer))
        if target is None and (health := healthy(request)) is not None:
            return Response(200, {"Content-Type": "text/plain; charset=utf-8"}, health)
        mounted = self.registry.mounted.get(target.group) if target is not None else None
        if mounted is not None and mounted.serves(request.path):
            if request.method not in ("GET", "HEAD"):
                raise status_errors.method_not_allowed()
            made = await mounted.answer(request.path, request.query)
            if made is not None:
                return respond(made.status, orjson.dumps(made.body))
        found = discovery(self.registry, request.path, request.headers.get("accept", ""))
        if found is not None:
            if request.method not in ("GET", "HEAD"):
                raise status_errors.method_not_allowed()
            content_type, body = found
            return Response(200, {"Content-Type": content_type}, body)
        if target is not None and (target.group, target.plural) == ("policy", "poddisruptionbudgets"):
            raise status_errors.no_budgets()
        groups = {kind.resource.group for kind in self.registry.all()}
        known = target.group in groups if target else request.path.startswith(("/api/", "/apis/"))
        if not known:
            return Response(404, {"Content-Type": "text/plain; charset=utf-8"}, b"404 page not found\n")
        raise status_errors.no_such_path()

    # --- verbs ---------------------------------------------------------------------------------------------

    def _verb(self, call: Call) -> Response | Stream:
        check_name(call.name)
        if call.subresource:
            return self._subresource(call)
        return self._object(call)

    async def _collection(self, call: Call) -> Response | Stream:
        method = call.request.method
        if method == "GET":
            if flag(call.request.query, "watch"):
                return self._watch(call)
            return respond(200, await list_objects(self.store, call), call.warnings)
        if method == "DELETE":
            return await self._delete_collection(call)
        if call.resource.namespaced and not call.namespace:
            raise status_errors.method_not_allowed()
        if method == "POST":
            return self._shown(call, 201, self._writer.create(call))
        raise status_errors.method_not_allowed()

    async def _delete_collection(self, call: Call) -> Response:
        if call.resource == NAMESPACES or (call.resource.namespaced and not call.namespace):
            raise status_errors.method_not_allowed()
        body = await self._deleter.delete_collection(call, DeleteOptions.of(call))
        return respond(200, body, call.warnings)

    def _object(self, call: Call) -> Response | Stream:
        if call.resource.namespaced and not call.namespace:
            raise status_errors.no_such_path()
        match call.request.method:
            case "GET" if flag(call.request.query, "watch"):
                return self._watch(_one_object(call))
            case "GET":
                asked = version(call)
                if asked > self.store.revision:
                    raise status_errors.resource_version_too_large(asked, self.store.revision)
                return self._shown(call, 200, self._writer.require(call).data)
            case "PUT":
                data = self._writer.update(call)
                return self._shown(call, 201 if call.created else 200, data)
            case "PATCH":
                data = self._writer.patch(call)
                return self._shown(call, 201 if call.created else 200, data)
            case "DELETE":
                return self._delete(call)
        raise status_errors.method_not_allowed()

    def _subresource(self, call: Call) -> Response | Stream:
        method, name = call.request.method, call.subresource
        if call.resource.namespaced and not call.namespace:
            raise status_errors.no_such_path()
        if name == "status" and call.kind.has_status:
            match method:
                case "GET":
                    return self._shown(call, 200, self._writer.require(call).data)
                case "PUT":
                    return self._shown(call, 200, self._writer.update(call))
                case "PATCH":
                    return self._shown(call, 200, self._writer.patch(call))
            raise status_errors.method_not_allowed()
        if name == "finalize" and call.resource == NAMESPACES:
            if method != "PUT":
                raise status_errors.method_not_allowed()
            return self._shown(call, 200, finalize(self._writer, call))
        return self._act(call)

    def _act(self, call: Call) -> Response | Stream:
        """Run the subresources that perform an action."""
        if _is_missing_status(call):
            raise status_errors.not_found(call.resource, call.name)
        if call.resource == PODS and call.subresource in CONTAINER_SUBRESOURCES:
            self._writer.require(call)
            raise status_errors.no_streams(call.subresource)
        if call.subresource not in call.kind.subresources:
            raise status_errors.no_such_path()
        match call.subresource, call.request.method:
            case "log", "GET":
                return self._pods.log(call)
            case "binding", "POST":
                return respond(201, self._pods.bind(call), call.warnings)
            case "eviction", "POST":
                return respond(201, self._pods.evict(call), call.warnings)
            case "log" | "binding" | "eviction", _:
                raise status_errors.method_not_allowed()
        raise status_errors.no_such_path()

    def _delete(self, call: Call) -> Response:
        options = DeleteOptions.of(call)
        outcome = self._deleter.delete(call, options)
        body = outcome.body(call, options)
        if outcome.gone and call.resource != PODS:
            return respond(200, body, call.warnings)
        return self._shown(call, outcome.status, body)

    def _watch(self, call: Call) -> Stream:
        resource, kind = call.resource, call.kind

        def served() -> bool:
            return self.registry.find(resource.group, resource.version, resource.plural) is kind

        watch = Watch(self.store, call, lambda: self._closing, served)
        return Stream(200, {"Content-Type": "application/json"}, watch.chunks())

    def _shown(self, call: Call, status: int, data: bytes) -> Response:
        return respond(status, call.view.one(data, self.store.now), call.warnings)

    # --- the server's own objects --------------------------------------------------------------------------

    def _create_first_namespaces(self) -> None:
        kind = self.registry.find("", "v1", NAMESPACES.plural)
        if kind is None or self.store.count(str(NAMESPACES)):
            return
        for name in FIRST_NAMESPACES:
            created = timestamp(self.store.now())
            meta = {"name": name, "uid": self.store.new_uid(), "creationTimestamp": created}
            obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
            obj |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
            kind.prepare_create(obj)
            self.store.put(str(NAMESPACES), obj, dict(kind.fields(obj)))

    def _definitions_changed(self, change: StoredChange) -> None:
        """Serve exactly the kinds that the stored CustomResourceDefinitions define."""
        if change.resource != str(CRDS):
            return
        definition = decode(change.new)
        if change.type == "DELETED":
            self.registry.remove(definition)
            spec = definition.get("spec") or {}
            table = f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}"
            asyncio.get_running_loop().call_soon(self._drop_objects, table)
        elif change.old is None or decode(change.old)["spec"] != definition["spec"]:
            self.registry.install(definition)
            self.store.wake_all()  # ends the watches of the old definition; clients reconnect and see the new one

    def _drop_objects(self, table: str) -> None:
        """Delete all objects of a kind that is no longer served. Its watches report these deletions, then end."""
        dropped = list(self.store.scan(table))
        for stored in dropped:
            self.store.remove(table, decode(stored))
        if not dropped:
            self.store.wake_all()


def healthy(request: ServerRequest) -> bytes | None:
    """Return the response to a health request (the whole server or one check), or None if the request is not one."""
    name, slash, check = request.path.removeprefix("/").partition("/")
    if name not in HEALTH or (slash and check not in CHECKS):
        return None
    if check or "verbose" not in request.query:
        return b"ok"
    return "".join([*(f"[+]{each} ok\n" for each in CHECKS), f"{name} check passed\n"]).encode()


def _is_missing_status(call: Call) -> bool:
    """Return whether the call is for the status of a custom kind without a status subresource.

    A real server answers such a path with 404 for the object.
    """
    return call.subresource == "status" and call.kind.is_custom


def _one_object(call: Call) -> Call:
    """Turn the watch of a single object into a watch of its collection with a field selector on the name."""
    query = {**call.request.query, "fieldSelector": f"metadata.name={call.name}"}
    return Call(call.request._replace(query=query), call.kind, call.namespace, "", "", call.view)
