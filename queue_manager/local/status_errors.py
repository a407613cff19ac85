"""Errors of the API server as metav1.Status objects.

Messages, reasons and details are those of a Kubernetes API server (apimachinery/pkg/api/errors), as clients match them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from job_controller.api_rules.field_errors import FieldError, sentence
from queue_manager.api.api_resources import Resource


class StatusError(Exception):
    """A request that fails with an error. `details` and `metadata` are copied into the Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}
        self.warnings: list[str] = []

    def status(self) -> dict[str, Any]:
        """The Status object of the response."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if not self.reason:
            del status["reason"]
        if self.details is not None:
            status["details"] = dict(self.details)
        status["code"] = self.code
        return status


def success(resource: Resource, name: str, uid: str) -> dict[str, Any]:
    """The Status of a completed deletion."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**_details(resource, name), "uid": uid},
    }


def _details(resource: Resource, name: str, kind: str = "") -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in details.items() if value}


def _kind_name(resource: Resource) -> str:
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


def bad_request(message: str) -> StatusError:
    """400: the request is malformed."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """401: no valid credentials."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: Resource | None, name: str, message: str, causes: Iterable[FieldError] = ()) -> StatusError:
    """403. Without a resource the message names no object."""
    if resource is None:
        return StatusError(403, "Forbidden", f"forbidden: {message}", {})
    details = _details(resource, name) | _causes(causes)
    quoted = f' "{name}"'
    return StatusError(403, "Forbidden", f"{resource}{quoted} is forbidden: {message}", details)


def denied(webhook: str, errors: Iterable[FieldError]) -> StatusError:
    """403 as from an admission webhook of this name."""
    text = f'admission webhook "{webhook}" denied the request: {sentence(list(errors))}'
    return StatusError(403, "Forbidden", text)


def not_found(resource: Resource, name: str) -> StatusError:
    """404: no object of this name."""
    return StatusError(404, "NotFound", f'{resource} "{name}" not found', _details(resource, name))


def no_such_path() -> StatusError:
    """404: the path is not served."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def no_budgets() -> StatusError:
    """404 that says that PodDisruptionBudgets are not supported, not only that the path is unknown."""
    message = "this cluster has no PodDisruptionBudgets: nothing limits evictions"
    return StatusError(404, "NotFound", message, {"group": "policy", "kind": "poddisruptionbudgets"})


def no_streams(subresource: str) -> StatusError:
    """404 for subresources that stream into a container, with the reason instead of only "not found"."""
    message = f"{subresource} is not served here: containers are ordinary processes of this machine, use a shell"
    return StatusError(404, "NotFound", message, {"kind": "pods"})  # kubectl debug reads the details


def method_not_allowed() -> StatusError:
    """405: the path does not support the method."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_acceptable(accepted: Iterable[str]) -> StatusError:
    """406: none of the media types that the client accepts is served."""
    text = ", ".join(accepted)
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {text}")


def already_exists(resource: Resource, name: str, *, going: bool = False) -> StatusError:
    """409. `going`: the object of that name is being deleted, so trying again later may succeed."""
    prefix = "object is being deleted: " if going else ""
    return StatusError(409, "AlreadyExists", f'{prefix}{resource} "{name}" already exists', _details(resource, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> StatusError:
    """409: the write was based on another resourceVersion, or `why` says what else is in conflict."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(resource, name))


def precondition_failed(resource: Resource, name: str, why: str) -> StatusError:
    """409 of a DELETE whose Preconditions do not hold; names the kind, not the resource."""
    message = f'Operation cannot be fulfilled on {_kind_name(resource)} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(resource, name, resource.kind))


def gone(message: str, *, continue_token: str = "") -> StatusError:
    """410: the history no longer contains the resourceVersion."""
    return StatusError(410, "Expired", message, metadata={"continue": continue_token} if continue_token else None)


def too_large(limit: int) -> StatusError:
    """413: the body is longer than `limit` bytes."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def unsupported_media_type(message: str) -> StatusError:
    """415: the content type of the body is not supported."""
    return StatusError(415, "UnsupportedMediaType", message)


def invalid(resource: Resource, name: str, errors: Iterable[FieldError]) -> StatusError:
    """422 with one cause per rejected value."""
    found = list(errors)
    return StatusError(
        422,
        "Invalid",
        f'{_kind_name(resource)} "{name}" is invalid: {sentence(found)}',
        _details(resource, name, resource.kind) | _causes(found),
    )


def _causes(errors: Iterable[FieldError]) -> dict[str, Any]:
    causes = [{"reason": e.reason, "message": e.message, "field": e.field} for e in errors]
    return {"causes": causes} if causes else {}


def unexplained(message: str) -> StatusError:
    """500 with a message and no reason, as a real server answers a resourceVersion that is not a number."""
    return StatusError(500, "", message)


def internal(message: str) -> StatusError:
    """Return a StatusError 500 for a failure of the server itself."""
    cause = {"message": message}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [cause]})


def resource_version_too_large(asked: int, current: int) -> StatusError:
    """504: the requested resourceVersion has not been written yet."""
    message = f"Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(504, "Timeout", f"Timeout: {message}", {"causes": [cause], "retryAfterSeconds": 1})
