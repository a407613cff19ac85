"""The kubeconfig of a local cluster: only its owner may read it, for the token in it is the key to the machine."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

NAME = "sluice"


def write_kubeconfig(path: Path, url: str, token: str) -> None:
    """Write the file anew with mode 0600; a reader sees the old one or the new one, never half."""
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": url}}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yaml.safe_dump(tree, file, sort_keys=False)
    scratch.replace(path)
