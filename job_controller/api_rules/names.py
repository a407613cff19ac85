"""Names and label texts: what is valid, and the messages about invalid ones (upstream apimachinery util/validation).

Each function returns the messages of an API server in its order; an empty list means that the text is valid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_ALNUM = "[A-Za-z0-9]"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = f"({_ALNUM}[-A-Za-z0-9_.]*)?{_ALNUM}"
_LABEL_VALUE = f"({_QUALIFIED})?"
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_is_label = re.compile(_LABEL).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_label_value = re.compile(_LABEL_VALUE).fullmatch
_is_path = re.compile(_PATH).fullmatch
_is_port_charset = re.compile("[-a-z0-9]+").fullmatch
_is_environment = re.compile("[ -<>-~]+").fullmatch
_is_config_key = re.compile(r"[-._a-zA-Z0-9]+").fullmatch

MUST_BE_SET = "must be non-empty"


def _regex(text: str, regex: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{example}'" for example in examples)
    return f"{text} (e.g. {shown}, regex used for validation is '{regex}')"


_LABEL_TEXT = _regex(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_LABEL_1035_TEXT = _regex(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_SUBDOMAIN_TEXT = _regex(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_QUALIFIED_TEXT = _regex(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _QUALIFIED,
    "MyName",
    "my.name",
    "123-abc",
)
_LABEL_VALUE_TEXT = _regex(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_ENVIRONMENT_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_CONFIG_KEY_TEXT = _regex(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    r"[-._a-zA-Z0-9]+",
    "key.name",
    "KEY_NAME",
    "key-name",
)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _check(text: str, limit: int, unit: str, matches: bool, message: str) -> list[str]:
    found = [f"must be no more than {limit} {unit}"] if _bytes(text) > limit else []
    return found if matches else [*found, message]


def dns_label(text: str) -> list[str]:
    """Return the problems of an RFC 1123 label, the name of a container, host or namespace; [] if valid."""
    if len(text) <= 63 and _is_label(text):
        return []
    return _check(text, 63, "characters", _is_label(text) is not None, _LABEL_TEXT)


def dns_1035_label(text: str) -> list[str]:
    """Return the problems of an RFC 1035 label, which starts with a letter, as the name of a Service does."""
    return _check(text, 63, "characters", _is_label_1035(text) is not None, _LABEL_1035_TEXT)


def dns_subdomain(text: str) -> list[str]:
    """Return the problems of an RFC 1123 subdomain: the name of most objects."""
    if len(text) <= 253 and _is_subdomain(text):
        return []
    return _check(text, 253, "characters", _is_subdomain(text) is not None, _SUBDOMAIN_TEXT)


def label_value(text: str) -> list[str]:
    """Return the problems of a label value: it is empty, or at most 63 alphanumeric characters, '-', '_' and '.'."""
    if len(text) <= 63 and _is_label_value(text):
        return []
    return _check(text, 63, "bytes", _is_label_value(text) is not None, _LABEL_VALUE_TEXT)


@lru_cache(maxsize=4096)
def qualified_name(text: str) -> Sequence[str]:
    """`name` or `dns.prefix/name`: label keys, condition types, resource names. Cached, because keys recur."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        example = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a qualified name {_QUALIFIED_TEXT}{example}",)
    found: list[str] = []
    if slash:
        found = [f"prefix part {text}" for text in (dns_subdomain(prefix) if prefix else [MUST_BE_SET])]
    if not name:
        found.append("name part " + MUST_BE_SET)
    elif _bytes(name) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _is_qualified(name):
        found.append("name part " + _QUALIFIED_TEXT)
    return tuple(found)


def path_segment(text: str) -> list[str]:
    """What no object may be named, whatever its kind, because the name is a segment of a URL."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in text]


def domain_prefixed_path(text: str) -> list[tuple[str, str]]:
    """`example.com/some/path`. Returns pairs of the invalid part and its message."""
    domain, _, path = text.partition("/")
    if not domain or not path:
        return [(text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    found = [(domain, message) for message in dns_subdomain(domain)]
    if not _is_path(path):
        found.append((path, f"Invalid path (regex used for validation is '{_PATH}')"))
    return found


def environment_name(text: str) -> list[str]:
    """Return the problems of the name of an environment variable."""
    if not text:
        return [MUST_BE_SET]
    return [] if _is_environment(text) else [_ENVIRONMENT_TEXT]


def config_key(text: str) -> list[str]:
    """Return the problems of a key of a ConfigMap or Secret."""
    found = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _is_config_key(text):
        found.append(_CONFIG_KEY_TEXT)
    if text in (".", "..") or text.startswith(".."):
        found.append(f"must not be '{text}'" if text in (".", "..") else "must not start with '..'")
    return found


def port_name(text: str) -> list[str]:
    """Return the problems of an IANA service name: at most 15 of a-z, 0-9 and '-', at least one letter."""
    found = ["must be no more than 15 characters"] if len(text) > 15 else []
    if not _is_port_charset(text):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in text):
        found.append("must contain at least one letter (a-z)")
    if "--" in text:
        found.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def port_number(port: int) -> list[str]:
    """Return the problems of a port number, which is 1 to 65535."""
    return [] if 1 <= port <= 65535 else ["must be between 1 and 65535, inclusive"]
