"""Mistakes in the settings of an installation in our words: the setting, its value, what is allowed. Pure.

Those of a KueueConfig have the same form: `configuration.value_errors`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from queue_manager.configuration.quoted_text import quoted
from queue_manager.visibility.similar_names import similar_names, suggestion

DNS_NAME = "lower-case letters, digits and -, in parts joined by ."
LISTED = "sluice install --list-settings names them all"
MOST_PLACES = 3  # of settings with the same name that are suggested
WANTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "finite_number": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "an integer",
    "int_type": "an integer",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_type": "a string",
}
"""What a value must be, by pydantic's type of error."""
PATTERNS = {
    "namespaces": "lower-case letters, digits and -, as in the name of a namespace",
    "image.digest": "sha256: and 64 hexadecimal digits, or empty",
    "logging.level": "error, warning, info or debug, also of single loggers: info,LOGGER=debug",
    "tracing.endpoint": "a URL with http:// or https://, or empty",
    "tracing.samplerArgument": "a fraction from 0 to 1, or empty",
    "notifications.secretName": f"the name of a Secret ({DNS_NAME}), or empty",
    "certificates.secretName": f"the name of a Secret ({DNS_NAME})",
    "certificates.caBundle": "certificates as PEM (-----BEGIN CERTIFICATE-----), or empty",
    "certificates.issuer.name": f"the name of an issuer ({DNS_NAME}), or empty",
    "monitoring.serviceMonitor.interval": "a duration in ms, s or m, such as 30s",
    "admissionPolicies.breakGlassGroup": "letters, digits and :._@/-, as in the name of a group, or empty",
    "admissionPolicies.queueAccounts": "letters, digits and :._@/-, as in the name of a user",
}
"""What a text must be whose setting has a pattern, by its path without indexes."""


def mistake(error: Mapping[str, Any], known: Collection[str]) -> str:
    """Return one of pydantic's errors as a line. `known`: the paths of all settings and of the sections around them."""
    path = _path(error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{path}: unknown setting; {_instead(path, known)}"
    if error["type"] == "value_error":  # of a validator of ours, whose text says all
        return ": ".join(filter(None, (path, error["msg"].removeprefix("Value error, "))))
    return f"{path}: {_said(error, error.get('ctx') or {})}"


def _instead(path: str, known: Collection[str]) -> str:
    """Suggest settings that resemble an unknown one in its section, or have its name in others, else name what is
    allowed there.
    """
    section, _, name = path.rpartition(".")
    beside = {each.rpartition(".")[2]: each for each in known if each.rpartition(".")[0] == section}
    meant = [beside[each] for each in similar_names(name, beside)]
    elsewhere = [each for each in known if each.rpartition(".")[2] == name]
    if not meant and len(elsewhere) <= MOST_PLACES:
        meant = elsewhere
    return suggestion(meant) or (f"allowed here: {', '.join(beside)}" if section else LISTED)


def _path(location: tuple[str | int, ...]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":  # pydantic's name of a mapping's key, which the part before it names
            path += f".{part}" if path else part
    return path


def _said(error: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    kind, value = error["type"], error["input"]
    if value is None:
        return "is empty; must have a value"
    if kind == "literal_error":
        allowed = context["expected"].replace("'", '"')
        said = f"{_text(value)} is not supported" if isinstance(value, str) else _shown(value)
        return f"{said}; must be {allowed}"
    if kind in ("greater_than_equal", "less_than_equal"):
        least = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
        return f"{_text(value)} is out of range; must be {least}"
    if kind == "string_pattern_mismatch":
        setting = ".".join(part for part in error["loc"] if isinstance(part, str))
        return f"{_text(value)} is not allowed; must be {PATTERNS[setting]}"
    if kind == "string_too_short":
        return "is empty; must have a value"
    if kind == "string_too_long":
        return f"{_text(value)} has {len(value)} characters; must have at most {context['max_length']}"
    return f"{_shown(value)}; must be {WANTED[kind]}"


def _text(value: object) -> str:
    """Return a value as it is written in YAML; a long text is cut."""
    return quoted(value) if isinstance(value, str) else json.dumps(value, default=str)


def _shown(value: object) -> str:
    """Describe a value with its type: `"soon" is a string`, `is a list`."""
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "a boolean"),
        (int, "an integer"),
        (float, "a number"),
        (str, "a string"),
    )
    if isinstance(value, dict | list):
        return f"is a {'mapping' if isinstance(value, dict) else 'list'}"
    return f"{_text(value)} is {next((text for kind, text in kinds if isinstance(value, kind)), 'not a plain value')}"
