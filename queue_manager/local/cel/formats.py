"""Named formats of texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from job_controller import names
from queue_manager.local.cel.texts import as_text
from queue_manager.local.cel.values import NONE, Function, Optional

_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "uuid": lambda text: (
        []
        if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text)
        else ["does not match the UUID format"]
    ),
    "byte": lambda text: [] if re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", text) else ["invalid base64"],
    "date": lambda text: [] if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else ["invalid date"],
}


class Format:
    """A named format of strings."""

    def __init__(self, check: Callable[[str], list[str]]) -> None:
        self.check = check


def _validate_format(form: Format, value: Any) -> Optional:
    found = form.check(as_text(value))
    return Optional(True, found) if found else NONE


def _named_format(name: Any) -> Optional:
    return Optional(True, Format(_FORMATS[name])) if name in _FORMATS else NONE


METHODS: dict[str, Function] = {"validate": _validate_format}
NAMESPACED: dict[str, Function] = {
    "format.named": _named_format,
    **{f"format.{name}": partial(Format, check) for name, check in _FORMATS.items()},
}
