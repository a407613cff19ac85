"""In which form an object or list is returned: whole, as a table, or its metadata only. The Accept header decides.

Source: k8s.io/apiserver, endpoints/handlers/negotiation.
"""

from __future__ import annotations

from typing import Literal

from queue_manager.local import status_errors
from queue_manager.local.server.http_messages import JSON_TYPE

Form = Literal["json", "table", "partial"]


def negotiate(accept: str) -> Form:
    """Return the response format: the first in the Accept header that the server supports. Raises 406."""
    if not accept or accept == JSON_TYPE:
        return "json"
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        if media not in (JSON_TYPE, "*/*", "application/*"):
            continue
        match options.get("as", ""):
            case "":
                return "json"
            case "Table" if options.get("v", "v1") == "v1":
                return "table"
            case "PartialObjectMetadata" | "PartialObjectMetadataList" if options.get("v", "v1") == "v1":
                return "partial"
            case _:
                continue
    raise status_errors.not_acceptable(
        [
            JSON_TYPE,
            f"{JSON_TYPE};as=Table;v=v1;g=meta.k8s.io",
            f"{JSON_TYPE};as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        ]
    )
