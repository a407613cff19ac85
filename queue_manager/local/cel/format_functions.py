"""Named formats of strings (Kubernetes' CEL format library)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from job_controller.api_rules import names
from queue_manager.local.cel.cel_values import NONE, Function, Optional
from queue_manager.local.cel.text_functions import as_text
from queue_manager.local.schema.string_formats import has_format

Check = Callable[[str], Sequence[str]]


def _prefix(check: Check) -> Check:
    """Relax a name check for prefixes as in generateName, which may end with a dash."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _as(name: str, problem: str) -> Check:
    """Return a check that reports `problem` for texts without the schema format of this name."""
    return lambda text: [] if has_format(text, name) else [problem]


_FORMATS: dict[str, Check] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "dns1123LabelPrefix": _prefix(names.dns_label),
    "dns1123SubdomainPrefix": _prefix(names.dns_subdomain),
    "dns1035LabelPrefix": _prefix(names.dns_1035_label),
    "qualifiedName": names.qualified_name,
    "labelValue": names.label_value,
    "uri": _as("uri", "invalid URI for request"),
    "uuid": _as("uuid", "does not match the UUID format"),
    "byte": _as("byte", "invalid base64"),
    "date": _as("date", "invalid date"),
    "datetime": _as("datetime", "invalid datetime"),
}


class Format:
    """A named format of strings."""

    def __init__(self, check: Check) -> None:
        self.check = check


def _validate_format(form: Format, value: Any) -> Optional:
    found = form.check(as_text(value))
    return Optional(True, list(found)) if found else NONE


def _named_format(name: Any) -> Optional:
    return Optional(True, Format(_FORMATS[name])) if name in _FORMATS else NONE


METHODS: dict[str, Function] = {"validate": _validate_format}
NAMESPACED: dict[str, Function] = {
    "format.named": _named_format,
    **{f"format.{name}": partial(Format, check) for name, check in _FORMATS.items()},
}
