"""Network namespaces for pods on this machine, each with one link to the host. Needs root and iproute2.

A pod reaches the host, where kube-apiserver is, and the host reaches each pod. Pods do not reach each other.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

PREFIX = "10.231"  # the first half of all addresses


@dataclass(frozen=True)
class PodPlace:
    """A network namespace and the address in it."""

    namespace: Path
    address: str


@dataclass(frozen=True)
class PodNetwork:
    """`host`: the address of the host on all links."""

    host: str
    places: tuple[PodPlace, ...]


@contextlib.contextmanager
def pod_network(count: int) -> Iterator[PodNetwork]:
    """Make the namespaces; they are removed at the end with their links."""
    net = f"{PREFIX}.{_free_third_octet()}"
    names = [f"sluice-{uuid4().hex[:8]}" for _ in range(count)]
    try:
        places = [_place(name, f"{net}.1", f"{net}.{10 + index}") for index, name in enumerate(names)]
        yield PodNetwork(f"{net}.1", tuple(places))
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _place(name: str, host: str, address: str) -> PodPlace:
    """Two addresses of the link name each other as their peer, so the host has the same address on every link."""
    link = name.replace("sluice-", "slc-")
    _ip("netns", "add", name)
    _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
    _ip("address", "add", host, "peer", address, "dev", link)
    _ip("link", "set", link, "up")
    _ip("-netns", name, "address", "add", address, "peer", host, "dev", "eth0")
    for each in ("lo", "eth0"):
        _ip("-netns", name, "link", "set", each, "up")
    return PodPlace(Path("/run/netns") / name, address)


def _free_third_octet() -> int:
    used = {entry["local"] for link in json.loads(_ip("-json", "address")) for entry in link["addr_info"]}
    return next(octet for octet in range(256) if f"{PREFIX}.{octet}.1" not in used)


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout
