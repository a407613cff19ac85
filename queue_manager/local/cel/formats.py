"""Named formats of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from job_controller import names
from queue_manager.local.cel.texts import as_text
from queue_manager.local.cel.values import NONE, Function, Optional
from queue_manager.local.schema.formats import has_format

_is_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
Check = Callable[[str], Sequence[str]]


def _dns_1035(text: str) -> list[str]:
    found = ["must be no more than 63 characters"] if len(text) > 63 else []
    return found if _is_1035(text) else [*found, _1035_TEXT]


def _prefix(check: Check) -> Check:
    """Of a name that something is added to: it may end with a dash."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _as(name: str, problem: str) -> Check:
    """What a schema knows under this name."""
    return lambda text: [] if has_format(text, name) else [problem]


_FORMATS: dict[str, Check] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": _dns_1035,
    "dns1123LabelPrefix": _prefix(names.dns_label),
    "dns1123SubdomainPrefix": _prefix(names.dns_subdomain),
    "dns1035LabelPrefix": _prefix(_dns_1035),
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
