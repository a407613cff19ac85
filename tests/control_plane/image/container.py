"""Run the image with runc, the runtime of most clusters, as a kubelet runs a restricted pod."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.control_plane.image.oci_layout import Image

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_SAFE = ["nosuid", "noexec", "nodev"]
_MOUNTS = [
    {"destination": "/proc", "type": "proc", "source": "proc", "options": _SAFE},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": [*_SAFE, "mode=1777", "size=64m"]},
]


@dataclass(frozen=True)
class Surroundings:
    """What a kubelet gives a container. `binds`: folders that it mounts read-only, by their place in the container.

    `network`: the file of the network namespace; None: the host's. `hostname` "": one that runc chooses.
    """

    env: Sequence[str] = ()
    binds: Mapping[str, Path] = field(default_factory=dict)
    network: Path | None = None
    hostname: str = ""


def command(bundle: Path, image: Image, program: Sequence[str], given: Surroundings | None = None) -> list[str]:
    """Write a bundle for runc; returns the command that runs it in the foreground."""
    bundle.mkdir()
    (bundle / "config.json").write_text(json.dumps(specification(image, program, given or Surroundings())))
    return [*runc(bundle), "run", "--bundle", str(bundle), bundle.name]


def runc(bundle: Path) -> list[str]:
    """The command runc, with what it knows of the container, whose name is that of the bundle's folder."""
    binary = shutil.which("runc")
    assert binary is not None, "runc is missing: make image-tools"
    return [binary, "--root", str(bundle / "state")]


def specification(image: Image, program: Sequence[str], given: Surroundings) -> dict[str, Any]:
    """The container of OCI's runtime specification: the image's user, a root that is mounted read-only,
    no capability, and no way to gain one.
    """
    uid, gid = (int(number) for number in image.config["User"].split(":"))
    process = {
        "user": {"uid": uid, "gid": gid},
        "args": list(program),
        "env": [*image.config["Env"], *given.env],
        "cwd": image.config.get("WorkingDir") or "/",
        "capabilities": {},
        "noNewPrivileges": True,
    }
    network = [{"type": "network", "path": str(given.network)}] if given.network is not None else []
    return {
        "ociVersion": "1.0.2",
        "root": {"path": str(image.root), "readonly": True},
        "process": process,
        **({"hostname": given.hostname} if given.hostname else {}),
        "mounts": [*_MOUNTS, *(_bind(place, folder) for place, folder in given.binds.items())],
        "linux": {"namespaces": [*({"type": kind} for kind in ("mount", "pid", "ipc", "uts")), *network]},
    }


def _bind(place: str, folder: Path) -> dict[str, Any]:
    return {"destination": place, "type": "bind", "source": str(folder), "options": ["bind", "ro", *_SAFE]}
