"""Parse the options of a request for a container's log, and find the container."""

from __future__ import annotations

from datetime import datetime

from job_controller.api_rules.field_errors import FieldError, forbidden, invalid
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.local import status_errors
from queue_manager.local.container_logs_protocol import LogOptions
from queue_manager.local.schema import times_and_quantities
from queue_manager.local.server.http_messages import flag
from queue_manager.local.server.listing import number
from queue_manager.local.server.request_info import Call

OPTIONS = Resource("", "v1", "pods/log", "PodLogOptions")


def parse(call: Call) -> LogOptions:
    """Return the options of a request. Raises 400 for malformed options, 422 for invalid combinations."""
    query = call.request.query
    tail, seconds, limit = (
        number(call, name) if call.option(name) else None for name in ("tailLines", "sinceSeconds", "limitBytes")
    )
    since = _time(call.option("sinceTime"))
    problems: list[FieldError] = []
    if tail is not None and tail < 0:
        problems.append(invalid("tailLines", tail, NOT_NEGATIVE))
    if limit is not None and limit < 1:
        problems.append(invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and since is not None:
        problems.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        problems.append(invalid("sinceSeconds", seconds, "must be greater than 0"))
    if call.option("stream"):
        problems.append(forbidden("stream", "may not be specified"))
    if problems:
        raise status_errors.invalid(OPTIONS, call.name, problems)
    return LogOptions(
        follow=flag(query, "follow"),
        previous=flag(query, "previous"),
        timestamps=flag(query, "timestamps"),
        tail_lines=tail,
        since_seconds=seconds,
        since_time=since,
        limit_bytes=limit,
    )


def _time(text: str) -> datetime | None:
    """Parse a time in RFC 3339. Raises 400."""
    if not text:
        return None
    try:
        times_and_quantities.time(text)
    except ValueError as error:
        raise status_errors.bad_request(str(error)) from None
    return datetime.fromisoformat(text)


def container_of(pod: Json, name: str) -> str:
    """Return the named container, or the only one if none is named. Raises 400 when there is no such container."""
    own = [c["name"] for c in pod["spec"].get("containers") or ()]
    names = [*(c["name"] for c in pod["spec"].get("initContainers") or ()), *own]
    names += [c["name"] for c in pod["spec"].get("ephemeralContainers") or ()]
    pod_name = pod["metadata"]["name"]
    if not name and len(own) == 1:
        return str(own[0])
    if not name:
        listed = " ".join(names)
        raise status_errors.bad_request(
            f"a container name must be specified for pod {pod_name}, choose one of: [{listed}]"
        )
    if name not in names:
        raise status_errors.bad_request(f"container {name} is not valid for pod {pod_name}")
    return name
