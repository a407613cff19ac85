"""The conversion webhook in a CustomResourceDefinition: its defaults and validation.

The embedded server never calls the webhook. It accepts one for the kinds that it converts itself (`crd_versions`), so
that the same definitions can be installed here and on a cluster.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, invalid, required
from job_controller.json_tree import Json
from queue_manager.local.kinds.builtin_kind import lookup

DEFAULT_PORT = 443
REVIEW_VERSIONS = ("v1", "v1beta1")
FORM = "; desired format: https://host[/path]"


def set_webhook_defaults(spec: Json) -> None:
    """Set the default port of the webhook's service, in place."""
    service = lookup(spec, "conversion.webhook.clientConfig.service")
    if service:
        service.setdefault("port", DEFAULT_PORT)


def validate_webhook(webhook: Json, path: str) -> list[FieldError]:
    """Errors of `spec.conversion.webhook`. `path` is that of the conversion: errors name fields as upstream does."""
    client = (webhook or {}).get("clientConfig")
    client_path = f"{path}.webhookClientConfig"
    if client is None:
        errors = [required(client_path, "required when strategy is set to Webhook")]
    elif ("url" in client) == ("service" in client):
        errors = [required(client_path, "exactly one of url or service is required")]
    elif "url" in client:
        errors = _validate_url(str(client["url"]), f"{client_path}.url")
    else:
        errors = _validate_service(client["service"] or {}, f"{client_path}.service")
    return errors + _validate_review_versions((webhook or {}).get("conversionReviewVersions"), path)


def _validate_url(url: str, path: str) -> list[FieldError]:
    parts = urlsplit(url)
    errors = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{FORM}"))
    if not parts.netloc:
        errors.append(invalid(path, "", f"host must be specified{FORM}"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _validate_service(service: Json, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{field}") for field in ("name", "namespace") if not service.get(field)]
    port, url_path = service.get("port", DEFAULT_PORT), service.get("path") or "/"
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(f"{path}.port", port, detail))
    return errors + [invalid(f"{path}.path", url_path, problem) for problem in _path_problems(url_path)]


def _path_problems(url_path: str) -> list[str]:
    if url_path == "/":
        return []
    problems = [] if url_path.startswith("/") else ["must start with a '/'"]
    for index, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            problems.append(f"segment[{index}] may not be empty")
        else:
            problems += [f"segment[{index}]: {problem}" for problem in names.dns_subdomain(segment)]
    return problems


def _validate_review_versions(versions: Json, path: str) -> list[FieldError]:
    field = f"{path}.conversionReviewVersions"
    if not versions:
        return [required(field)]
    if not any(version in REVIEW_VERSIONS for version in versions):
        return [invalid(field, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")]
    return []
