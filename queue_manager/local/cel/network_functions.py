"""Functions of addresses, networks and URLs."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from queue_manager.local.cel.cel_values import CelError, Function
from queue_manager.local.cel.text_functions import as_text


def ip(value: Any) -> Any:
    """Parse an IPv4 or IPv6 address. Raises CelError."""
    try:
        return ipaddress.ip_address(as_text(value))
    except ValueError as error:
        raise CelError(f"IP Address {value!r} parse error during conversion from string: {error}") from error


def cidr(value: Any) -> Any:
    """Parse an address with a prefix length. Raises CelError."""
    try:
        if "/" not in as_text(value):
            raise ValueError("no '/'")
        return ipaddress.ip_interface(value)
    except ValueError as error:
        raise CelError(f"network address parse error during conversion from string: {error}") from error


def _contains_ip(network: Any, address: Any) -> bool:
    return (ip(address) if isinstance(address, str) else address) in network.network


def _contains_cidr(network: Any, other: Any) -> bool:
    other = cidr(other) if isinstance(other, str) else other
    return bool(other.version == network.version and other.network.subnet_of(network.network))


class Url:
    """A parsed absolute URL or path."""

    def __init__(self, text: str) -> None:
        self.parts = urlsplit(text)
        if not (self.parts.scheme or text.startswith("/")):
            raise CelError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")


def _host_name(url: Url) -> str:
    return url.parts.hostname or ""


METHODS: dict[str, Function] = {
    "family": lambda value: value.version,
    "isLoopback": lambda value: value.is_loopback,
    "isUnspecified": lambda value: value.is_unspecified,
    "isLinkLocalUnicast": lambda value: value.is_link_local,
    "isGlobalUnicast": lambda value: not (value.is_loopback or value.is_multicast or value.is_unspecified),
    "ip": lambda value: value.ip,
    "prefixLength": lambda value: value.network.prefixlen,
    "masked": lambda value: ipaddress.ip_interface(str(value.network)),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "getScheme": lambda url: url.parts.scheme,
    "getHost": lambda url: url.parts.netloc.rpartition("@")[2],
    "getHostname": _host_name,
    "getPort": lambda url: "" if url.parts.port is None else str(url.parts.port),
    "getEscapedPath": lambda url: quote(url.parts.path, safe="/%:@!$&'()*+,;=-._~"),
    "getQuery": lambda url: parse_qs(url.parts.query, keep_blank_values=True),
}
