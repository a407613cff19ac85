"""Translates what the official client and urllib3 raise into the errors of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from queue_manager.cli.api_error_text import strict_errors
from queue_manager.cli.connection import refused, unanswered
from queue_manager.cli.connection_errors import plain_reason
from queue_manager.client.errors import ClusterUnreachable, RequestFailed
from queue_manager.engine.transport_protocol import ApiError


@contextmanager
def translated_errors(server: str, kubeconfig: Path | None, prefix: str = "") -> Iterator[None]:
    """Raise RequestFailed for an ApiException, ClusterUnreachable for a connection that fails; their cause is kept.

    `server`: the URL of the API server. `kubeconfig`: the file that names it; None if unknown. `prefix`: of the texts.
    """
    try:
        yield
    except ApiException as official:
        error = api_error(official)
        text = prefix + refused(kubeconfig, error)
        raise RequestFailed(text, error.status, error.reason, error.message, _fields(error)) from official
    except (HTTPError, ConnectionError) as broken:
        text = prefix + unanswered(kubeconfig, server, plain_reason(broken))
        raise ClusterUnreachable(text, server) from broken


def api_error(official: ApiException) -> ApiError:
    """The error of the engine's client that says the same. A watch raises its own without a body."""
    body = official.body or official.reason or ""
    return ApiError.of(official.status or 0, body.encode() if isinstance(body, str) else body)


def _fields(error: ApiError) -> tuple[str, ...]:
    """The fields that the causes of the Status name, or that strict decoding has refused; each once."""
    causes = (error.body.get("details") or {}).get("causes") or []
    named = [str(cause.get("field") or "") for cause in causes] or [field for _, field in strict_errors(error.message)]
    return tuple(dict.fromkeys(field for field in named if field))
