"""What the API server's refusal of a manifest means, with file, line and field of each cause."""

from __future__ import annotations

from typing import Any

from queue_manager.cli.api_error_text import webhook_sentence
from queue_manager.cli.decode_errors import explain_decoding
from queue_manager.cli.manifests import Manifest
from queue_manager.engine.transport_protocol import ApiError, Response


def is_taken(answer: Response) -> bool:
    """Whether the server refuses a Job only because another one has its name."""
    return not answer.is_success and ApiError.of(answer.status, answer.body).is_name_taken


def refusal_lines(manifest: Manifest, answer: Response) -> list[str]:
    """Return one line per cause, with the file and line of the field that the cause names."""
    error = ApiError.of(answer.status, answer.body)
    causes = (error.body.get("details") or {}).get("causes") or []
    lines = list(dict.fromkeys(_cause_line(manifest, cause) for cause in causes)) or explain_decoding(
        manifest, error.message
    )
    advice = "; --replace deletes that one first" if is_taken(answer) else ""
    return lines or [f"{manifest.place('metadata.name')}: {webhook_sentence(error.message) or error.message}{advice}"]


def _cause_line(manifest: Manifest, cause: dict[str, Any]) -> str:
    """Return a cause with its place. The cause of a webhook that does not answer has no field."""
    field = cause.get("field") or ""
    message = cause.get("message") or ""
    return ": ".join(filter(None, (manifest.place(field), field, webhook_sentence(message) or message)))
