"""Finds the pod and container whose log is meant, and reads it through the official client."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import msgspec
from kubernetes.client import ApiException, CoreV1Api
from urllib3.exceptions import HTTPError, ReadTimeoutError

from job_controller.condition_types import FAILED
from job_controller.conditions import finished
from job_controller.model import Job
from job_controller.pod_facts import completion_index
from queue_manager.client.error_translation import api_error
from queue_manager.client.errors import NoLogs
from queue_manager.client.job_requests import read_pods
from queue_manager.client.official_transport import blocking
from queue_manager.engine.transport_protocol import is_success
from queue_manager.last_line import TAIL_BYTES, TAIL_LINES, error_line
from queue_manager.lifecycle.pod_causes import cause_of
from queue_manager.visibility.log_selection import missing_index
from queue_manager.visibility.pod_attempts import creation_order, failed_container, has_started

if TYPE_CHECKING:
    from kubernetes.client import ApiClient
    from urllib3 import HTTPResponse

    from queue_manager.visibility.pod_failures import Failure
    from queue_manager.visibility.wire_types import ContainerStatus, Pod

NODE_SECONDS = 10  # timeout of one line: the API server proxies to the node, which may be gone
CHUNK_BYTES = 1 << 16
HEAD_TRIES = 4  # in which urllib3 sends a request, by default, until the head of its response has arrived
UNREADABLE = (400, 404, 500, 502, 503, 504)  # the container has not started, the pod is gone, the node does not answer


class LoggedContainer(NamedTuple):
    """A container of a pod. An empty container name means the only container of the pod."""

    namespace: str
    pod: str
    container: str


@overload
def source(
    api_client: ApiClient, job: Job, index: int | None, container: str, state: str, *, wait: Literal[False] = False
) -> LoggedContainer: ...


@overload
def source(
    api_client: ApiClient, job: Job, index: int | None, container: str, state: str, *, wait: bool
) -> LoggedContainer | None: ...


def source(
    api_client: ApiClient, job: Job, index: int | None, container: str, state: str, *, wait: bool = False
) -> LoggedContainer | None:
    """The container of the newest pod, of this index unless it is None; of a failed Job the newest that has failed.

    Without a pod that has started a container: None if `wait`, else raises NoLogs. Raises NoLogs too if the Job has no
    such index. `state`: that of the Job, with its reason.
    """
    if missing := missing_index(job, index):
        raise NoLogs(missing)
    pods = blocking(api_client, lambda client: read_pods(client, job))
    of_wanted = [pod for pod in pods if index is None or completion_index(pod) == index]
    failed = [pod for pod in of_wanted if failed_container(pod) is not None] if _has_failed(job) else []
    found = _newest(failed) or _newest(of_wanted)
    name = container or (_container(found) if found is not None else "")
    if found is not None and name:
        return LoggedContainer(*found.metadata.key, name)
    if wait:
        return None
    of_index = "" if index is None else f" for index {index}"
    why = "have started a container" if pods else "exist"
    cause = next((cause.text for pod in reversed(of_wanted) if (cause := cause_of(pod)) is not None), state)
    raise NoLogs(f"Job {job.metadata.key}: no pods{of_index} {why}: {cause}")


def read(api_client: ApiClient, source: LoggedContainer, tail_lines: int | None) -> str:
    """The log so far. Raises NoLogs if the pod is gone or its node does not answer."""
    options = {} if tail_lines is None else {"tail_lines": tail_lines}
    return _content(api_client, source, **options).decode("utf-8", "replace")


def follow(api_client: ApiClient, source: LoggedContainer, deadline: float = math.inf) -> Iterator[str]:
    """Yield the lines of the log until the container ends. Raises NoLogs, and TimeoutError at `deadline`.

    `deadline`: in the time of time.monotonic.
    """
    rest = b""
    try:
        for chunk in _followed_chunks(api_client, source, deadline):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines)
    except HTTPError as error:
        if isinstance(getattr(error, "reason", error), ReadTimeoutError):
            raise TimeoutError from error
        raise
    if rest:
        yield rest.decode("utf-8", "replace")


def _followed_chunks(api_client: ApiClient, source: LoggedContainer, deadline: float) -> Iterator[bytes]:
    """Yield what is read of the log; a read without data at `deadline` ends with a ReadTimeoutError."""
    each_try = _left(deadline) / HEAD_TRIES
    limit = {} if deadline == math.inf else {"_request_timeout": (each_try, each_try)}
    response = _response(api_client, source, follow=True, **limit)
    chunks = response.stream(CHUNK_BYTES, decode_content=False)
    try:
        while True:
            socket = getattr(response.connection, "sock", None)
            if limit and socket is not None:
                socket.settimeout(_left(deadline))
            chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk
    finally:
        response.close()
        response.release_conn()


def _left(deadline: float) -> float:
    """Return the seconds until the deadline. Raises TimeoutError after it."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def with_error_line(api_client: ApiClient, failure: Failure) -> Failure:
    """The failure with the error line of its container's log, if that can be read, unless its status has it."""
    if failure.message:
        return failure
    source = LoggedContainer(failure.namespace, failure.pod, failure.container)
    try:
        log = _content(api_client, source, tail_lines=TAIL_LINES, limit_bytes=TAIL_BYTES, _request_timeout=NODE_SECONDS)
    except (NoLogs, ApiException, HTTPError):
        return failure
    return msgspec.structs.replace(failure, error_line=error_line(log))


def _has_failed(job: Job) -> bool:
    end = finished(job.status)
    return end is not None and end.type == FAILED


def _newest(pods: Sequence[Pod]) -> Pod | None:
    """The pod that was created last, of those that have started a container."""
    started = [pod for pod in pods if any(has_started(status) for status in _containers(pod))]
    return max(started, key=creation_order, default=None)


def _containers(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def _container(pod: Pod) -> str:
    """The container that failed, "" if it could not be started; else the first that has started after the init
    containers, else the last of these.
    """
    failed = failed_container(pod)
    if failed is not None:
        return failed.name if has_started(failed) else ""
    started = [status.name for status in pod.status.container_statuses if has_started(status)]
    return started[0] if started else next(s.name for s in reversed(_containers(pod)) if has_started(s))


def _content(api_client: ApiClient, source: LoggedContainer, **options: Any) -> bytes:
    response = _response(api_client, source, **options)
    try:
        data: bytes = response.data
        return data
    finally:
        response.release_conn()


def _response(api_client: ApiClient, source: LoggedContainer, **options: Any) -> HTTPResponse:
    """The response, not read yet. Raises NoLogs if no log can be read, ApiException if the user may not read it."""
    if source.container:
        options["container"] = source.container
    read_log: Any = CoreV1Api(api_client).read_namespaced_pod_log
    try:
        response: HTTPResponse = read_log(source.pod, source.namespace, _preload_content=False, **options)
        if not is_success(response.status):  # versions before 37 have raised it already
            raise ApiException(http_resp=response)
    except ApiException as error:
        if error.status not in UNREADABLE:
            raise
        raise NoLogs(f"pod {source.namespace}/{source.pod}: {api_error(error).message}") from error
    return response
