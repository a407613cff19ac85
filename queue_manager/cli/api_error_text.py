"""What commands print of an error of the API server.

An API server that cannot call a webhook answers with the request that failed, and not with what that means.
"""

from __future__ import annotations

import re

from queue_manager.api.component_names import CONVERSION_SERVICE, WEBHOOK_SERVICE
from queue_manager.cli.connection_errors import REFUSED, TIMED_OUT
from queue_manager.engine.transport_protocol import ApiError

# `failed calling webhook "vjob.kb.io": ...: CAUSE`, or `conversion webhook for kueue.x-k8s.io/v1beta2, Kind=Workload
# failed: ...: CAUSE`; the URL that was called, if it came so far, is quoted before the cause.
_WEBHOOK = re.compile(
    r'(?:failed calling webhook "(?P<name>[^"]+)"|(?P<of>conversion webhook for .+?),? failed): (?P<rest>.*)', re.DOTALL
)
NOT_DECODED = "cannot be handled as a "
_STRICT = re.compile(r'(unknown|duplicate) field "((?:[^"\\]|\\.)*)"')
_URL = re.compile(r'"https://[^"]*": (?P<cause>.*)', re.DOTALL)
_OURS = (WEBHOOK_SERVICE, CONVERSION_SERVICE)
_CAUSES = (
    ("connection refused", REFUSED),
    ("no endpoints available", "its Service has no ready pod"),
    ("x509: ", "its certificate is not trusted"),
    ("context deadline exceeded", TIMED_OUT),
    ("i/o timeout", TIMED_OUT),
    ("Client.Timeout", TIMED_OUT),
    ("no such host", "no address is known for its Service"),
    ("no route to host", "no route to its Service"),
)
_WHAT_TO_DO = "`sluice doctor` says what is wrong with the installation; repeat the command once a manager runs"


def api_error_text(error: ApiError) -> str:
    """Return status, reason and message; of a webhook that does not answer, one sentence with the cause."""
    return webhook_sentence(error.message) or f"{f'{error.status} {error.reason}'.rstrip()}: {error.message}"


def webhook_sentence(message: str) -> str:
    """Return which webhook does not answer, why, and what to do; "" for a message about something else."""
    found = _WEBHOOK.search(message)
    if found is None or not (cause := _cause(found["rest"])):
        return ""
    webhook = f"the webhook {found['name']}" if found["name"] else f"the {found['of']}"
    if any(service in found["rest"] for service in _OURS):
        return f"no manager answers {webhook} ({cause}), so the API server refuses the request; {_WHAT_TO_DO}"
    return f"nothing answers {webhook} ({cause}), so the API server refuses the request; it is not a webhook of Sluice"


def conversion_failure(message: str) -> str:
    """Return what is wrong with the conversion webhook that a read has failed for; "" for another message."""
    found = _WEBHOOK.search(message)
    if found is None or not found["of"]:
        return ""
    if cause := _cause(found["rest"]):
        return f"the conversion webhook does not answer: {cause}"
    return f"the conversion webhook fails: {_one_line(found['rest'])}"


def strict_errors(message: str) -> list[tuple[str, str]]:
    """Return (unknown or duplicate, path) of each field that strict decoding refuses; empty for another message."""
    return _STRICT.findall(message) if NOT_DECODED in message else []


def _cause(rest: str) -> str:
    """Return why a webhook does not answer; "" if it has answered, though not as it should."""
    url = _URL.search(rest)
    if url is None and "service" not in rest:
        return ""
    cause = url["cause"] if url else rest
    return next((text for mark, text in _CAUSES if mark in cause), _one_line(cause))


def _one_line(text: str) -> str:
    return " ".join(text.split())
